"""What the first stage of a duel came to: each strategy's learning rate, or why it can't go on. Torch-free and pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.analysis.tuning import TunedRate, choose
from engine.duel.evidence import DuelEvidence, Tried
from engine.metrics import metric


@dataclass(frozen=True)
class Tuned:
    """The learning rates, as far as they are known."""

    choices: tuple[TunedRate | None, ...]
    """In the order of the strategies; None where no rate is in the running, or not all of its runs have ended."""
    on: int
    """Runs that wait or are on."""
    obstacles: tuple[str, ...]
    """Why the duel can't go on though none is on, a sentence each."""

    @property
    def rates(self) -> tuple[float, ...] | None:
        """The learning rate of each strategy; None where the duel can't go on, or not yet."""
        known = tuple(each.rate for each in self.choices if each)
        return known if len(known) == len(self.choices) and not self.on and not self.obstacles else None


def tuned(found: DuelEvidence) -> Tuned:
    """Return what the runs that tune came to.

    A run that failed puts its learning rate out of the running. One that was lost, cancelled or deleted says nothing
    about its rate, so the duel waits until it was tried again.
    """
    cells = [found.of("tuning", place) for place in range(len(found.duel.strategies))]
    on = sum(each.on for own in cells for each in own)
    choices = tuple(_choice(found, own) for own in cells)
    waits = on or found.stored.stage != "tuning"
    return Tuned(choices, on, () if waits else tuple(_obstacles(found, cells, choices)))


def is_missing(each: Tried) -> bool:
    """Say whether a planned run ended without a word on its strategy: lost, cancelled, or gone."""
    return not each.complete and (each.run is None or each.run.status in ("lost", "cancelled"))


def _choice(found: DuelEvidence, own: Sequence[Tried]) -> TunedRate | None:
    if any(each.on or is_missing(each) for each in own):
        return None
    values = {rate: [each.value for each in own if each.rate == rate] for rate in found.duel.rates}
    return choose(found.duel.rates, values, metric(found.duel.metric).better or "max")


def _obstacles(
    found: DuelEvidence, cells: Sequence[Sequence[Tried]], choices: Sequence[TunedRate | None]
) -> Iterator[str]:
    missing = [each for own in cells for each in own if is_missing(each)]
    if missing:
        yield _silent(missing, sum(map(len, cells)))
        return
    for one, own, choice in zip(found.duel.strategies, cells, choices, strict=True):
        if choice is None:
            failed = [each for each in own if each.failed]
            why = (
                f"{len(failed)} of {len(own)} runs failed (run {failed[0].run.id}: {failed[0].run.cause})"
                if failed and failed[0].run
                else "no run was tested within the budget"
            )
            cure = "Launch another duel with smaller rates." if failed else "Launch another duel with a larger budget."
            yield f"No learning rate of {one.name} is in the running: {why}. {cure}"


def _silent(missing: Sequence[Tried], planned: int) -> str:
    if len(missing) == planned and all(each.run is None for each in missing):
        return "All runs that tune were deleted, so no learning rate is chosen. Launch the duel again."
    ends = ", ".join(sorted({each.run.status if each.run else "deleted" for each in missing}))
    cure = (
        "Launch the duel again."
        if any(each.run is None for each in missing)
        else "Try them again, and the duel goes on by itself."
    )
    return f"{len(missing)} of {planned} runs that tune said nothing ({ends}), so no learning rate is chosen. {cure}"
