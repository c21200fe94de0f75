"""How much less often open pages are asked to ask, so that many of them can't keep the console from anybody: as late as
its event loop runs.

A loop that gets its turns late has more to do than its core takes on, or a core that others took. News then comes a
little later, and pages that somebody opens come first.
"""

import asyncio

LOOK_S = 0.25
MEMORY = 20
"""So many looks weigh on the average, five seconds of them."""
USUAL_S = 0.05
"""A loop that is no later than this on average keeps up."""
MOST = 4.0
"""News of a run that is on still comes every three or four seconds."""


class Backpressure:
    """The lateness of one event loop, and what follows from it."""

    def __init__(self) -> None:
        self.late_s = 0.0
        """On average, of the last seconds."""

    @property
    def slower(self) -> float:
        """How many times as long as usual a page waits before it asks again: 1 to `MOST`, in tenths."""
        return round(min(MOST, max(1.0, self.late_s / USUAL_S)), 1)

    def note(self, late_s: float) -> None:
        """Take in how much later than due the loop came round."""
        self.late_s += (max(0.0, late_s) - self.late_s) / MEMORY

    async def keep(self) -> None:
        """Look every `LOOK_S` how late the running loop is, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self.note(clock() - due)


pace = Backpressure()
"""That of the console's own loop: one console is one process."""
