"""The change tokens that open pages ask for all the time. For one thread: the server's event loop."""

from app.core.shared_reader import OpenReader
from engine.home import Home


class Latest(OpenReader):
    """The newest tokens of the home's store."""

    def token(self, home: Home, run_id: int | None = None) -> int:
        """Return the change token of a run, or the highest of all; raises StoreBusy, StoreError, StoreTooNew."""
        return self.answer(home, lambda reader: reader.runs.token(run_id))
