"""Shell commands that launch a run, several runs, a sweep or a published figure again."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.config_values import value_in_words
from engine.experiment import Experiment
from engine.registry import known_experiment
from engine.script.command import Command
from engine.script.words import name_of
from engine.store import Sweep
from engine.store.records import Run, RunRow
from engine.store.scripts import rendered
from engine.store.sweeps.sweeps import SEED

_COMMIT = re.compile(r"\w[\w./-]{0,99}", re.ASCII)


def repeating(run: Run) -> list[str]:
    """Return the commands that launch a run again; none for an unknown experiment. A checkout is of the code of
    Parallab, which no command needs.
    """
    if run.command:
        return [" ".join(["python -m engine run", *_of_command(run.command, run.config)])]
    line = run_line(run)
    return [*checkout(run.environment), line] if line else []


def runs_again(runs: Sequence[RunRow], environments: Mapping[int, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the commands that launch runs again, each with the run's id as a comment, and a checkout where the commit
    changes.
    """
    before: list[str] = []
    for run in runs:
        if line := run_line(run):
            commit = checkout(environments.get(run.id, {}))
            if commit != before:
                yield from commit
                before = commit
            yield f"{line}  # run {run.id}"


def sweep_again(sweep: Sweep, runs: Sequence[RunRow], environments: Mapping[int, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the commands that launch a sweep again as it is now; none for an unknown experiment or without runs."""
    known = known_experiment(sweep.experiment)
    if not runs or (known is None and sweep.command is None):
        return
    if known:
        yield from checkout(environments.get(runs[-1].id, {}))
    presets = {run.preset for run in runs}
    preset = presets.pop() if len(presets) == 1 else None
    first = {name: value for name, value in runs[0].config.items() if name not in sweep.grid} | {
        SEED: sweep.seeds[0] if sweep.seeds else 0,
        **sweep.equal_work,
    }
    over = sweep.draw.over if sweep.draw else {field: _values(sweep.grid[field]) for field in sweep.fields}
    more = [
        *(f"--over {shlex.quote(f'{field}={text}')}" for field, text in over.items()),
        *([f"--draw {sweep.draw.count} --draw-seed {sweep.draw.seed}"] if sweep.draw else []),
        *([f"--seeds {len(sweep.seeds)}"] if len(sweep.seeds) > 1 else []),
        *(["--exclusive"] if sweep.exclusive and not sweep.timing else []),
        *([f"--timing --within {100 * sweep.timing.within:g} --most {sweep.timing.most}"] if sweep.timing else []),
        *(["--equal-work"] if sweep.equal_work else []),
        *([f"--stop-after {sweep.stop_after}"] if sweep.stop_after else []),
        *([f"--name {shlex.quote(sweep.name)}"] if sweep.name else []),
    ]
    if sweep.command:
        yield " ".join(
            ["python -m engine sweep", *more, *_seed_field(sweep.command), *_of_command(sweep.command, first)]
        )
    elif known:
        yield " ".join(["python -m engine sweep", *_settings(known, preset, first), *more])


def _of_command(command: Command, config: Mapping[str, Any]) -> list[str]:
    """Return the options and the words of a command with the settings of a run."""
    named = {"--folder": command.folder, "--python": command.python, "--rank-by": command.result}
    better = {"--better": command.better} if command.result and command.better != "max" else {}
    options = [f"{name} {shlex.quote(text)}" for name, text in {**named, **better}.items() if text]
    return [*options, "--", rendered(command, config).text]


def _seed_field(command: Command) -> list[str]:
    """Return the option that names the setting which takes the seeds, where it has another name outside of sweeps."""
    flag = command.field(SEED).flag
    name = name_of(flag) if flag.startswith("-") else flag.lstrip("+")
    return [f"--seed-field {shlex.quote(name)}"] if name not in ("", SEED) else []


def figure_again(sweep: Sweep, runs: Sequence[RunRow], environments: Mapping[int, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the commands that launch a published figure again in the sweep's size."""
    name, _, size = sweep.figure.partition("/")
    if runs:
        yield from checkout(environments.get(runs[-1].id, {}))
    yield f"python -m engine figures {shlex.quote(name)} --launch {shlex.quote(size)}"


def run_line(run: Run | RunRow) -> str:
    """Return the command that launches a run again; empty for an unknown experiment."""
    known = known_experiment(run.experiment)
    return " ".join(["python -m engine run", *_settings(known, run.preset, run.config)]) if known else ""


def _settings(known: Experiment, preset: str | None, config: Mapping[str, Any]) -> list[str]:
    """Return the experiment, its preset, and the differences from it."""
    named = known.presets.get(preset or "")
    usual = {name: field.default for name, field in known.config.model_fields.items()} | dict(
        named.settings if named else {}
    )
    changed = [
        f"--set {shlex.quote(written(name, value))}"
        for name, value in config.items()
        if name in usual and value != usual[name]
    ]
    return [known.name, *([f"--preset {preset}"] if named else []), *changed]


def checkout(environment: Mapping[str, Any]) -> list[str]:
    """Return the command that checks out a run's commit; none where unknown."""
    commit = str(environment.get("git_commit", "")).partition("+")[0]
    return [f"git checkout {commit}"] if _COMMIT.fullmatch(commit) else []


def _values(values: Sequence[Any]) -> str:
    """Return values in the syntax of `--over`, separated by `;` where values contain commas."""
    words = [_setting(value) if isinstance(value, float) else value_in_words(value) for value in values]
    return (";" if any("," in word for word in words) else ",").join(words) + (
        ";" if len(words) == 1 and "," in words[0] else ""
    )


def written(name: str, value: object) -> str:
    """Return a setting in the syntax of `--set`."""
    return f"{name}={_setting(value)}"


def _setting(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
