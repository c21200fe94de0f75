"""How the learner's policy reaches whoever plays with it: two copies in shared memory and a version."""

from torch import Tensor

from engine.experiments.dppo.shared_state import Locks, SharedState


class PublishedPolicy:
    """The policy that the learner publishes, in two copies: the one published last is always whole."""

    def __init__(self, shared: SharedState, locks: Locks) -> None:
        self._shared = shared
        self._lock = locks("weights")

    @property
    def version(self) -> int:
        """How many updates were published."""
        return self._shared.counts.version

    def publish(self, state: Tensor) -> int:
        """Publish a policy; return its version. For one writer. Where weights are live it is there already."""
        version = self.version + 1
        if not self._shared.live:
            self._shared.weights[version % 2].copy_(state)
        with self._lock:
            self._shared.counts.version = version
        return version

    def take(self, state: Tensor) -> int:
        """Copy the newest whole policy into `state`; return its version. Where weights are live they may change
        meanwhile.
        """
        if self._shared.live:
            state.copy_(self._shared.weights[0])
            return self.version
        while True:
            with self._lock:
                version = self.version
            state.copy_(self._shared.weights[version % 2])
            with self._lock:
                if self.version == version:  # nobody can have begun to write over this copy
                    return version
