"""The result of a duel's tuning stage: each strategy's learning rate, or the obstacles. Torch-free and pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.analysis.tuning import TunedRate, choose
from engine.duel.evidence import DuelEvidence, Tried
from engine.metrics import metric


@dataclass(frozen=True)
class Tuned:
    """The selected learning rates so far."""

    choices: tuple[TunedRate | None, ...]
    """In the order of the strategies; None where no rate qualifies or some runs have not ended."""
    on: int
    """Queued and running tuning runs."""
    obstacles: tuple[str, ...]
    """Why the duel is blocked with no run active, one sentence each."""

    @property
    def rates(self) -> tuple[float, ...] | None:
        """The learning rate of each strategy; None while tuning or blocked."""
        known = tuple(each.rate for each in self.choices if each)
        return known if len(known) == len(self.choices) and not self.on and not self.obstacles else None


def tuned(found: DuelEvidence) -> Tuned:
    """Return the result of the tuning runs.

    A failed run excludes its learning rate. A lost, cancelled or deleted run says nothing about its rate, so the duel
    waits for a retry.
    """
    cells = [found.of("tuning", place) for place in range(len(found.duel.strategies))]
    on = sum(each.on for own in cells for each in own)
    choices = tuple(_choice(found, own) for own in cells)
    waits = on or found.stored.stage != "tuning"
    return Tuned(choices, on, () if waits else tuple(_obstacles(found, cells, choices)))


def is_missing(each: Tried) -> bool:
    """Say whether a planned run ended without a result: lost, cancelled or deleted."""
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
                else "no run has a test within the budget"
            )
            cure = "Launch another duel with smaller rates." if failed else "Launch another duel with a larger budget."
            yield f"No learning rate of {one.name} qualifies: {why}. {cure}"


def _silent(missing: Sequence[Tried], planned: int) -> str:
    if len(missing) == planned and all(each.run is None for each in missing):
        return "All tuning runs were deleted, so no learning rate can be selected. Launch the duel again."
    ends = ", ".join(sorted({each.run.status if each.run else "deleted" for each in missing}))
    cure = (
        "Launch the duel again."
        if any(each.run is None for each in missing)
        else "Retry them; the duel then continues automatically."
    )
    return f"{len(missing)} of {planned} tuning runs have no result ({ends}), so no learning rate is selected. {cure}"
