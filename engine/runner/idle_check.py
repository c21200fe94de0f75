"""The check that the machine is idle before a run that is to be timed starts. Torch-free."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.queue.order import IDLE_CHECK_S
from engine.system.cpu_use import CoreUse, core_use

IDLE_BELOW = 0.1
"""Share of the cores' time (0 to 1) below which a machine is idle: the runner, the console and a watching browser take
less.
"""
LONGEST_S = 15.0
"""Time after which a run starts on a busy machine all the same; its record then says what disturbed it."""


@dataclass
class IdleCheck:
    """Measures what the cores do while a run waits for an idle machine, with no other run on it."""

    cores: Sequence[int]
    read: Callable[[Sequence[int]], CoreUse | None] = core_use
    clock: Callable[[], float] = time.monotonic
    busy: float | None = field(default=None, init=False)
    """Share of the cores' time used in the last window, where that was too much."""
    _run_id: int | None = field(default=None, init=False)
    _began_at: float = field(default=0.0, init=False)
    _window: tuple[float, CoreUse | None] = field(default=(0.0, None), init=False)

    def may_start(self, run_id: int) -> bool:
        """Return whether the machine was idle for a window, or the run has waited long enough. To be asked repeatedly
        while the run is the next one and no other is on.
        """
        now = self.clock()
        before_at, before = self._window
        if run_id != self._run_id or now - before_at > 3 * IDLE_CHECK_S:  # another run, or one that was on in between
            if run_id != self._run_id:
                self._run_id, self._began_at, self.busy = run_id, now, None
            self._window = now, self.read(self.cores)
            return self._window[1] is None
        if now - before_at < IDLE_CHECK_S:
            return False
        self._window = now, self.read(self.cores)
        after = self._window[1]
        if before is None or after is None:
            return True
        used = (after.used_s - before.used_s + after.stolen_s - before.stolen_s) / (now - before_at) / len(self.cores)
        self.busy = used if used > IDLE_BELOW else None
        return self.busy is None or now - self._began_at >= LONGEST_S
