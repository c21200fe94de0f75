"""`retry`, `cancel --force` and the limits of a launch, from the command line."""

import json
from collections.abc import Callable

from engine.home import Home
from engine.store import Reader, Store
from engine.terms import Terms
from tests.cli.conftest import Parallab


def test_a_launch_keeps_its_limits_and_a_retry_has_them_too(parallab: Parallab, home: Home, store: Store) -> None:
    options = ("--set", "dataset=synthetic", "--max-run-time", "90", "--max-retries", "2", "--no-runner", "--json")
    assert json.loads(parallab("submit", "reference", *options).stdout) == {"id": 1}
    store.request_cancel(1, by="ada")
    assert json.loads(parallab("retry", "1", "--no-runner", "--json").stdout) == {"id": 2, "parent_id": 1}
    with Reader.open(home) as reader:
        old, new = reader.run(1), reader.run(2)
    assert (old.terms, new.terms) == (Terms(max_run_time_s=90.0, max_retries=2), Terms(max_run_time_s=90.0, max_retries=2))
    assert (new.config, new.parent_id, new.resumes, new.status) == (old.config, 1, False, "queued")
    shown = parallab("show", "2").stdout
    assert "retries     run 1" in shown
    assert "at most 90 s, retried 0 of at most 2 times" in shown
    assert json.loads(parallab("show", "1", "--json").stdout)["retried_as"] == [2]


def test_what_cannot_be_retried_says_why(parallab: Parallab, live: int, queued: Callable[..., int]) -> None:
    for run_id, words in ((live, "it is running. Cancel it first"), (queued(), "it is queued"), (99, "No run has the id 99")):
        told = parallab("retry", str(run_id), "--no-runner")
        assert (told.returncode, told.stdout) == (2, "")
        assert words in told.stderr


def test_limits_out_of_bounds_are_refused(parallab: Parallab, home: Home) -> None:
    told = parallab("submit", "hogwild", "--max-run-time", "0.2", "--max-retries", "99", "--no-runner")
    assert told.returncode == 2
    assert "max_run_time_s must be from 1 to" in told.stderr
    assert "max_retries must be from 0 to 10" in told.stderr
    with Reader.open(home) as reader:
        assert reader.count() == 0
