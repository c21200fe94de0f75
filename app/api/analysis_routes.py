"""Routes for what runs say: where they differ, the laws of a sweep, the answer of a sweep, the verdict of a duel."""

from collections.abc import Mapping, Sequence
from math import isfinite
from statistics import fmean
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from app.api.errors import described
from app.api.run_shapes import DIGITS, MOST_ID, Asked, Count, Id, Moment, Number, Shape
from engine.analysis import differences as apart
from engine.analysis.comparability import environment_shown, unreliable
from engine.analysis.run_values import without_effect
from engine.errors import ConfigError
from engine.home import Home
from engine.store import Reader, Status
from engine.store.records import RunRow, is_complete
from engine.store.sweeps.duels import StoredDuel

router = APIRouter()
MOST_COMPARED = 8
SweepId = Annotated[int, Path(ge=1, le=MOST_ID, description="The sweep's number."), DIGITS]
DuelId = Annotated[int, Path(ge=1, le=MOST_ID, description="The duel's number."), DIGITS]


class FieldTold(Shape):
    """A field with its value in each run; null where a run has none."""

    name: str
    values: list[Any] = Field(description="In the order of the runs.")


class DifferencesTold(Shape):
    """Where runs differ, and which was fastest."""

    runs: list[Id]
    config: list[FieldTold] = Field(description="Settings that differ.")
    environment: list[FieldTold] = Field(description="Facts of host, versions and code that differ.")
    equal: Count = Field(description="Number of settings and facts that are equal in all of them.")
    last: list[FieldTold] = Field(description="Last value of each metric that one of them recorded.")
    fastest: str = Field(description="Which run was fastest and what explains it, or why times do not compare.")


class DifferencesAsked(Asked):
    """Query parameters of the differences."""

    runs: str = Field(pattern=r"^\d{1,16}(,\d{1,16})+$", description="Comma-separated numbers of two to eight runs.")


class IntervalTold(Shape):
    """A mean or median with its interval."""

    mean: Number
    low: Number
    high: Number
    method: str = Field(description="How low and high were found; range: minimum and maximum.")


class SizeTold(Shape):
    """The runs of one line at one count."""

    line: str = Field(description="Value of the sweep's other setting; empty without one.")
    count: int
    runs: Count
    time_s: IntervalTold = Field(description="Execution time.")
    per_second: IntervalTold
    speed_up: IntervalTold | None = Field(description="Against a count of 1; null without such a run.")
    efficiency: IntervalTold | None
    crowded: str = Field(description="Why it is oversubscribed; empty if it isn't.")


class ParameterTold(Shape):
    """A fitted value with its 95 % interval."""

    name: str
    value: Number
    low: Number
    high: Number


class LawTold(Shape):
    """A law fitted to one line."""

    line: str
    law: str
    parameters: list[ParameterTold]
    best_count: Number | None = Field(description="Count at the peak of the Universal Scalability Law; null for none.")
    error: Number = Field(description="Root mean squared relative difference to the runs.")


class FitTold(Shape):
    """How a sweep scales: docs/scaling.md defines the numbers."""

    sweep_id: Id
    field: str = Field(description="The count; empty if the sweep varies none.")
    unit: str = Field(description="Unit of the work; empty if work was not counted in all runs.")
    findings: list[str] = Field(description="A sentence per line, or why there is none.")
    sizes: list[SizeTold]
    laws: list[LawTold]
    refused: list[str] = Field(description="Why laws were not fitted.")


class CombinationTold(Shape):
    """One combination of a sweep's values, over its complete runs."""

    name: str
    runs: Count = Field(description="Complete runs with a result: its seeds or repeats.")
    metric: str = Field(description="That of the results; where there are none, the execution time.")
    result: IntervalTold = Field(description="Their mean with its 95 % interval.")
    from_best: Number = Field(description="Difference of its mean from that of the best combination.")
    standard_error: Number | None = Field(description="Of that difference (Welch); null unless both have two runs.")
    interval: tuple[Number, Number] | None = Field(description="Of that difference, 95 %; null below three runs each.")


class SweepVerdict(Shape):
    """What a sweep answers."""

    sweep_id: Id
    question: str = Field(description="Its question; empty for a sweep that was not made for one.")
    answer: str = Field(description="The answer, or why there is none.")
    fastest: str = Field(description="Which combination was fastest and what explains it, or why times don't compare.")
    reached: str = Field(description="Which combination reached the best result; empty where that can't be judged.")
    unequal_work: str = Field(description="That the combinations did unequal work; empty if they didn't.")
    not_learned: str = Field(description="Which runs did not learn, and why; empty if all did, or can't be judged.")
    combinations: list[CombinationTold] = Field(
        description="By their results, the best first; empty where these don't compare."
    )


class DuelTold(Shape):
    """A duel: strategies compared on one budget."""

    id: Id
    name: str
    owner: str
    created_at: Moment
    stage: Literal["tuning", "judging"]
    statuses: dict[Status, Count]


class DuelList(Shape):
    """The latest duels, highest number first."""

    duels: list[DuelTold]


class PairTold(Shape):
    """One strategy against another, seed by seed."""

    first: str
    second: str
    outcome: str = Field(description="Of the first one: ahead, behind, level, open, too few seeds, failed runs.")
    difference: IntervalTold | None
    seeds: Count
    p: Number | None = Field(description="Corrected for the number of pairs; null with too few seeds.")


class DuelVerdict(DuelTold):
    """A duel with its verdict."""

    metric: str
    better: Literal["max", "min"]
    budget: str
    fastest: str = Field(description="Which strategy was fastest and what explains it, or why times don't compare.")
    verdict: str = Field(description="Empty until an evaluation run of each strategy has ended.")
    obstacles: list[str] = Field(description="What the duel waits for a person to mend.")
    cautions: list[str]
    values: dict[str, list[Number]] = Field(description="Result of each evaluation run within the budget, by strategy.")
    pairs: list[PairTold]
    target: Number | None
    reached_in_s: dict[str, list[Number]] = Field(description="Seconds to the target, by strategy.")


@router.get("/differences", summary="Compare runs", responses={404: described("Unknown run.")})
def differences(asked: Annotated[DifferencesAsked, Query()]) -> DifferencesTold:
    """Return the settings and facts in which some runs differ, their last values, and which was fastest."""
    ids = list(dict.fromkeys(map(int, asked.runs.split(","))))
    if not 2 <= len(ids) <= MOST_COMPARED:
        raise ConfigError.of("runs", f"runs must name 2 to {MOST_COMPARED} different runs; got {len(ids)}.")
    with Reader.open(Home.find()) as reader, reader.db.snapshot():
        runs = [reader.runs.entry(run_id) for run_id in ids]
        environments = reader.multi_run.environments(ids)
        config = apart.rows(
            [{"seeding": run.seeding, **run.config} for run in runs],
            [without_effect(run.experiment, run.config) for run in runs],
        )
        environment = apart.rows([environment_shown(environments.get(run_id, {})) for run_id in ids])
        fastest = _fastest(reader, {f"run {run.id}": [run] for run in runs})
    metrics = dict.fromkeys(name for run in runs for name in run.last)
    return DifferencesTold(
        runs=ids,
        config=_differing(config),
        environment=_differing(environment),
        equal=sum(not row.differs for row in (*config, *environment)),
        last=[FieldTold(name=name, values=[run.last.get(name) for run in runs]) for name in metrics],
        fastest=fastest,
    )


def _differing(rows: Sequence[apart.Row]) -> list[FieldTold]:
    return [
        FieldTold(name=row.name, values=[None if value is apart.MISSING else value for value in row.values])
        for row in rows
        if row.differs
    ]


def _fastest(reader: Reader, groups: Mapping[str, Sequence[RunRow]], *, by_median: bool = False) -> str:
    """Return which group of runs was fastest and why, or why that can't be said; undisturbed runs count, if any."""
    from engine.analysis.scaling import time_difference as times  # imports NumPy; the console answers before

    done = {name: own for name, runs in groups.items() if (own := [run for run in runs if is_complete(run)])}
    clean = {name: own for name, runs in done.items() if (own := [run for run in runs if not run.disturbed])}
    shown = clean if len(clean) == len(done) else done
    runs = [run for own in shown.values() for run in own]
    if len(shown) < 2:
        return f"{len(shown)} of {len(groups)} {'is' if len(shown) == 1 else 'are'} complete: at least 2 are needed."
    ids = [run.id for run in runs]
    around = reader.studies.surroundings(ids)
    if obstacle := times.not_comparable(runs, around):
        return obstacle
    if times.is_speed_unknown(runs, around):
        return "Times do not compare: nothing is known of the machines of these runs."
    said = times.why_faster(times.time_spent(shown, around, reader.studies.phases_of(ids), by_median=by_median))
    return " ".join(filter(None, (said, unreliable([run for run in runs if run.disturbed]))))


@router.get("/sweeps/{sweep_id}/fit", summary="Fit scaling laws", responses={404: described("Unknown sweep.")})
def fit(sweep_id: SweepId) -> FitTold:
    """Return how a sweep over a count of ranks or splits scales, as on its page: sizes, fitted laws, findings."""
    from engine.analysis.scaling import findings
    from engine.analysis.scaling.laws import SCALABILITY, best_count
    from engine.analysis.scaling.scaling_data import at_once
    from engine.analysis.scaling.speedup import sizes

    with Reader.open(Home.find()) as reader, reader.db.snapshot():
        sweep, runs = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
        found = findings.of_sweep(sweep, runs, reader)
    if isinstance(found, str):
        return FitTold(sweep_id=sweep_id, field="", unit="", findings=[found], sizes=[], laws=[], refused=[])
    most = at_once(runs, found.field)
    lines = {
        findings.line_title(found, line): sizes(found.of(line), most, found.statistic) for line in found.line_keys()
    }
    laws, refused = findings.fitted_laws(found, goes_on=sweep.active)
    said = [*filter(None, (found.left_out,)), *findings.verdicts(found, laws, lines)]
    same = [name for name in SizeTold.model_fields if name != "line"]
    return FitTold(
        sweep_id=sweep_id,
        field=found.field,
        unit=found.unit,
        findings=said or ["No run of this sweep has finished with a known time."],
        sizes=[
            SizeTold.model_validate({"line": title, **{name: getattr(size, name) for name in same}})
            for title, own in lines.items()
            for size in own
        ],
        laws=[
            LawTold(
                line=title,
                law=known.law.name,
                parameters=[ParameterTold.model_validate(each) for each in known.parameters],
                best_count=best if known.law is SCALABILITY and isfinite(best := best_count(known)) else None,
                error=known.error,
            )
            for title, own in laws.items()
            for known in own
        ],
        refused=refused,
    )


@router.get("/sweeps/{sweep_id}/verdict", summary="Get a sweep's answer", responses={404: described("Unknown sweep.")})
def sweep_verdict(sweep_id: SweepId) -> SweepVerdict:
    """Return the answer of a sweep to its question, and which of its combinations was fastest, with the reason."""
    from engine.analysis.result import not_learned_of, reached_most
    from engine.analysis.run_values import measured
    from engine.analysis.scaling.answers import answer, question
    from engine.analysis.scaling.scaling_data import by_values, unequal_of_sweep

    with Reader.open(Home.find()) as reader, reader.db.snapshot():
        sweep, runs = reader.sweeps.one(sweep_id), reader.sweeps.runs(sweep_id)
        groups, asked = by_values(sweep.fields, measured(sweep, runs)), question(sweep)
        return SweepVerdict(
            sweep_id=sweep_id,
            question=asked.question if asked else "",
            answer=answer(sweep, runs, reader),
            fastest=_fastest(reader, groups, by_median=sweep.timing is not None),
            reached=reached_most(groups),
            unequal_work=unequal_of_sweep(reader, sweep_id),
            not_learned=not_learned_of(runs),
            combinations=_combinations(groups),
        )


def _combinations(groups: Mapping[str, Sequence[RunRow]]) -> list[CombinationTold]:
    """Return the results of the groups of runs, the best first, without any their times; none where their metrics
    differ.
    """
    from engine.analysis.result import better_values, ranked
    from engine.analysis.statistics.intervals import difference_of_means, mean_interval

    done = {name: own for name, runs in groups.items() if (own := [run for run in runs if is_complete(run)])}
    every = [run for own in done.values() for run in own]
    results = {run.id: found for run in every if (found := ranked(run))}
    metrics = {found.result.metric for found in results.values()} or {"perf/execution_time_s"}
    if len(metrics) > 1 or (better := better_values(name := metrics.pop(), every)) is None:
        return []
    numbers = {run_id: found.value for run_id, found in results.items()} or {
        run.id: run.execution_time_s for run in every if run.execution_time_s is not None and not run.disturbed
    }
    held = {group: [numbers[run.id] for run in own if run.id in numbers] for group, own in done.items()}
    values = {group: own for group, own in held.items() if own}
    order = sorted(values, key=lambda group: fmean(values[group]), reverse=better == "max")
    apart = {group: difference_of_means(values[group], values[order[0]]) for group in order}
    return [
        CombinationTold(
            name=group,
            runs=len(values[group]),
            metric=name,
            result=IntervalTold.model_validate(mean_interval(values[group])),
            from_best=apart[group].mean,
            standard_error=None if group == order[0] else apart[group].error,
            interval=None if group == order[0] else apart[group].interval,
        )
        for group in order
    ]


@router.get("/duels", summary="List duels, highest number first")
def duels() -> DuelList:
    """Return the 50 latest duels, each with the number of its runs per status."""
    with Reader.open(Home.find()) as reader:
        return DuelList(duels=[DuelTold.model_validate(_duel(each)) for each in reader.duels.recent()])


@router.get("/duels/{duel_id}", summary="Get a duel's verdict", responses={404: described("Unknown duel.")})
def duel(duel_id: DuelId) -> DuelVerdict:
    """Return a duel with its verdict, the paired differences behind it, and cautions."""
    from engine.duel.evidence import by_strategy, gather
    from engine.duel.outcome import amount_in_words, outcome

    with Reader.open(Home.find()) as reader:
        found = outcome(gather(reader, duel_id))
        fastest = _fastest(reader, by_strategy(found.evidence))
    plan = found.evidence.duel
    return DuelVerdict(
        **_duel(found.evidence.stored),
        metric=plan.metric,
        better=found.better,
        budget=amount_in_words(plan.budget.kind, plan.budget.amount),
        verdict=found.verdict,
        fastest=fastest,
        obstacles=list(found.tuned.obstacles),
        cautions=list(found.cautions),
        values={name: list(own.values()) for name, own in found.values.items()},
        pairs=[
            PairTold(
                first=each.first,
                second=each.second,
                outcome=each.outcome,
                difference=IntervalTold.model_validate(each.found) if each.found else None,
                seeds=len(each.by_seed),
                p=each.p,
            )
            for each in found.found
        ],
        target=found.target,
        reached_in_s={each.name: list(each.time_s.values()) for each in found.reached},
    )


def _duel(found: StoredDuel) -> dict[str, Any]:
    return {name: getattr(found, name) for name in DuelTold.model_fields}
