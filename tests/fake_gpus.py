"""GPUs whose state a test sets."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.system.machine import GpuState


@dataclass
class FakeGpus:
    """Fake GPUs with a state set by tests."""

    count: int
    _changed: dict[int, GpuState | None] = field(default_factory=dict)

    def states(self) -> Mapping[int, GpuState]:
        """Return the set state of each GPU; idle by default."""
        found = {index: self._changed.get(index, GpuState(0.0)) for index in range(self.count)}
        return {index: state for index, state in found.items() if state is not None}

    def occupy(self, index: int, *, used_mb: float = 0.0, pids: tuple[int, ...] = ()) -> None:
        """Make a GPU busy."""
        self._changed[index] = GpuState(used_mb, pids)

    def lose(self, index: int) -> None:
        """Make a GPU fall off the bus."""
        self._changed[index] = None

    def clear(self, index: int) -> None:
        """Make a GPU idle."""
        self._changed[index] = GpuState(0.0)
