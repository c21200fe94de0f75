"""The total work of a run, as its config declares it before it starts. Torch-free and pure."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Work:
    """What a run does until its end, over all ranks."""

    length: str
    """The setting that its amount is proportional to, such as `epochs`."""
    amount: int
    """Units of work, as the run's progress counts them."""
    unit: str = "samples"
    passes: float | None = None
    """Passes over the training data by all ranks; None where there is no data set."""
    updates: float = 0.0
    """Updates of the model; where each rank has its own, of one of them."""
    steps: float | None = None
    """Steps of a rank; None where they differ between ranks or nothing counts them."""
    batches: str = ""
    """Its mini-batches and micro-batches in words, where these are not its updates."""

    @property
    def pass_size(self) -> int | None:
        """Units of work in a pass; None where there is no data set."""
        return round(self.amount / self.passes) if self.passes else None

    def share(self, share: float) -> "Work":
        """Return that share of it; without its steps and batches, which are not counted as they go."""
        passes = None if self.passes is None else self.passes * share
        return replace(
            self, amount=round(self.amount * share), passes=passes, updates=self.updates * share, steps=None, batches=""
        )

    def shortly(self) -> str:
        """Return its passes, where there are some, or else its units: `24 passes`, `200,000 env steps`."""
        return f"{self.amount:,} {self.unit}" if self.passes is None else in_passes(self.passes)

    def in_words(self) -> str:
        """Return `24 passes, 34,488 samples, 1,080 updates`."""
        units = [] if self.passes is None else [f"{self.amount:,} {self.unit}"]
        return ", ".join(filter(None, [self.shortly(), *units, _count(self.updates, "update"), self.batches]))


def in_passes(passes: float) -> str:
    """Return a number of passes: `24 passes`, `0.25 passes`."""
    return f"{passes_number(passes)} {'pass' if passes == 1 else 'passes'}"


def passes_number(passes: float) -> str:
    """Return the number alone, with at most four significant digits: `24`, `0.3333`, `1,440`."""
    return f"{passes:,.0f}" if passes >= 1000 else f"{passes:.4g}"


def _count(amount: float, noun: str) -> str:
    return f"{round(amount):,} {noun}{'' if round(amount) == 1 else 's'}"
