"""`new`, `check` and `approve`: experiments of the lab's own."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from math import isclose
from typing import Any

import click

from engine.cli.answers import answer, print_json, wants_json
from engine.cli.frame import FAILED, OWNER, argument, command
from engine.commands.lab_settings import approve_experiment
from engine.config import Config, bound_of, unit_of
from engine.errors import ConfigError, EngineError, WrongStatus
from engine.experiment import Experiment
from engine.home import Home
from engine.launch import launch
from engine.own_methods import cards, folders, template
from engine.registry import experiment, is_ours, is_registered
from engine.store import Launch, Reader, Store
from engine.store.records import Run
from engine.system.runner_process import ensure_running

NAME = argument("NAME")
QUICK_S, CANCEL_S = 30.0, 10.0
"""What the preset quick may take, and the end of a run after its cancellation."""
POLL_S = 0.1
ROUNDING = 1e-3
"""Relative difference up to which two results of the same steps are equal: sums in another order are rounded
otherwise.
"""


@command("new")
def new_command(name: str = NAME) -> None:
    """Write a template of an experiment of your own into the home's experiments folder; `run NAME` runs it at once."""
    home = Home.find()
    if not folders.NAME.fullmatch(name):
        rule = "begin with a lower-case letter, and have at most 40 lower-case letters, digits and _"
        raise ConfigError.of("name", f"The name of an experiment must {rule}; got '{name[:60]}'.")
    if is_registered(name):
        raise ConfigError.of("name", f"There is an experiment '{name}' already. Choose another name.")
    folder = home.create().experiments / name
    folder.mkdir(parents=True)
    for file, text in ((folders.CONFIG, template.CONFIG), (folders.METHOD, template.METHOD)):
        words = text.replace("NAME", name).replace("TITLE", name.replace("_", " ").capitalize())
        (folder / file).write_text(words)
    run = f"python -m engine run {name} --preset quick"
    answer({"name": name, "folder": str(folder)}, f"{folder} is written. Run it with: {run}")


@command("approve")
def approve_command(name: str = NAME, owner: str = OWNER) -> None:
    """Approve the present code of an experiment of the lab's own, so that it can be read and run.

    A lab with accounts runs none that an admin has not approved; a changed file needs a new approval.
    """
    version = approve_experiment(Home.find(), name, by=owner)
    answer({"name": name, "version": version.version}, f"Version {version.version} of {name} is approved.")


# ---- check -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """One thing that an experiment should have."""

    what: str
    is_met: bool | None
    """None where it could not be looked at."""
    found: str
    is_needed: bool = True
    """Whether it is missing if it is not met; else it only differs."""

    @property
    def outcome(self) -> str:
        if self.is_met is None:
            return "skipped"
        return "ok" if self.is_met else "MISSING" if self.is_needed else "DIFFERS"


@command("check")
def check_command(name: str = NAME, owner: str = OWNER) -> int:
    """Check an experiment of your own by its card and by six short runs; say what is missing.

    Exits with 0 only if nothing is. One rank that learns otherwise than plain SGD differs: no fault of a method that
    rightly does.
    """
    if is_ours(name):
        raise ConfigError.of("name", f"{name} is an experiment of Parallab, which its tests check.")
    checks = []
    found = experiment(name)
    for each in chain(_of_card(found), Trial(Home.find(), found, owner).checks()):
        click.echo(f"{each.outcome:8} {each.what}: {each.found}", err=wants_json())
        checks.append(each)
    if wants_json():
        print_json([vars(each) for each in checks])
    return FAILED if any(each.outcome == "MISSING" for each in checks) else 0


def _of_card(found: Experiment) -> Iterator[Check]:
    own = {
        name: info
        for name, info in found.config.model_fields.items()
        if name not in Config.model_fields and name != cards.CODE
    }
    numbers = {name: info for name, info in own.items() if found.config.value_types()[name] & {int, float}}
    without = {
        "help of each setting": [name for name, info in own.items() if not (info.description or "").endswith(".")],
        "bounds of each number": [name for name, info in numbers.items() if not _is_bounded(info)],
        "unit of each interval": [
            name for name in numbers if name.endswith(("_every", "_s")) and not unit_of(own[name])
        ],
    }
    for what, names in without.items():
        yield Check(what, not names, f"missing for {', '.join(names)}" if names else "all have it")
    words = [found.tagline, found.sentence, found.source]
    left = [text for text in words if f'"{text}"' in template.CONFIG]
    yield Check("words of the card", not left, f"still the template's: {'; '.join(left)}" if left else "all written")
    yield Check("preset quick", "quick" in found.presets, ", ".join(found.presets) or "no presets")


def _is_bounded(info: Any) -> bool:
    low, high = (("ge", "gt"), ("le", "lt"))
    return all(any(bound_of(info, each) is not None for each in ends) for ends in (low, high))  # type: ignore[arg-type]


@dataclass
class Trial:
    """Short runs of an experiment, one after the other."""

    home: Home
    found: Experiment
    owner: str

    def checks(self) -> Iterator[Check]:
        """Yield what the runs show."""
        if "quick" not in self.found.presets:
            return
        run = self._ended(self._launch({}))
        took = run.execution_time_s
        said = f"{run.status}: {run.cause}" if took is None else f"{run.status} in {took:.1f} s"
        yield Check(f"quick ends within {QUICK_S:.0f} s", run.status == "finished" and (took or 0) <= QUICK_S, said)
        if run.status != "finished":
            return
        yield self._timeline(run)
        yield self._cancel()
        alone = {next(iter(self.found.counts)): 1} if self.found.counts else {}
        one, same, other = (self._learned(self._launch({**alone, "seed": seed})) for seed in (1, 1, 2))
        is_alone = len(self.found.configure("quick", alone).roles) == 1  # else ranks may meet in any order
        repeats = one == same and bool(one)
        yield Check("one rank repeats itself with its seed", repeats, _values(one, same), is_needed=is_alone)
        yield Check("another seed learns otherwise", one != other, _values(one, other))
        yield from self._reference(alone, one)

    def _timeline(self, run: Run) -> Check:
        with Reader.open(self.home) as reader:
            phases = reader.details.phases(run.id)
        names = {phase for spent in phases.values() for phase, seconds in spent.items() if seconds > 0}
        told = ", ".join(sorted(names)) or "no phases"
        return Check("phases feed the timeline", bool(names - {"other", "wait"}), told)

    def _cancel(self) -> Check:
        run_id = self._launch({"seed": 3})
        while self._run(run_id).status in ("queued", "starting"):
            time.sleep(POLL_S)
        asked_at = time.monotonic()
        with Store.open(self.home) as store:
            try:
                store.runs.cancel(run_id, by=self.owner)
            except WrongStatus:
                return Check("cancel", True, "the run ended first")
        run, took = self._ended(run_id), time.monotonic() - asked_at
        return Check(f"cancel within {CANCEL_S:.0f} s", took <= CANCEL_S, f"{run.status} after {took:.1f} s")

    def _reference(self, alone: Mapping[str, Any], one: Mapping[str, float]) -> Iterator[Check]:
        """Compare with plain SGD, where the settings say the same."""
        reference = experiment("reference")
        shared = set(reference.config.model_fields) & set(self.found.config.model_fields)
        needed = ("epochs", "batch_size", "learning_rate", "dataset")
        if lacking := [name for name in needed if name not in shared]:
            told = f"not compared: {self.found.name} has no setting {' or '.join(lacking)}"
            yield Check("one rank equals the reference", None, told)
            return
        values = self.found.configure("quick", {**alone, "seed": 1}).model_dump(mode="json")
        given = {"momentum": 0.0} | {name: values[name] for name in shared if name in values}
        config = reference.config.check(given).model_dump(mode="json")
        found = self._learned(launch(self.home, Launch("reference", config, self.owner)))
        alike = found.keys() & one.keys()
        is_equal = bool(alike) and all(isclose(found[name], one[name], rel_tol=ROUNDING) for name in alike)
        yield Check("one rank equals the reference", is_equal, _values(one, found), is_needed=False)

    def _launch(self, changes: Mapping[str, Any]) -> int:
        config = self.found.configure("quick", changes).model_dump(mode="json")
        return launch(self.home, Launch(self.found.name, config, self.owner, name=f"check {self.found.name}"))

    def _run(self, run_id: int) -> Run:
        ensure_running(self.home)
        with Reader.open(self.home) as reader:
            return reader.runs.one(run_id)

    def _ended(self, run_id: int) -> Run:
        while (run := self._run(run_id)).active:
            time.sleep(POLL_S)
        return run

    def _learned(self, run_id: int) -> dict[str, float]:
        """Return the last values of what a run learned; raises EngineError for one that did not finish."""
        run = self._ended(run_id)
        if run.status != "finished":
            raise EngineError(f"Run {run_id} {run.status}: {run.cause}")
        with Reader.open(self.home) as reader:
            every = reader.details.summaries(run_id)
        return {each.metric: each.last for each in every if each.last is not None and each.metric.startswith("t")}


def _values(one: Mapping[str, float], other: Mapping[str, float]) -> str:
    told = [f"{name} {value:.6g} and {other[name]:.6g}" for name, value in one.items() if name in other]
    return ", ".join(told[:3]) or "no metric in common"
