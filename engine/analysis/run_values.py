"""The value of a run for a name: a config field (`trainers`), or a statistic of a metric, as in filters
(`test/accuracy.best`, `metric["loss"].mean`).

Names are those of configs and metrics, not labels, so that links survive changes of labels; `label` and
`field_in_words` return what pages show. Torch-free.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args

from pydantic.fields import FieldInfo

from engine.config import has_conditions, unused_because
from engine.config_values import VALUE_TITLES, field_title, value_in_words, value_title
from engine.filter.tree import metric_quoted, metric_written
from engine.launch_options import HERE
from engine.metrics import METRICS, Metric, MetricSetting, as_set, depends_on_time, metric
from engine.registry import experiment, experiment_title, is_ours, is_setting, known_experiment
from engine.store import Sweep
from engine.store.records import Run, RunRow
from engine.store.sweeps.sweeps import REPEAT, SEED

Way = Literal["last", "best", "mean", "min", "max"]
WAYS: tuple[Way, ...] = get_args(Way)
SEEDING = "seeding"
TARGET = "target"
EXPERIMENT = "experiment"
ABOUT = (EXPERIMENT, "preset", "owner", TARGET, SEEDING)
"""Fields of a run besides its config."""
FAMILY = "name_without_seed"
"""A field that runs have by their names: what is left of `resnet_seed1`, `resnet_s2` and `resnet-seed-3`."""
TITLES = {TARGET: "Runs on", FAMILY: "Name without seed"}
_SEEDED = re.compile(r"(?P<family>.*[^\s_.\-/])[\s_.\-/]+(?:seed|s|repeat|rep)[\s_.\-=]?\d+", re.IGNORECASE)
_LEAST = (SEED, REPEAT, SEEDING, TARGET, "preset", "owner", "threads_per_rank", "device", "start_method")
TASK = ("model", "dataset", "environment")
"""Settings that define what is trained; an experiment has some of them."""
ONLY_MODEL = "mnist_net"
"""The model of the experiments that train on a data set without a choice of models."""
_TELLING = re.compile(r"acc|loss|err|reward|return|score|f1|auc|perplexity|ppl|mse|mae|bleu", re.IGNORECASE)
_HELD_OUT = re.compile(r"(?<![a-z])(test|val|valid|validation|eval|dev)(?![a-z])", re.IGNORECASE)
_OF_SETTINGS = ("hparam/", "hparams/")
"""Begins of the names of numbers that TensorBoard's table of hyperparameters lists again."""
MOST_NAMED = 2
"""Settings that the difference to an origin names."""
EXECUTION, STARTUP = "perf/execution_time_s", "perf/startup_time_s"
Value = float | int | str | bool | None


@lru_cache(maxsize=1_024)
def split(name: str) -> tuple[str, Way] | None:
    """Return metric and statistic of a name such as `test/accuracy.best` or `metric["loss"].mean`; None if it names a
    field.
    """
    of, _, way = name.rpartition(".")
    of, way = metric_quoted(name) or (of if "/" in of else "", way)
    return next(((of, known) for known in WAYS if of and known == way), None)


def resolved(name: str, known: Collection[str]) -> str:
    """Return the spelling among the known names of one that a person or an older address spells otherwise:
    `loss.mean`.
    """
    of, way = metric_quoted(name) or (name.rpartition(".")[0], name.rpartition(".")[2])
    return next((each for each in (name, metric_written(of, way)) if each in known), name)


def value(run: RunRow, name: str) -> Value:
    """Return a run's value for a name, None if it has none; values other than numbers and text become text."""
    found = split(name)
    if found is None:
        return field(run, name)
    of, way = found
    if of in (EXECUTION, STARTUP):
        return run.execution_time_s if of == EXECUTION else run.startup_time_s
    known: Mapping[str, float] = getattr(run, "last" if metric(of).is_single else way)
    return known.get(of)


def field(run: RunRow, name: str) -> Value:
    """Return a field of a run: of its config, or one of ABOUT. The seeding rule is a category, not an amount: it
    becomes text, as does the target of a run on this machine.
    """
    if name == SEEDING and name not in run.config:
        return f"{SEEDING} {run.seeding}"
    if name == TARGET and name not in run.config:
        return run.target or HERE
    if name == FAMILY and name not in run.config:
        return family(run) or run.name
    name = SEED if name == REPEAT and run.repeats and name not in run.config else name
    found = run.config.get(name, getattr(run, name) if name in ABOUT else None)
    return found if isinstance(found, int | float | str | None) else str(found)


def family(run: RunRow) -> str:
    """Return the name of a run without a seed at its end, such as `resnet` of `resnet_seed1`; empty without one, and
    for a run of a sweep, which has its seed as a field.
    """
    found = None if run.sweep_id else _SEEDED.fullmatch(run.name)
    return found["family"] if found else ""


def grouping_names(runs: Sequence[RunRow], *, that_differ: bool = False) -> list[str]:
    """Return the fields by which runs can be grouped: theirs, and their names without seeds where any has one."""
    return [*field_names(runs, that_differ=that_differ), *([FAMILY] if any(map(family, runs)) else [])]


def shown(run: RunRow, name: str) -> Value:
    """Return a run's value for a name as pages show it: an experiment or a model by its title."""
    found = value(run, name)
    if not isinstance(found, str):
        return found
    return experiment_title(found) if name == EXPERIMENT else VALUE_TITLES.get(found, found)


def field_in_words(name: str, held: object) -> str:
    """Return a field's value as part of a label: a number with the field's title and unit (`batch size 32`,
    `timeout 60 s`), text alone, an experiment by its title.
    """
    if isinstance(held, str) and held:
        return experiment_title(held) if name == EXPERIMENT else VALUE_TITLES.get(held, held)
    _, _, unit = ("",) * 3 if setting_title(name) == name else setting_title(name).removesuffix(")").partition(" (")
    return " ".join(
        filter(None, (lower_title(name), value_in_words(held), unit if isinstance(held, int | float) else ""))
    )


def fields_in_words(values: Mapping[str, object]) -> str:
    """Return the values of fields as a label, such as `batch size 32, gpipe`."""
    return ", ".join(field_in_words(name, held) for name, held in values.items())


MOST_CHANGES = 2
"""Settings that differ from a preset up to which a run is titled by it."""


def kind_in_words(name: str, preset: str | None, config: Mapping[str, object]) -> str:
    """Return what a run is, as its default title: the experiment of that name and its preset, or the nearest preset
    with the few settings that were changed, such as `Hogwild!, quick, trainers 4`.
    """
    title = experiment_title(name)
    if preset or not is_ours(name):
        return f"{title}, {preset}" if preset else title
    changes = {
        preset: {field: held for field, held in config.items() if held != usual[field]}
        for preset, usual in _presets(name).items()
        if usual.keys() == config.keys()
    }
    nearest = min(changes, key=lambda preset: len(changes[preset]), default="")
    few = nearest and 0 < len(changes[nearest]) <= MOST_CHANGES
    return f"{title}, {nearest}, {fields_in_words(changes[nearest])}" if few else title


@lru_cache(maxsize=64)
def _presets(name: str) -> dict[str, dict[str, object]]:
    """Return the settings of each preset of an experiment of Parallab."""
    found = experiment(name)
    return {preset: found.configure(preset).model_dump(mode="json") for preset in found.presets}


def setting_title(name: str) -> str:
    """Return the title of a setting or of a field in ABOUT; a parameter of another program as it is spelled."""
    return TITLES.get(name) or (field_title(name) if name in ABOUT or is_setting(name) else name)


def lower_title(name: str) -> str:
    """Return a field's title as it is within a sentence, without its unit: `batch size`, `GAE lambda`."""
    if setting_title(name) == name:
        return name
    title, _, _ = setting_title(name).partition(" (")
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def number(run: RunRow, name: str) -> float | None:
    """Return a run's value as a finite number; booleans count as 0 or 1, text as None."""
    found = value(run, name)
    return float(found) if isinstance(found, int | float) and math.isfinite(found) else None


def telling(names: Iterable[str], single: Collection[str] = ()) -> list[str]:
    """Return the metrics of other programs that tell how a run went, by their names: curves, then those that have a
    `single` value, then a table's; among each, those of held-out data first.
    """
    return sorted(
        filter(_TELLING.search, names),
        key=lambda name: (name.startswith(_OF_SETTINGS), name in single, not _HELD_OUT.search(name), name),
    )


def curves_among(runs: Iterable[RunRow]) -> set[str]:
    """Return the metrics of runs but those that runs of other programs have only single values of."""
    return {name for run in runs for name in run.last if name not in run.single or known_experiment(run.experiment)}


def metric_names(runs: Iterable[RunRow]) -> list[str]:
    """Return the metrics with a finite value in any of the runs: tests first, then rewards, training, throughput; of
    other programs those that tell most first, and single values last.
    """
    runs = list(runs)
    found, curves = {name for run in runs for name in run.last}, curves_among(runs)
    order = ("test/", "charts/", "train/", "perf/") if any(known_experiment(run.experiment) for run in runs) else ()
    place = {name: next((at for at, start in enumerate(order) if name.startswith(start)), len(order)) for name in found}
    foreign = {name: at for at, name in enumerate(telling(name for name in found if not order or name not in METRICS))}
    return sorted(
        found,
        key=lambda name: (
            *(name not in curves, place[name], bool(order) and metric(name).better is None),
            *(foreign.get(name, len(foreign)), name),
        ),
    )


def field_names(runs: Sequence[RunRow], *, that_differ: bool = False) -> list[str]:
    """Return the fields of the runs, the experiment first and the others of ABOUT last; optionally only those with
    different values.
    """
    configs = [shown_config(run) for run in runs]
    names = list(dict.fromkeys([ABOUT[0], *(name for own in configs for name in own), *ABOUT]))
    if not that_differ:
        return names
    settings = [(own, without_effect(run.experiment, own)) for run, own in zip(runs, configs, strict=True)]
    texts = {
        name: {str(own.get(name)) for own, unused in settings if name not in unused}
        for name in names
        if name not in ABOUT
    }
    return [
        name for name in names if len(texts[name] if name in texts else {str(field(run, name)) for run in runs}) > 1
    ]


def shown_config(run: Run | RunRow) -> Mapping[str, Any]:
    """Return the settings of a run by the names that pages show: what numbers repeats of a command is no seed."""
    if not run.repeats or REPEAT in run.config:
        return run.config
    return {REPEAT if name == SEED else name: held for name, held in run.config.items()}


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return in which settings a run differs from its origin; empty if in none."""
    apart = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    apart = [name for name in apart if name != REPEAT or REPEAT in before]
    words = [f"{lower_title(name)} {value_title(before.get(name))} → {value_title(after.get(name))}" for name in apart]
    more = [f"{len(words) - MOST_NAMED} more"] if len(words) > MOST_NAMED else []
    return ", ".join(words[:MOST_NAMED] + more)


def without_effect(experiment: str, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings that have no effect in a run with this config, each with the setting because of which, such
    as `optimizer adamw`.
    """
    fields = _with_conditions(experiment, str(config.get("code", "")))
    return {name: why for name, info in fields.items() if name in config and (why := unused_because(info, config))}


@lru_cache(maxsize=256)
def _with_conditions(experiment: str, code: str) -> Mapping[str, FieldInfo]:
    known = known_experiment(experiment, code)
    return {name: info for name, info in known.config.model_fields.items() if has_conditions(info)} if known else {}


def seed_word(runs: Iterable[RunRow]) -> str:
    """Return what the runs of one group differ in, in one word: `seed`, or `repeat`."""
    return REPEAT if {run.repeats for run in runs} == {True} else SEED


def settings_within(groups: Iterable[Sequence[RunRow]]) -> list[str]:
    """Return the settings besides seeds and time limits in which runs of one group differ: those are no repetitions."""
    found = dict.fromkeys(name for own in groups if len(own) > 1 for name in field_names(own, that_differ=True))
    return [name for name in found if name not in {*ABOUT, REPEAT, "timeout_s"} and "seed" not in name.lower()]


def other_task(runs: Sequence[RunRow]) -> str:
    """Return in which setting the tasks of runs differ, such as `dataset (digits, mnist)`; empty if they do not."""
    for name in TASK:
        usual = ONLY_MODEL if name == "model" else "none"
        held = {
            str(run.config.get(name) or (usual if "dataset" in run.config else "none"))
            if known_experiment(run.experiment)
            else str(run.config.get(name) or "unknown")
            for run in runs
        }
        if len(held) > 1:
            return f"{name} ({', '.join(sorted(held))})"
    return ""


def most_telling_first(names: Iterable[str]) -> list[str]:
    """Return the names of fields in the order in which they tell runs apart: what people vary before what they seldom
    do.
    """
    return sorted(names, key=lambda name: _LEAST.index(name) if name in _LEAST else -1)


def names(runs: Sequence[RunRow]) -> list[str]:
    """Return every name available for charts of values: metrics with each statistic, times, then fields."""
    found = [
        metric_written(name, way)
        for name in metric_names(runs)
        if name not in (EXECUTION, STARTUP)
        for way in ways(name)
    ]
    times = [
        f"{name}.last" for name in (EXECUTION, STARTUP) if any(value(run, f"{name}.last") is not None for run in runs)
    ]
    return [*found, *times, *field_names(runs)]


def ways(name: str) -> tuple[Way, ...]:
    """Return the statistics of a metric: only the last value if a run has one number, the best if a direction is
    better, and the extremes if none is, or only its name says so.
    """
    known = metric(name)
    if known.is_single:
        return ("last",)
    best: tuple[Way, ...] = ("best",) if known.better else ()
    return ("last", *best, "mean") if known.better and name in METRICS else ("last", *best, "mean", "min", "max")


def is_timed(name: str) -> bool:
    """Return whether the values of a name depend on what else runs on the machine."""
    found = split(name)
    return found is not None and depends_on_time(found[0])


def label(name: str) -> str:
    """Return the label of a name: `Test accuracy, best (%)`, `Batch size`."""
    found = split(name)
    if found is None:
        return setting_title(name)
    known = metric(found[0])
    unit = f" ({known.unit})" if known.unit else ""
    return f"{known.label}{unit}" if known.is_single else f"{known.label}, {found[1]}{unit}"


# ---- The cells of a sweep: one per combination of values and seed, with every run of it ----------------------------
# Torch-free.


def cell_of(sweep: Sweep, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key of a config's cell: the values of the varied fields, the seed last."""
    return tuple(values.get(name) for name in sweep.grid)


def tries(sweep: Sweep, runs: Sequence[RunRow]) -> dict[tuple[Any, ...], list[RunRow]]:
    """Return the runs of each cell, oldest first, in the order in which cells were queued."""
    found: dict[tuple[Any, ...], list[RunRow]] = {}
    for run in sorted(runs, key=lambda run: run.id):
        found.setdefault(cell_of(sweep, run.config), []).append(run)
    return found


def is_warm_up(sweep: Sweep, run: RunRow) -> bool:
    """Return whether a run is the warm-up of a sweep for timing, which belongs to no cell."""
    return sweep.timing is not None and run.config.get(SEED) not in sweep.seeds


def measured(sweep: Sweep, runs: Sequence[RunRow]) -> list[RunRow]:
    """Return the runs without a warm-up, and without disturbed ones whose cell was measured again undisturbed."""
    runs = [run for run in runs if not is_warm_up(sweep, run)]
    clean = {cell_of(sweep, run.config) for run in runs if run.status == "finished" and not run.disturbed}
    return [run for run in runs if not run.disturbed or cell_of(sweep, run.config) not in clean]


def newest(sweep: Sweep, runs: Sequence[RunRow]) -> list[RunRow]:
    """Return the run of each cell that was queued last."""
    return [tried[-1] for tried in tries(sweep, runs).values()]


def to_measure_again(sweep: Sweep, runs: Sequence[RunRow]) -> list[RunRow]:
    """Return the disturbed runs that a sweep repeats if it is measured again."""
    return [run for run in newest(sweep, runs) if run.disturbed and not is_warm_up(sweep, run)]


def setting_among(name: str, runs: Iterable[RunRow]) -> MetricSetting | None:
    """Return how a metric is shown that all runs which recorded it have in common; None if nobody has set it."""
    own = {run.metric_settings.get(name) for run in runs if name in run.last}
    return own.pop() if len(own) == 1 else None


def metric_among(name: str, runs: Iterable[RunRow]) -> Metric:
    """Return a metric with the unit and direction that all runs which recorded it have in common."""
    return as_set(name, {name: found} if (found := setting_among(name, runs)) else {})
