"""A loop over the workers around each epoch: every epoch runs once per worker."""

import torch

from engine.museum.outcome import Broken, ExhibitOutcome

TRAINERS, EPOCHS, SAMPLES = 4, 3, 1200


class Count:
    """Counts trained samples; in a round every trainer processes its part once, then weights are averaged."""

    def __init__(self) -> None:
        self.parts = torch.arange(SAMPLES).chunk(TRAINERS)
        self.seen = torch.zeros(SAMPLES, dtype=torch.int64)
        self.averages = 0
        self.epochs_told = 0
        self.series = {0: 0.0}

    def round(self) -> None:
        """Train all, average."""
        for part in self.parts:
            self.seen[part] += 1
        self.averages += 1

    def tell(self) -> None:
        """Report the end of an epoch, like the published program."""
        self.epochs_told += 1
        self.series[self.epochs_told] = float(self.seen.float().mean())

    def outcome(self) -> ExhibitOutcome:
        """Return the reported and the actual counts."""
        return ExhibitOutcome(
            {
                "passes": float(self.seen.float().mean()),
                "told": float(self.epochs_told),
                "averages": float(self.averages),
            },
            self.series,
        )


def wrong(seed: int) -> ExhibitOutcome:
    """Start all trainers once for each trainer."""
    count = Count()
    for _ in range(EPOCHS):
        for _ in range(TRAINERS):
            count.round()
        count.tell()
    return count.outcome()


def right(seed: int) -> ExhibitOutcome:
    """Start all trainers once."""
    count = Count()
    for _ in range(EPOCHS):
        count.round()
        count.tell()
    return count.outcome()


def invariant(outcome: ExhibitOutcome) -> None:
    """The reported epochs equal the passes made."""
    passes, told = outcome.numbers["passes"], outcome.numbers["told"]
    if passes != told:
        raise Broken(
            f"Reported epochs must equal the passes over the data; got {told:.0f} epochs and {passes:.0f} passes. "
            "Report accuracy with the samples actually processed."
        )
