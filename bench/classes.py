"""A class of thirty on the page of one exercise, who all launch within a minute: how long a page takes, errors, and
whether every run ends.

One asyncio process holds the students, each a tab of their own that speaks Streamlit's WebSocket (bench/watching.py)
and asks for news as pulse.js does. Each has predicted before; their launch is a press of the page's button. A page
counts from the request to the end of its script, as the tab sees it.
Run: python -m bench.classes [--students 30] [--join 40]
"""

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

from app.core.visitor import NAME_COOKIE, sign
from bench.measuring import console, save, server_of
from bench.watchers import spread
from bench.watching import PULSE, Line
from engine.exercises.attempts import predict
from engine.home import Home
from engine.store import Reader
from tests.labs import classes

EXERCISE = "accuracy"
LAUNCH_S = 60.0
"""All launch within so long a time, evenly spread."""
RUNS_S = 1_800.0
"""So long all runs may take together."""


@dataclass
class Student:
    """One student's tab on the page of the exercise."""

    address: str
    cookie: str
    pages: list[float] = field(default_factory=list)
    """Seconds of the page, then of each update."""
    launch_s: float = 0.0
    errors: list[str] = field(default_factory=list)
    _page_hash: str = ""
    _fragment: str = ""
    _ids: dict[str, str] = field(default_factory=dict)
    _pulse: dict[str, Any] = field(default_factory=dict)

    async def attend(self, join_s: float, wait_s: float, over: asyncio.Event) -> None:
        """Open the page, launch after a while, and follow it until the class is over."""
        await asyncio.sleep(join_s)
        where = urlsplit(self.address)
        socket = connect(
            f"ws://{where.netloc}/_stcore/stream",
            origin=self.address,  # type: ignore[arg-type]
            subprotocols=["streamlit"],  # type: ignore[list-item]
            additional_headers={"Cookie": self.cookie},
            max_size=None,
            open_timeout=None,
        )
        line = Line(self.address)
        try:
            async with socket as connection:
                self.pages.append(await self._script(connection, ""))
                await asyncio.sleep(wait_s)
                self.launch_s = await self._script(connection, self._fragment, "launch")
                while not over.is_set():
                    await asyncio.sleep(2.0 * line.slower)
                    if (await line.get(self._pulse["url"]))["token"] != self._pulse["token"]:
                        self.pages.append(await self._script(connection, self._fragment, "pulse"))
        except (OSError, ConnectionError, TimeoutError) as failure:
            self.errors.append(f"{type(failure).__name__}: {failure}")
        finally:
            line.close()

    async def _script(self, connection: ClientConnection, fragment: str, press: str = "") -> float:
        """Run the page's script, of the fragment or whole, with a widget pressed; return the seconds it took."""
        state = ClientState(
            query_string=f"exercise={EXERCISE}",
            page_name="exercises",
            page_script_hash=self._page_hash,
            fragment_id=fragment,
        )
        state.context_info.url, state.context_info.timezone = f"{self.address}/exercises", "UTC"
        if press:
            widget = state.widget_states.widgets.add()
            widget.id = self._ids[press]
            if press == "launch":
                widget.trigger_value = True
            else:
                widget.json_trigger_value = json.dumps([{"event": "beat", "value": str(time.time())}])
        ends = {ForwardMsg.FINISHED_SUCCESSFULLY}  # a launch ends with a run of the whole script
        if press == "pulse":
            ends.add(ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)
        start = time.monotonic()
        await connection.send(BackMsg(rerun_script=state).SerializeToString())
        async with asyncio.timeout(60):
            async for data in connection:
                message = ForwardMsg()
                message.ParseFromString(data if isinstance(data, bytes) else data.encode())
                kind = message.WhichOneof("type")
                if kind == "navigation":
                    self._page_hash = message.navigation.page_script_hash
                elif kind == "delta":
                    self._take(message)
                elif kind == "script_finished" and message.script_finished in ends:
                    return time.monotonic() - start
        raise ConnectionError("the server closed the page's WebSocket")

    def _take(self, message: ForwardMsg) -> None:
        element = message.delta.new_element
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.errors.append(str(element.exception)[:300])
        if kind == "button" and element.button.id.endswith(f"exercise.{EXERCISE}.launch"):
            self._ids["launch"], self._fragment = element.button.id, message.delta.fragment_id
        if kind == "bidi_component" and element.bidi_component.component_name == PULSE:
            self._ids["pulse"] = f"$$STREAMLIT_INTERNAL_KEY_{element.bidi_component.id}__events"
            self._pulse = json.loads(element.bidi_component.json)


async def attend(address: str, home: Home, names: list[str], join_s: float) -> list[Student]:
    """Hold the class, until every run has ended; return its students, who open the page over so long a time."""
    students = [Student(address, f"{NAME_COOKIE}={sign(home, name)}") for name in names]
    over = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for place, student in enumerate(students):
            share = place / len(students)
            tasks.create_task(student.attend(join_s * share, LAUNCH_S * share, over))
        deadline = time.monotonic() + RUNS_S
        while time.monotonic() < deadline and not await asyncio.to_thread(all_ended, home, len(names)):
            await asyncio.sleep(2)
        over.set()
    return students


def all_ended(home: Home, count: int) -> bool:
    """Return whether so many attempts have ended."""
    with Reader.open(home) as reader:
        return sum(attempt.has_ended for attempt in reader.exercises.attempts()) == count


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--students", type=int, default=30)
    options.add_argument("--join", type=float, default=40.0, help="seconds over which all open the page; 0: at once")
    asked = options.parse_args()
    count = asked.students
    names = [f"student {number}" for number in range(count)]
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as folder:
        home = Home(Path(folder)).create()
        exercise = classes.write(home, EXERCISE).exercise(EXERCISE)
        for name in names:
            predict(home, exercise, 90.0, by=name)
        with console(home) as address:
            students = asyncio.run(attend(address, home, names, asked.join))
            memory_mb = server_of(address).memory_info().rss / 1e6
        with Reader.open(home) as reader:
            statuses = [status for attempt in reader.exercises.attempts() for status in attempt.runs.values()]
    found: dict[str, Any] = {
        "students": count,
        "join_s": asked.join,
        "page_s": spread([student.pages[0] for student in students]),
        "update_s": spread([value for student in students for value in student.pages[1:]]),
        "launch_s": spread([student.launch_s for student in students]),
        "runs": {status: statuses.count(status) for status in sorted(set(statuses))},
        "server_memory_mb": round(memory_mb),
        "errors": sorted({error for student in students for error in student.errors}),
    }
    save("classes", found)


if __name__ == "__main__":
    main()
