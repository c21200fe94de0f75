"""A loop over the workers round the loop over the epochs: every epoch is carried out once for each worker."""

import torch

from engine.museum.outcome import Broken, ExhibitOutcome

TRAINERS, EPOCHS, SAMPLES = 4, 3, 1200


class Count:
    """Counts what is trained on; a round lets every trainer go through its part once, then averages."""

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
        """Report the end of an epoch, as the program does."""
        self.epochs_told += 1
        self.series[self.epochs_told] = float(self.seen.float().mean())

    def outcome(self) -> ExhibitOutcome:
        """Return what was told and what was done."""
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
    """As many passes were made as are told."""
    passes, told = outcome.numbers["passes"], outcome.numbers["told"]
    if passes != told:
        raise Broken(
            f"{told:.0f} epochs are told and {passes:.0f} passes over the data were made: accuracy must be "
            "told beside the samples that were really seen."
        )
