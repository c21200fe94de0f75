"""What programs outside of Parallab report, checked as imports are: names as pages show them, numbers, sizes bounded.

Their names are cleaned instead of refused where nothing is lost by it, as a program can't correct them while it trains.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from engine.access.confusables import without_hidden
from engine.errors import ConfigError
from engine.home import Home
from engine.recorder import Point
from engine.registry import is_registered
from engine.store import Store
from engine.store.curves.ingest import last_id
from engine.store.imports.external_import import in_one_line
from engine.store.imports.reports import Receipt, Report, ReportedRun
from engine.store.runs.commands import NOTE_LENGTH
from engine.transfer.import_bounds import (
    LONGEST_METRIC,
    LONGEST_NAME,
    LONGEST_TAG,
    MOST_CONFIG_BYTES,
    MOST_SETTINGS,
    shortened,
)

REPORTED_EXPERIMENT = "reported"
"""Experiment of runs whose program names none."""
MOST_TAGS = 100
DEEPEST = 10
"""Levels of settings within settings that get names of their own."""


def begin(home: Home, run: ReportedRun, *, by: str, timeout_s: float) -> tuple[Receipt, bool]:
    """Begin a run that its program is executing, or find the one that has its key; return also whether it is new.
    Raises as `ReportCommands` does, and ConfigError for what exceeds the bounds.
    """
    if len(run.tags) > MOST_TAGS:
        raise ConfigError.of("tags", f"A run can have at most {MOST_TAGS} tags from its program; got {len(run.tags)}.")
    experiment = _name(run.experiment) or REPORTED_EXPERIMENT
    if is_registered(experiment):
        experiment = f"{experiment} ({REPORTED_EXPERIMENT})"  # its settings and metrics are not those of ours
    checked = replace(
        run,
        experiment=experiment,
        key=_name(run.key) or str(uuid4()),
        name=_name(run.name),
        config=settings(run.config),
        environment={name: _name(text) for name, text in run.environment.items() if text},
        tags=[tag for text in run.tags if (tag := in_one_line(text)[:LONGEST_TAG])],
        note=without_hidden(run.note)[:NOTE_LENGTH],
    )
    with Store.open(home, timeout_s=timeout_s) as store, store.db.change():
        last = last_id(store.db)
        run_id = store.reports.begin(checked, by=by)
        return store.reports.report(run_id, Report(), by=by), run_id > last


def report(home: Home, run_id: int, told: Report, *, by: str, timeout_s: float) -> Receipt:
    """Store what a process has recorded since its last report; raises as `begin`."""
    end = told.end and replace(told.end, cause=in_one_line(told.end.cause), error=without_hidden(told.end.error))
    with Store.open(home, timeout_s=timeout_s) as store:
        return store.reports.report(run_id, replace(told, config=settings(told.config), end=end), by=by)


def metric_name(name: str) -> str:
    """Return the name of a metric as pages show it; raises ConfigError for one without a visible character."""
    if shown := shortened(in_one_line(name), LONGEST_METRIC):
        return shown
    raise ConfigError.of("rows", "The name of a metric must have a visible character; got none.")


def points(step: int, time_s: float, values: Mapping[str, float | str], names: dict[str, str]) -> Sequence[Point]:
    """Return the points of one row; `names` keeps what was checked."""
    found = []
    for name, value in values.items():
        if (shown := names.get(name)) is None:
            shown = names[name] = metric_name(name)
        found.append(Point(shown, step, float(value), time_s))
    return found


def settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without nesting, inner names behind a dot, and numbers that JSON has no digits for as text;
    raises ConfigError for too many.
    """
    strict = json.loads(json.dumps(dict(config)), parse_constant=str)
    found = {shortened(in_one_line(name), LONGEST_NAME): value for name, value in _flat(strict)}
    size = len(json.dumps(found))
    if len(found) > MOST_SETTINGS or size > MOST_CONFIG_BYTES:
        most = f"at most {MOST_SETTINGS:,} settings with {MOST_CONFIG_BYTES:,} bytes"
        raise ConfigError.of("config", f"config must have {most}; got {len(found):,} with {size:,}. Leave some out.")
    return found


def _flat(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping) and value and above.count(".") < DEEPEST:
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _name(text: str) -> str:
    return shortened(in_one_line(text), LONGEST_NAME)
