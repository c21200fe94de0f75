"""One trainer's part of the data as an endless stream of mini-batches, and the step counts of the other parts."""

from collections.abc import Iterator
from itertools import islice

from torch import Tensor

from engine.data.batches import Batches
from engine.data.sets.images import ImageSet
from engine.experiments.sync_sgd.config import SyncSgdConfig
from engine.seeding import PARTITION, seed_of
from engine.training.partition import partition


class PartBatches:
    """The mini-batches of trainer `index`: its own samples in its own order, reshuffled for each pass."""

    def __init__(self, config: SyncSgdConfig, data: ImageSet, index: int, seed: int) -> None:
        cut = partition(
            data.train_labels,
            config.trainers,
            config.partition,
            alpha=config.alpha,
            seed=seed_of(config.seed, PARTITION),
        )
        own = cut[index].to(data.train_labels.device)
        self._images = data.train_images
        # positions instead of images
        self._batches = Batches(own, data.train_labels[own], config.batch_size, seed)
        self._stream = self._positions()
        self.steps_of_all = [config.average_every or -(-len(part) // config.batch_size) for part in cut]
        """Each trainer's steps per round."""
        self.size = len(own)
        self._sizes = [len(part) for part in cut]
        self._batch_size, self._index = config.batch_size, index
        self.steps = self.steps_of_all[index]
        """This trainer's steps per round."""
        self.longest_steps = max(self.steps_of_all)
        """The maximum steps per round over all trainers."""

    def contributors(self, step: int) -> int:
        """Return the number of trainers with a mini-batch in that step of a round (from 0); the others have finished
        their part.
        """
        return sum(step < count for count in self.steps_of_all)

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """Return the images and labels of the next mini-batch."""
        where, labels = self._batches.take(next(self._stream))
        return self._images.index_select(0, where), labels

    def skip(self, steps: int) -> None:
        """Skip that many mini-batches, already trained on by the run that this one resumes."""
        next(islice(self._stream, steps, steps), None)

    def samples(self, steps: int) -> int:
        """Return the number of samples in the first `steps` mini-batches."""
        return self._samples(self._index, steps)

    def samples_of_all(self, rounds: int) -> int:
        """Return the number of samples that all trainers together train on in `rounds` rounds."""
        return sum(self._samples(index, rounds * steps) for index, steps in enumerate(self.steps_of_all))

    def _samples(self, index: int, steps: int) -> int:
        size = self._sizes[index]
        through, rest = divmod(steps, -(-size // self._batch_size))
        return through * size + min(rest * self._batch_size, size)

    def _positions(self) -> Iterator[Tensor]:
        while True:
            yield from self._batches.epoch()
