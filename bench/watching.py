"""One browser tab on a run's page without the browser: it speaks Streamlit's WebSocket, and asks our routes as pulse.js
and chart.js do.

What a tab holds is a plain copy of what their scripts hold; a change there has to be followed here.
"""

import asyncio
import json
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

HELD = 2_000
"""Points of a curve past which chart.js keeps half of them."""
PULSE = "parallab_pulse"


class Line:
    """A kept-open connection that asks our routes as Chromium does, reopened where the server closed it."""

    def __init__(self, address: str) -> None:
        self.where = urlsplit(address)
        self.slower = 1.0
        """How many times as long as usual the last answer asked to wait."""
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str) -> dict[str, Any]:
        """Return the JSON of one answer; raises ConnectionError where it is not one."""
        if self._ends:
            with suppress(asyncio.IncompleteReadError, ConnectionResetError, BrokenPipeError):
                return await self._ask(path, *self._ends)
            self.close()
        self._ends = await asyncio.open_connection(self.where.hostname, self.where.port)
        return await self._ask(path, *self._ends)

    async def _ask(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, Any]:
        accepts = "Accept: */*\r\nAccept-Encoding: gzip, deflate, br\r\nSec-Fetch-Site: same-origin"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {self.where.netloc}\r\n{accepts}\r\n\r\n".encode())
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        body = await reader.readexactly(int(headers["content-length"]))
        if " 200 " not in lines[0]:
            raise ConnectionError(f"{path} was answered '{lines[0]}': {body[:200]!r}")
        self.slower = float(headers.get("x-slower", 1))
        plain = zlib.decompress(body, 31) if headers.get("content-encoding") == "gzip" else body
        found: dict[str, Any] = json.loads(plain)
        return found

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            if self._ends:
                self._ends[1].close()


@dataclass
class Watcher:
    """A tab on the page of one run. What came and when: `points` are (moment, highest point id held), `versions`
    (moment, version of the run known).
    """

    address: str
    run_id: int
    points: list[tuple[float, int]] = field(default_factory=list)
    versions: list[tuple[float, int]] = field(default_factory=list)
    reruns: int = 0
    errors: list[str] = field(default_factory=list)
    curves: dict[tuple[str, int], int] = field(default_factory=dict)
    """Points held of each curve."""
    pulse: dict[str, Any] = field(default_factory=dict)
    """What the page told pulse.js last."""
    run_active: bool = True
    _page_hash: str = ""
    _fragment: str = ""
    _pulse_id: str = ""
    _cached: list[str] = field(default_factory=list)
    _loaded: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self) -> None:
        """Open the page and stay on it until cancelled; what goes wrong is kept in `errors`."""
        try:
            where = urlsplit(self.address)
            socket = connect(
                f"ws://{where.netloc}/_stcore/stream",
                origin=self.address,
                subprotocols=["streamlit"],
                max_size=None,
                ping_interval=None,  # type: ignore[list-item,arg-type]
                open_timeout=None,
            )
            async with socket as connection, asyncio.TaskGroup() as tasks:
                await connection.send(self._message(fragment="", beat=None))
                tasks.create_task(self._listen(connection))
                tasks.create_task(self._follow(self._ask_pulse, connection))
                tasks.create_task(self._follow(self._ask_curves, connection))
        except BaseExceptionGroup as failures:
            self.errors += [
                f"{type(one).__name__}: {one}"
                for one in failures.exceptions
                if not isinstance(one, asyncio.CancelledError)
            ]
        except OSError as failure:
            self.errors.append(f"{type(failure).__name__}: {failure}")

    def _message(self, *, fragment: str, beat: object) -> bytes:
        state = ClientState(
            query_string=f"run={self.run_id}", page_name="run", page_script_hash=self._page_hash, fragment_id=fragment
        )
        state.context_info.url = f"{self.address}/run"
        state.context_info.color_scheme = "light"
        state.context_info.timezone = "UTC"
        state.context_info.locale = "en-US"
        state.cached_message_hashes.extend(self._cached)
        if beat is not None:
            told = state.widget_states.widgets.add()
            told.id = f"$$STREAMLIT_INTERNAL_KEY_{self._pulse_id}__events"
            told.json_trigger_value = json.dumps([{"event": "beat", "value": str(beat)}])
        return BackMsg(rerun_script=state).SerializeToString()

    async def _listen(self, connection: ClientConnection) -> None:
        async for data in connection:
            message = ForwardMsg()
            message.ParseFromString(data if isinstance(data, bytes) else data.encode())
            kind = message.WhichOneof("type")
            if message.metadata.cacheable and message.hash not in self._cached:
                self._cached.append(message.hash)
            if kind == "new_session":
                self._page_hash = message.new_session.page_script_hash
            elif kind == "delta":
                self._take(message)
            elif kind == "script_finished":
                self.reruns += 1
                if self._pulse_id:
                    self._loaded.set()
        raise ConnectionError("the server closed the page's WebSocket")

    def _take(self, message: ForwardMsg) -> None:
        element = message.delta.new_element
        kind = element.WhichOneof("type")
        if kind in ("exception", "alert"):
            self.errors.append(str(getattr(element, kind))[:300])
        if kind == "bidi_component" and element.bidi_component.component_name == PULSE:
            self._fragment, self._pulse_id = message.delta.fragment_id, element.bidi_component.id
            self.pulse = json.loads(element.bidi_component.json)

    async def _follow(self, ask: Any, connection: ClientConnection) -> None:
        """Put one question again and again over a connection of its own, as long as there may be news."""
        await self._loaded.wait()
        born = time.monotonic()
        async with asyncio.timeout(None):
            line = Line(self.address)
            try:
                while (delay := await ask(line, connection, time.monotonic() - born)) is not None:
                    await asyncio.sleep(delay * line.slower)
            finally:
                line.close()

    async def _ask_pulse(self, line: Line, connection: ClientConnection, age_s: float) -> float | None:
        """Ask as pulse.js does; return the seconds until the next question."""
        if not self.pulse["active"]:
            return None if not self.run_active else 0.2
        asked = self.pulse
        news = await line.get(f"{asked['url']}&version={asked['version']}")
        if asked is self.pulse and not news.get("unchanged"):
            asked["version"] = news["version"]
            self.versions.append((time.time(), news["version"]))
            if news["token"] != asked["token"]:
                asked["token"] = news["token"]
                await connection.send(self._message(fragment=self._fragment, beat=news["token"]))
        return float(self.pulse["early_ms"] if age_s < self.pulse["early_s"] else self.pulse["every_ms"]) / 1000

    async def _ask_curves(self, line: Line, _: ClientConnection, age_s: float) -> float | None:
        """Ask as chart.js does; return the seconds until the next question, None once the run has ended."""
        news = await line.get(
            f"/api/series?{urlencode({'run': self.run_id, 'after': self._last, 'version': self._version})}"
        )
        if not news.get("unchanged"):
            self._merge(news)
        if not self.run_active:
            return None
        if not self.curves and age_s < 15:
            return 0.15
        return 0.4 if age_s < 10 else 0.75

    _last: int = 0
    _version: int = 0

    def _merge(self, news: dict[str, Any]) -> None:
        for part in news["series"]:
            key = part["metric"], part["rank"]
            held = self.curves.get(key, 0) + len(part["values"])
            self.curves[key] = held if held <= HELD else HELD // 2
        self._last, self._version, self.run_active = news["last_id"], news["version"], news["active"]
        self.points.append((time.time(), self._last))
