"""Judge a figure by one sweep: evidence, checks, verdict. Torch-free."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.analysis.hardware import gpus_used
from engine.published.evidence import FigureEvidence, gather, numbers_of
from engine.published.figure import PASSES, SIZES, Figure, Size
from engine.published.rules import Check
from engine.published.verdict import Cap, Verdict, verdict
from engine.store import Reader, Surroundings, Sweep


@dataclass(frozen=True)
class Judgement:
    """The judgement of a figure by a sweep."""

    figure: Figure
    size: Size
    sweep: Sweep
    evidence: FigureEvidence
    checks: tuple[Check, ...]
    verdict: Verdict | None
    """None until a run has finished."""


def size_of(sweep: Sweep, figure: Figure) -> Size:
    """Return the size at which a figure's sweep was launched."""
    return next(size for size in SIZES if sweep.figure == figure.key(size))


def sweeps_of(reader: Reader, figure: Figure) -> list[Sweep]:
    """Return the sweeps launched for a figure, newest first."""
    return reader.sweeps.of_figures([figure.key(size) for size in figure.versions])


def judge(reader: Reader, figure: Figure, sweep: Sweep) -> Judgement:
    """Judge a figure by one of its sweeps."""
    size = size_of(sweep, figure)
    runs = reader.sweeps.runs(sweep.id)
    ids = [run.id for run in runs if run.status == "finished"]
    around = reader.studies.surroundings(ids)
    tested = reader.studies.tested(ids, numbers_of(figure)) if figure.axis == PASSES else []
    evidence = gather(figure, size, sweep, runs, around, tested)
    checks = tuple(_checked(figure, size, evidence, around))
    found = verdict(evidence.obstacles, checks, cap_of(figure, size)) if evidence.finished else None
    return Judgement(figure, size, sweep, evidence, checks, found)


def best_judgement(reader: Reader, figure: Figure) -> Judgement | None:
    """Return the judgement of the newest sweep with finished runs, preferring full over reduced; None without one."""
    judged = [judge(reader, figure, sweep) for sweep in sweeps_of(reader, figure)[:4]]
    known = [found for found in judged if found.verdict]
    return next((found for found in known if found.size == "full"), known[0] if known else None)


def _checked(
    figure: Figure, size: Size, evidence: FigureEvidence, around: Mapping[int, Surroundings]
) -> Iterable[Check]:
    for rule in figure.judged(size):
        if rule.kind == "value" and (why := _why_not(figure, size, evidence, around)):
            yield Check(rule.kind, rule.statement, "not judged", why)
        else:
            yield rule.judge(evidence.readings)


def cap_of(figure: Figure, size: Size) -> Cap | None:
    """Return the best verdict that a size can reach; None where that is `reproduced`."""
    if figure.versions[size].reduced:
        return "trend only"
    return "set-up assumed" if figure.chosen else None


def _why_not(figure: Figure, size: Size, evidence: FigureEvidence, around: Mapping[int, Surroundings]) -> str:
    """Return why values aren't comparable with the published ones; empty where they are."""
    if not figure.versions[size].values_count:
        return "the reduced version does different work from the source"
    if figure.timed and any(gpus_used(around[run.id]) < figure.gpus for run in evidence.finished if run.id in around):
        return f"the source used {figure.hardware}; these runs had less"
    return ""
