"""A figure held against one sweep: evidence, checks, verdict. Torch-free."""

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
    """What a sweep makes of a figure."""

    figure: Figure
    size: Size
    sweep: Sweep
    evidence: FigureEvidence
    checks: tuple[Check, ...]
    verdict: Verdict | None
    """None while no run of it has finished."""


def size_of(sweep: Sweep, figure: Figure) -> Size:
    """Return the size in which a sweep was launched as a figure."""
    return next(size for size in SIZES if sweep.figure == figure.key(size))


def sweeps_of(reader: Reader, figure: Figure) -> list[Sweep]:
    """Return the sweeps that were launched as a figure, newest first."""
    return reader.sweeps.of_figures([figure.key(size) for size in figure.versions])


def judge(reader: Reader, figure: Figure, sweep: Sweep) -> Judgement:
    """Return what a sweep that was launched as the figure makes of it."""
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
    """Return what the newest sweep of a figure that has finished runs makes of it, a full one before a reduced one;
    None where none has.
    """
    judged = [judge(reader, figure, sweep) for sweep in sweeps_of(reader, figure)[:4]]
    known = [found for found in judged if found.verdict]
    return next((found for found in known if found.size == "full"), known[0] if known else None)


def _checked(
    figure: Figure, size: Size, evidence: FigureEvidence, around: Mapping[int, Surroundings]
) -> Iterable[Check]:
    for rule in figure.judged(size):
        if rule.kind == "value" and (why := _why_not(figure, size, evidence, around)):
            yield Check(rule.kind, rule.said, "not judged", why)
        else:
            yield rule.judge(evidence.readings)


def cap_of(figure: Figure, size: Size) -> Cap | None:
    """Return what a figure is called at most in a size, None where it can be called reproduced."""
    if figure.versions[size].reduced:
        return "trend only"
    return "set-up assumed" if figure.chosen else None


def _why_not(figure: Figure, size: Size, evidence: FigureEvidence, around: Mapping[int, Surroundings]) -> str:
    """Return why values can't be held against the published ones, empty where they can."""
    if not figure.versions[size].values_count:
        return "the reduced version does other work than the source"
    if figure.timed and any(gpus_used(around[run.id]) < figure.gpus for run in evidence.finished if run.id in around):
        return f"the source measured on {figure.hardware}, and these runs had less"
    return ""
