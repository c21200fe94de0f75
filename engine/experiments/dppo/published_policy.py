"""Transfer of the learner's policy to collectors and evaluation: two copies in shared memory and a version."""

from torch import Tensor

from engine.experiments.dppo.shared_state import Locks, SharedState


class PublishedPolicy:
    """The learner's published policy in two copies; the last published one is always complete."""

    def __init__(self, shared: SharedState, locks: Locks) -> None:
        self._shared = shared
        self._lock = locks("weights")

    @property
    def version(self) -> int:
        """Number of published updates."""
        return self._shared.counts.version

    def publish(self, state: Tensor) -> int:
        """Publish a policy and return its version. For a single writer. With live weights there is nothing to copy."""
        version = self.version + 1
        if not self._shared.live:
            self._shared.weights[version % 2].copy_(state)
        with self._lock:
            self._shared.counts.version = version
        return version

    def take(self, state: Tensor) -> int:
        """Copy the newest complete policy into `state` and return its version. Live weights may change during the
        copy.
        """
        if self._shared.live:
            state.copy_(self._shared.weights[0])
            return self.version
        while True:
            with self._lock:
                version = self.version
            state.copy_(self._shared.weights[version % 2])
            with self._lock:
                if self.version == version:  # no writer can have started on this copy
                    return version
