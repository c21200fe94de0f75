"""Limits from the command line: shown with what people hold, set for everyone or one person, by an admin alone."""

import json
from collections.abc import Callable

from engine.access.quotas import Limits, limits, size
from engine.home import Home
from engine.store import Reader, Store
from tests.cli.conftest import Parallab

SUBMIT = ("submit", "hogwild", "--preset", "quick", "--no-runner")


def test_limits_are_set_shown_and_obeyed(parallab: Parallab, home: Home, queued: Callable[..., int]) -> None:
    assert "No limits for everyone." in parallab("limits").stdout
    queued()
    told = parallab(
        "limits", "set", "--queued", "1", "--cores", "8", "--run-time", "3600", "--disk", "0.5", "--gpus", "0"
    )
    assert told.returncode == 0, told.stderr
    assert limits(home) == Limits(None, 1, 8, 0, 3600.0, 0.5)
    assert ("queued runs: 1; CPU cores in use: 8; GPUs in use: 0; run time: 3,600 s") in told.stdout
    assert told.stdout.splitlines()[-1].split() == [
        "ada",
        "0",
        "1",
        "of",
        "1",
        "0",
        "of",
        "8",
        "0",
        "of",
        "0",
        "at",
        "most",
        "1",
        "h",
        "00",
        "min",
        "0",
        "0",
        "B",
        "of",
        "500.0",
        "MB",
        "0",
        "B",
    ]
    refused = parallab(*SUBMIT)
    assert (refused.returncode, refused.stdout) == (
        2,
        "",
    ) and "Quota of ada: 1 of 1 queued runs; another one can't be queued." in refused.stderr
    parallab("limits", "set", "--person", "ada", "--queued", "2")
    assert parallab(*SUBMIT).returncode == 0 and parallab(*SUBMIT).returncode == 2
    assert json.loads(parallab("limits", "--json").stdout)["people"] == {"ada": {"max_queued_per_person": 2}}
    parallab("limits", "set", "--person", "ada", "--queued", "usual")
    assert limits(home).people == {}
    with Reader.open(home) as reader:
        assert [run.terms.max_run_time_s for run in map(reader.runs.one, (1, 2))] == [None, 3600.0]


def test_the_threshold_of_disturbed_runs_is_set_for_the_whole_lab(parallab: Parallab, home: Home) -> None:
    assert "others took more than 5 % of its CPU time" in parallab("limits").stdout
    told = parallab("limits", "set", "--disturbed-above", "12.5")
    assert told.returncode == 0 and "others took more than 12.5 % of its CPU time" in told.stdout
    assert json.loads(parallab("limits", "--json").stdout)["disturbed_above_percent"] == 12.5
    refused = parallab("limits", "set", "--disturbed-above", "5", "--person", "ada")
    assert refused.returncode == 2 and "--disturbed-above applies to the whole lab" in refused.stderr


def test_what_is_wrong_with_a_limit_is_a_sentence(parallab: Parallab, home: Home) -> None:
    for words, sentence in (
        (("--queued", "few"), "Queued runs must be a whole number, or none for no limit; got 'few'."),
        (("--queued", "0"), "Queued runs must be 1 to 10,000, or none for no limit; got 0."),
        (("--disk", "nan"), "Disk space of runs must be 0.001 to 1,000,000 GB, or none for no limit; got nan."),
        ((), "limits set needs at least one of --running, --queued"),
        (("--cores", "usual"), "'usual' needs --person"),
    ):
        told = parallab("limits", "set", *words)
        assert told.returncode == 2 and sentence in told.stderr, told.stderr
    assert not home.limits.exists()


def test_only_an_admin_sets_limits_whichever_command_it_is(parallab: Parallab, home: Home, store: Store) -> None:
    store.people.add("bea", "admin", by="root")
    store.people.add("ada", "member", by="bea")
    for words in (("limits", "set", "--running", "3"), ("queue", "--max-per-person", "3")):
        told = parallab(*words)
        assert told.returncode == 2 and "Only admins can set limits; " in told.stderr
        assert not home.limits.exists()
        assert parallab(*words, "--owner", "bea").returncode == 0
        home.limits.unlink()
    assert (
        "Unknown person 'adaa'. Did you mean 'ada'?"
        in parallab("limits", "set", "--person", "adaa", "--running", "3", "--owner", "bea").stderr
    )
    found = [
        (row["who"], row["detail"])
        for row in store.db.rows(
            "SELECT who, detail FROM audit WHERE command = 'set limits' AND refused = '' ORDER BY id"
        )
    ]
    assert found == [("bea", "running runs=3")] * 2


def test_a_person_is_named_in_any_case(
    parallab: Parallab, home: Home, store: Store, queued: Callable[..., int]
) -> None:
    store.people.add("bea", "admin", by="root")
    store.people.add("ada", "member", by="bea")
    queued(owner="ada")
    assert parallab("limits", "set", "--person", "Ada", "--running", "3", "--owner", "bea").returncode == 0
    assert limits(home).people == {"ada": {"max_running_per_person": 3}}
    assert [run["owner"] for run in json.loads(parallab("list", "--owner", "ADA", "--json").stdout)] == ["ada"]
    assert json.loads(parallab("list", "--owner", "BO", "--json").stdout) == []
    said = [entry["who"] for entry in json.loads(parallab("audit", "--who", "Bea", "--json").stdout)]
    assert said and set(said) == {"bea"}


def test_disk_space_is_shown_in_a_readable_unit() -> None:
    sizes = {0: "0 B", 999: "999 B", 273_000: "273 kB", 1_500_000: "1.5 MB", 20 * 10**9: "20.0 GB"}
    assert {bytes_: size(bytes_) for bytes_ in sizes} == sizes
