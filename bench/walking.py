"""One signed-in person who walks from page to page, without the browser: Streamlit's WebSocket, and the questions of
pulse.js and chart.js beside it.

What a tab holds is a plain copy of what their scripts hold; a change there has to be followed here.
"""

import asyncio
import json
import random
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
from streamlit.proto.Alert_pb2 import Alert
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

from bench.asking import Line
from bench.watching import PULSE

SHELL = ("/", "/_stcore/health", "/_stcore/host-config")
"""What a browser whose cache holds the scripts asks for before it opens the socket."""
ANEW_EVERY = 8
"""Every so many pages one is loaded anew, as by a link or a reload; else the script runs again in the open tab."""
LATEST_S = 60.0
"""A page that is not there by then counts as an error."""


@dataclass(frozen=True)
class Place:
    """A page with its query."""

    page: str
    query: str = ""


@dataclass
class Walker:
    """A person with an account and one tab. `views` are (moment of the click, page, seconds until its script had
    ended).
    """

    address: str
    name: str
    password: str
    places: tuple[Place, ...]
    live: int
    """The run that is on."""
    stays_s: tuple[float, float]
    """They look at a page for so long, at least and at most."""
    seed: int
    views: list[tuple[float, str, float]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    fragments: int = 0
    """Script runs that a pulse asked for."""
    slower: list[float] = field(default_factory=list)
    """How many times as long as usual each answer to a pulse asked to wait."""
    cookie: str = ""
    _hash: str = ""
    _cached: list[str] = field(default_factory=list)
    _pulse: dict[str, Any] | None = None
    _fragment: str = ""
    _pulse_id: str = ""
    _at: Place = Place("")
    _began: bool = False
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def live_on(self) -> None:
        """Sign in and walk until cancelled; what goes wrong is kept in `errors`."""
        chance = random.Random(self.seed)
        while True:
            try:
                if not self.cookie:
                    await self._sign_in()
                await self._tab(chance)
            except BaseExceptionGroup as failures:
                if (task := asyncio.current_task()) and task.cancelling():
                    raise asyncio.CancelledError from None
                told = [one for one in failures.exceptions if not isinstance(one, asyncio.CancelledError)]
                self.errors += [f"{self._at.page}: {type(one).__name__}: {one}"[:300] for one in told]
            except (OSError, httpx.HTTPError) as failure:
                self.errors.append(f"{self._at.page}: {type(failure).__name__}: {failure}"[:300])
            await asyncio.sleep(0.5 if not self.errors else 5)

    async def _sign_in(self) -> None:
        async with httpx.AsyncClient(base_url=self.address, timeout=60) as browser:
            answer = await browser.post(
                "/signin", data={"name": self.name, "password": self.password}, headers={"origin": self.address}
            )
            if answer.status_code != 303:
                raise ConnectionError(f"{self.name} was not let in: {answer.status_code}")
            self.cookie = "; ".join(f"{name}={value}" for name, value in answer.cookies.items())

    async def _tab(self, chance: random.Random) -> None:
        """Load one page, then others in the same tab; return when the next is to be loaded anew."""
        begun = time.monotonic()
        async with httpx.AsyncClient(
            base_url=self.address, headers={"cookie": self.cookie, "accept": "text/html"}, timeout=LATEST_S
        ) as browser:
            for path in SHELL:
                (await browser.get(path)).raise_for_status()
        socket = connect(
            f"ws://{urlsplit(self.address).netloc}/_stcore/stream",
            origin=self.address,
            subprotocols=["streamlit"],
            additional_headers={"Cookie": self.cookie},
            max_size=None,
            ping_interval=None,  # type: ignore[list-item,arg-type]
        )
        self._hash, self._pulse, self._cached = "", None, []
        async with socket as connection, asyncio.TaskGroup() as tasks:
            beside = [
                tasks.create_task(each)
                for each in (self._listen(connection), self._ask_pulse(connection), self._ask_curves())
            ]
            for number in range(ANEW_EVERY):
                await self._view(connection, chance.choice(self.places), begun if number == 0 else time.monotonic())
                await asyncio.sleep(chance.uniform(*self.stays_s))
            for task in beside:
                task.cancel()

    async def _view(self, connection: ClientConnection, place: Place, begun: float) -> None:
        """Go to a page and wait until its script has ended."""
        self._at, self._pulse, self._began, self._hash = place, None, False, ""
        self._ended.clear()
        moment = time.time()
        await connection.send(self._message())
        try:
            async with asyncio.timeout(LATEST_S):
                await self._ended.wait()
        except TimeoutError:
            self.errors.append(f"{place.page}: its script had not ended after {LATEST_S:.0f} s")
        self.views.append((moment, place.page or "home", time.monotonic() - begun))

    def _message(self, *, fragment: str = "", beat: object = None) -> bytes:
        state = ClientState(
            query_string=self._at.query, page_name=self._at.page, page_script_hash=self._hash, fragment_id=fragment
        )
        state.context_info.url = f"{self.address}/{self._at.page}"
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
                self._hash, self._began = message.new_session.page_script_hash, True
            elif kind == "delta":
                self._take(message)
            elif kind == "page_not_found":
                self.errors.append(f"{self._at.page}: page not found")
            elif kind == "script_finished":
                self._finish(message.script_finished)
        raise ConnectionError("the server closed the page's WebSocket")

    def _finish(self, status: int) -> None:
        if status == ForwardMsg.FINISHED_SUCCESSFULLY and self._began:
            self._ended.set()
        elif status == ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY:
            self.fragments += 1
        elif status == ForwardMsg.FINISHED_WITH_COMPILE_ERROR:
            self.errors.append(f"{self._at.page}: its script could not be read")

    def _take(self, message: ForwardMsg) -> None:
        element = message.delta.new_element
        kind = element.WhichOneof("type")
        if kind == "exception" or (kind == "alert" and element.alert.format == Alert.ERROR):
            self.errors.append(f"{self._at.page}: {getattr(element, kind)}"[:300])
        if kind == "bidi_component" and element.bidi_component.component_name == PULSE:
            self._fragment, self._pulse_id = message.delta.fragment_id, element.bidi_component.id
            self._pulse = json.loads(element.bidi_component.json)

    async def _ask_pulse(self, connection: ClientConnection) -> None:
        """Ask as pulse.js does, of whatever page is open."""
        line = Line(self.address, self.cookie)
        try:
            while True:
                asked = self._pulse
                if asked is None or not asked["active"] or not self._ended.is_set():
                    await asyncio.sleep(0.25)
                    continue
                news = await line.get(
                    asked["url"] if asked["version"] is None else f"{asked['url']}&version={asked['version']}"
                )
                if asked is self._pulse and not news.get("unchanged"):
                    asked["version"] = news["version"] if asked["version"] is not None else None
                    if news["token"] != asked["token"]:
                        asked["token"] = news["token"]
                        await connection.send(self._message(fragment=self._fragment, beat=news["token"]))
                self.slower.append(line.slower)
                await asyncio.sleep(asked["every_ms"] / 1000 * line.slower)
        finally:
            line.close()

    async def _ask_curves(self) -> None:
        """Ask for the live run's points as chart.js does, while its page is open."""
        line = Line(self.address, self.cookie)
        place, last, version = self._at, 0, 0
        try:
            while True:
                await asyncio.sleep(0.75 * line.slower)
                if self._at is not place:
                    place, last, version = self._at, 0, 0
                if place.page != "run" or not self._ended.is_set():
                    continue
                news = await line.get(f"/api/series?{urlencode({'run': self.live, 'after': last, 'version': version})}")
                if not news.get("unchanged"):
                    last, version = news["last_id"], news["version"]
        finally:
            line.close()
