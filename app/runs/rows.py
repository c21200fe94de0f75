"""The rows of the table of runs: one per run, per config over its seeds, or per sweep or duel."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.actions.annotations import VIA_AGENT, marks
from app.core.formatting import moment
from app.runs.columns import Column
from app.ui.widgets import title_of
from engine.analysis.result import NotLearned, Ranked, better_values, not_learned, ranked
from engine.analysis.run_values import field_in_words, lower_title, most_telling_first, without_effect
from engine.duel.spec import from_json
from engine.errors import counted
from engine.metrics import Result, metric
from engine.registry import experiment_title, known_experiment
from engine.store import Reader, RunRow, StoredDuel, Sweep
from engine.store.records import ENDED, Status
from engine.store.runs.config_groups import BestRun, RunGroup
from engine.store.sweeps.sweeps import SEED, RunFold

Numbers = Mapping[str, Mapping[int, float]]
"""By column and run."""
MOST_DIFFERING = 4
MOST_SPANS = 12
MOST_JUDGED = 200
"""Runs of a page's sweeps and duels that are read for whether they learned; of those beyond, only the best ones."""
MOST_OPEN = 200
"""Maximum number of runs shown below the row of a sweep or duel."""


@dataclass(frozen=True)
class TableRow:
    """One row: the cells of its runs, and the runs behind its numbers."""

    key: str
    """Identity among the rows of a page, such as `run-5`."""
    experiment: str
    config: Mapping[str, Any]
    """Includes the seeding rule of its runs."""
    run_ids: tuple[int, ...]
    counted: tuple[int, ...]
    """The runs that count: in a group, the finished ones."""
    cells: Mapping[str, Any] = field(default_factory=dict)
    run: RunRow | None = None
    """The run itself, or the newest run of a sweep or duel; None for a config over its seeds."""
    statuses: Mapping[Status, int] = field(default_factory=dict)
    """Number of its runs per status."""
    fold: RunFold | None = None
    """The sweep or duel whose runs it stands for."""
    total: int = 0
    """Number of runs of its sweep, also of those that a filter left out."""
    parent: str = ""
    """The key of the sweep's or duel's row that it is shown below."""
    called: str = ""
    """Its name below that row; empty for its title."""
    best: tuple[int, Ranked] | None = None
    """The best of its finished runs (of a duel: evaluation runs), with the result; None if these do not compare."""
    not_learned: tuple[int, ...] = ()
    """Its runs that finished and did not learn, as far as they were judged."""
    best_not_learned: NotLearned | None = None
    """Why even that one did not learn."""
    origin: str = ""
    """The run that it is a clone of, with what changed; empty for any other."""

    @property
    def is_child(self) -> bool:
        return bool(self.parent)

    def values(self, column: Column, numbers: Numbers, but: Collection[int] = ()) -> list[float]:
        """Return the row's numbers in a column, without those of the runs `but`."""
        found = numbers[column.written]
        return [found[run_id] for run_id in self.counted if run_id in found and run_id not in but]


def run_rows(runs: Iterable[RunRow]) -> list[TableRow]:
    """Return a row for each run."""
    return [
        TableRow(
            *(f"run-{run.id}", run.experiment, {"seeding": run.seeding, **run.config}, (run.id,), (run.id,)),
            cells=_cells(run),
            run=run,
            statuses={run.status: 1},
        )
        for run in runs
    ]


def group_rows(groups: Iterable[RunGroup]) -> list[TableRow]:
    """Return a row for each group of runs that have the same seeding rule and differ only in seed."""
    return [
        TableRow(
            f"group-{group.run_ids[0]}",
            group.experiment,
            {"seeding": group.seeding, **group.config},
            group.run_ids,
            group.finished,
            _group_cells(group),
        )
        for group in groups
    ]


def fold_rows(reader: Reader, folds: Sequence[RunFold], opened: Iterable[str]) -> list[TableRow]:
    """Return a row for each single run, sweep and duel; those of `opened` (keys of rows) are followed by their runs."""
    unfolded = {(fold.kind, fold.id) for fold in folds if _key(fold) in set(opened)}
    sweeps = {sweep.id: sweep for sweep in reader.sweeps.some([fold.id for fold in folds if fold.kind == "sweep"])}
    narrowed = {fold.id for fold in folds if fold.kind == "sweep" and len(fold.run_ids) < sweeps[fold.id].total}
    wanted = [
        run_id
        for fold in folds
        for run_id in fold.run_ids[
            : MOST_OPEN if (fold.kind, fold.id) in unfolded or (fold.kind == "sweep" and fold.id in narrowed) else 1
        ]
    ]
    runs = {run.id: run for run in reader.runs.some(wanted)}
    finished: dict[str, tuple[RunFold, set[str]]] = {}
    found: list[TableRow] = []
    for fold in folds:
        members = [runs[each] for each in fold.run_ids[:MOST_OPEN] if each in runs]
        if not members:  # deleted since the list was read
            continue
        if fold.kind == "run":
            found += run_rows(members)
            continue
        whole = sweeps[fold.id] if fold.kind == "sweep" else reader.duels.one(fold.id)
        found.append(_fold_row(fold, members, whole))
        if fold.statuses.get("finished"):
            finished[_key(fold)] = fold, _experiments_of(whole)
        if (fold.kind, fold.id) in unfolded:
            found += [
                replace(row, parent=_key(fold), called=_rest_of_name(run.name, fold, whole.name))
                for row, run in zip(run_rows(members), members, strict=True)
            ]
    bests = _bests(reader, finished)
    judged = [run_id for run_id, _ in bests.values()]
    for fold, _ in finished.values():
        judged += fold.run_ids if len(judged) + len(fold.run_ids) <= MOST_JUDGED else ()
    unlearned = {run.id: bad for run in reader.runs.some(list(dict.fromkeys(judged))) if (bad := not_learned(run))}
    return [
        replace(
            row,
            best=(best := bests.get(row.key)),
            not_learned=tuple(run_id for run_id in row.run_ids if run_id in unlearned) if row.fold else (),
            best_not_learned=unlearned.get(best[0]) if best else None,
        )
        for row in found
    ]


def _experiments_of(whole: Sweep | StoredDuel) -> set[str]:
    return (
        {whole.experiment} if isinstance(whole, Sweep) else {one.experiment for one in from_json(whole.plan).strategies}
    )


def _bests(reader: Reader, folds: Mapping[str, tuple[RunFold, set[str]]]) -> dict[str, tuple[int, Ranked]]:
    """Return the best finished run of each fold (with its experiments) whose runs have results of one metric and task;
    a query for each experiment.
    """
    found: dict[str, list[tuple[BestRun, Result]]] = {}
    for name in sorted({name for _, names in folds.values() for name in names}):
        if not (known := known_experiment(name)):
            continue
        keys = [key for key, (_, names) in folds.items() if name in names]
        bests = reader.leaderboard.best_of([folds[key][0].run_ids for key in keys], name, known.result)
        for place, own in bests.items():
            found.setdefault(keys[place], []).append((own, own.result))
    scripts = {
        key: best
        for key, (fold, names) in folds.items()
        if key not in found and not any(map(known_experiment, names))
        if (best := _best_of_script(reader.runs.some(fold.run_ids)))
    }
    return scripts | {key: best for key, several in found.items() if (best := _best(several))}


def _best_of_script(runs: Sequence[RunRow]) -> tuple[int, Ranked] | None:
    """Return the best finished run of a script by the metric that a person chose to rank its runs; None without one."""
    ends = [(run, result) for run in runs if run.status == "finished" and run.ranked_by and (result := ranked(run))]
    metrics = {result.result.metric for _, result in ends}
    if len(metrics) != 1 or (better := better_values(metrics.pop(), runs)) is None:
        return None
    run, result = (min if better == "min" else max)(ends, key=lambda each: each[1].value)
    return run.id, result


def _best(bests: Sequence[tuple[BestRun, Result]]) -> tuple[int, Ranked] | None:
    """Return the best of the best runs of each experiment; None if their metrics or tasks differ."""
    rankings = {(result.metric, result.of, best.task) for best, result in bests}
    if len(rankings) > 1 or any(best.task is None for best, _ in bests):
        return None
    sign = -1 if metric(bests[0][1].metric).better == "min" else 1
    best, result = max(bests, key=lambda each: sign * each[0].value)
    return best.run_id, Ranked(result, best.value)


def _rest_of_name(name: str, fold: RunFold, whole: str) -> str:
    """Return the name of a run without the name of its sweep, which may be cut, or of its duel; only the tuning runs of
    a duel keep their stage.
    """
    if fold.kind == "duel":
        return name.removeprefix(f"Duel {fold.id}, ").removeprefix("judging: ")
    head, _, rest = name.rpartition(": ")
    is_named_so = head == whole or (head.endswith("…") and whole.startswith(head[:-1]))
    return rest if is_named_so else name


def _key(fold: RunFold) -> str:
    return f"{fold.kind}-{fold.id}"


def _fold_row(fold: RunFold, members: Sequence[RunRow], whole: Sweep | StoredDuel) -> TableRow:
    newest, varied = members[0], dict[str, Any]()
    shared = newest.config
    title, kind = whole.name, fold.kind.capitalize()
    if isinstance(whole, Sweep):
        is_part = len(members) == len(fold.run_ids) < whole.total  # a filter left some of its runs
        left = {name: {run.config.get(name) for run in members} for name in whole.grid} if is_part else whole.grid
        varied = {name: _span([each for each in values if each in left[name]]) for name, values in whole.grid.items()}
        title = whole.name or experiment_title(whole.experiment)
        shared = {name: value for name, value in newest.config.items() if name not in whole.equal_work}
    return TableRow(
        *(_key(fold), newest.experiment, {**shared, **varied}, fold.run_ids, ()),
        cells={
            "run": f"{kind} {fold.id}",
            "title": title,
            "differs": _few([f"{lower_title(name)} {value}" for name, value in varied.items() if name != SEED]),
            "owner": whole.owner,
            "launched": moment(newest.created_at),
            "marks": VIA_AGENT if newest.agent else "",
            "tags": list(fold.tags),
        },
        run=newest,
        statuses=fold.statuses,
        fold=fold,
        total=whole.total if isinstance(whole, Sweep) else 0,
    )


def differing(rows: Sequence[TableRow]) -> list[str]:
    """Return for each row the settings, except the seed, in which the rows of its experiment differ; for one below a
    sweep or duel, those in which the runs of its experiment there differ. Those with the most values come first.
    """
    seen: dict[tuple[str, str], dict[str, set[str]]] = {}
    for row in rows:
        unused = without_effect(row.experiment, row.config)
        for name, value in row.config.items():
            if name in unused:
                continue
            seen.setdefault((row.parent, row.experiment), {}).setdefault(name, set()).add(repr(value))
    vary = {
        one: most_telling_first(
            name
            for name, values in sorted(fields.items(), key=lambda field: -len(field[1]))
            if len(values) > 1 and name != "seed"
        )
        for one, fields in seen.items()
    }
    return [
        _few(
            [
                field_in_words(name, row.config[name])
                for name in vary.get((row.parent, row.experiment), ())
                if name in row.config and name not in without_effect(row.experiment, row.config)
            ]
        )
        for row in rows
    ]


def spans(ids: Sequence[int]) -> str:
    """Return ids as ranges, such as `1-3, 7`; a long list is cut and gives the total."""
    parts: list[list[int]] = []
    for each in sorted(ids):
        if parts and each == parts[-1][-1] + 1:
            parts[-1].append(each)
        else:
            parts.append([each])
    words = [f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts[:MOST_SPANS]]
    return ", ".join(words) + (f", … ({len(ids):,} in total)" if len(parts) > MOST_SPANS else "")


def _span(values: Sequence[Any]) -> Any:
    """Return the values that a sweep gives to a setting: one as it is, several as text."""
    if len(values) == 1:
        return values[0]
    if len(values) <= MOST_DIFFERING:
        return ", ".join(map(str, values))
    return f"{values[0]} … {values[-1]} ({counted(len(values), 'value')})"


def _few(settings: Sequence[str]) -> str:
    return ", ".join(settings[:MOST_DIFFERING]) + (", …" if len(settings) > MOST_DIFFERING else "")


def _cells(run: RunRow) -> dict[str, Any]:
    return {
        "run": run.id,
        "marks": ", ".join(marks(run)),
        "title": title_of(run),
        "experiment": run.experiment,
        "preset": run.preset,
        "owner": run.owner,
        "status": run.status,
        "progress": None if run.status in ENDED else run.progress,
        "launched": moment(run.created_at),
        "sweep": run.sweep_id,
        "tags": list(run.tags),
    }


def _group_cells(group: RunGroup) -> dict[str, Any]:
    title = experiment_title(group.experiment)
    return {
        "title": f"{title}, {group.preset}" if group.preset else title,
        "experiment": group.experiment,
        "preset": group.preset,
        "n": len(group.finished),
        "runs": spans(group.run_ids),
        "marks": "",
        "tags": list(group.tags),
    }
