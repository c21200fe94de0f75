"""Values that are made once for all who ask for them. Nothing here imports Streamlit."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class MadeOnce(Generic[Value]):
    """The newest value of each name; whoever asks while one is being made waits for it. For any thread."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._kept: dict[Hashable, tuple[Hashable, Value]] = {}
        self._lock = Lock()

    def get(self, name: Hashable, stamp: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a name as long as its stamp is the same, else that which `make` returns; what it raises
        is raised, and nothing kept.
        """
        with self._lock:
            found = self._kept.get(name)
            if found is None or found[0] != stamp:
                found = stamp, make()
                self._kept.pop(name, None)  # so that the oldest stand first
                self._kept[name] = found
                for old in list(self._kept)[: -self._most]:
                    del self._kept[old]
            return found[1]
