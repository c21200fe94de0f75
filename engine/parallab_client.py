"""A client for the API of a Parallab lab: one file that needs only Python 3.9 or newer. Copy it next to your script.

    from parallab_client import Parallab

    lab = Parallab("http://127.0.0.1:8501", token="plab_…")      # or PARALLAB_URL and PARALLAB_TOKEN
    run_id = lab.submit("hogwild", preset="quick", trainers=2)
    run = lab.wait(run_id)
    print(run["status"], run["last"].get("test/accuracy"))
    for run in lab.runs(filter="trainers >= 4 and test/accuracy.best > 98"):
        print(run["id"], run["execution_time_s"])

A script that runs elsewhere reports its run while it trains; `import parallab_client as wandb` (or trackio, or mlflow)
does the same for a script that is written for one of these, as far as `log` goes:

    with lab.record(experiment="net", config={"lr": 0.1}) as run:
        run.log({"loss": 0.5}, step=1)
        run.keep("net.pt")

In a lab without accounts pass your name instead of a token: Parallab(owner="ada"). There, a command also needs the
secret of the console's link: it is read from the home in PARALLAB_HOME if you own it, or pass secret="…". Responses are
the API's JSON as dicts (see /api/v1/openapi.json). Refusals are raised as errors with the lab's message. Token and
secret are sent only to the lab: they never appear in an error and never follow a redirect.
"""

from __future__ import annotations

import atexit
import glob
import io
import ipaddress
import json
import os
import platform
import shutil
import signal
import sys
import threading
import time
import traceback
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from email.message import Message
from hashlib import sha256
from http.client import HTTPException
from math import isfinite, isnan
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

__all__ = ["NotCarried", "Parallab", "ParallabError", "RecordedRun", "Refused", "TimedOut", "Unreachable"]
ENDED = ("finished", "failed", "cancelled", "lost")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0


class ParallabError(Exception):
    """Base class of all errors; the message is a sentence."""


class Refused(ParallabError):
    """The lab refused the request: `status` is the HTTP status, `problems` lists the errors by field."""

    def __init__(self, status: int, sentence: str, problems: Mapping[str, str], is_of_lab: bool = True) -> None:
        self.status = status
        self.is_of_lab = is_of_lab
        self.problems = dict(problems)
        super().__init__(f"{sentence} ({status})")


class Unreachable(ParallabError):
    """The lab did not respond, including retries."""


class TimedOut(ParallabError):
    """The run had not ended when the timeout expired."""


class NotCarried(ParallabError, AttributeError):
    """A call of W&B, Trackio or MLflow whose data Parallab does not take."""


class Parallab:
    """A client for one lab; use it in one thread."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        owner: str | None = None,
        agent: str | None = None,
        secret: str | None = None,
        timeout_s: float = 30.0,
        tries: int = 6,
        insecure: bool = False,
    ) -> None:
        """Connect to the lab at `url`; each request waits `timeout_s` and is tried up to `tries` times while the lab is
        busy or does not respond.

        In a lab without accounts, `agent` says which program acts for the owner; with accounts, its token does.
        Defaults come from PARALLAB_URL (otherwise http://127.0.0.1:8501), PARALLAB_TOKEN and PARALLAB_OWNER. Raises
        ValueError for an invalid URL, and for a token that would be sent unencrypted (http) to another machine unless
        `insecure` allows it.
        """
        self.url = (url or os.environ.get("PARALLAB_URL") or "http://127.0.0.1:8501").rstrip("/")
        self.owner = owner or os.environ.get("PARALLAB_OWNER")
        self.timeout_s, self.tries = timeout_s, max(1, tries)
        self._token = token or os.environ.get("PARALLAB_TOKEN")
        self._secret = secret
        self._agent = {"Parallab-Agent": agent} if agent and not self._token else {}
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ValueError(f"url must look like https://lab.example:8501; got '{self.url}'.")
        self._near = near = _is_near(parts.hostname)
        if self._token and parts.scheme == "http" and not near and not insecure:
            raise ValueError(
                f"The token would be sent unencrypted to {parts.hostname}. Use https, or insecure=True on a trusted "
                "network."
            )
        self._opener = build_opener(
            _NoRedirects(), *([ProxyHandler({})] if near else [])
        )  # no proxy for loopback addresses

    def me(self) -> dict[str, Any]:
        """Return the person of the token and their permissions."""
        return self._get("/me")

    def quota(self) -> dict[str, Any]:
        """Return the person's usage and limits, and those of the agent whose token it is."""
        return self._get("/quota", {} if self._token else {"owner": self.owner})

    def runs(
        self,
        filter: str = "",
        *,
        status: Iterable[str] = (),
        experiment: str | None = None,
        owner: str | None = None,
        sweep: int | None = None,
        archived: bool = False,
        sort: str = "",
        before: int | None = None,
        page: int = 100,
    ) -> Iterator[dict[str, Any]]:
        """Yield the runs that match all conditions, highest number first, or by `sort` (such as `-created`); pages
        are requested as needed. `before` begins after that run.
        """
        kinds = [status] if isinstance(status, str) else list(status)
        asked = {
            "filter": filter or None,
            "status": kinds,
            "experiment": experiment,
            "owner": owner,
            "sweep": sweep,
            "archived": archived,
            "sort": sort or None,
            "limit": page,
        }
        return self._pages("/runs", "runs", asked, before)

    def run(self, run_id: int) -> dict[str, Any]:
        """Return one run with all its details."""
        return self._get(f"/runs/{int(run_id)}")

    def series(
        self,
        run_id: int,
        metrics: Iterable[str] = (),
        *,
        max_points: int = 1_000,
        axis: str = "step",
        start: float | None = None,
        end: float | None = None,
    ) -> list[dict[str, Any]]:
        """Return curves of a run (default: all), each with steps, times_s, passes and values.

        Each curve has `shown` of `total` points. Non-finite values are the floats nan, inf and -inf.
        """
        asked = {"metrics": _joined(metrics), "max_points": max_points, "axis": axis, "from": start, "to": end}
        found: list[dict[str, Any]] = self._get(f"/runs/{int(run_id)}/series", asked)["series"]
        for curve in found:
            for name in ("times_s", "values"):
                curve[name] = [float(value) for value in curve[name]]
        return found

    def points(self, run_id: int, metrics: Iterable[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield every point of some metrics of a run (default: all metrics) as it arrives."""
        with self._open(
            "GET", f"/runs/{int(run_id)}/points", {"metrics": _joined(metrics), "format": "ndjson"}
        ) as answer:
            for line in answer:
                point: dict[str, Any] = json.loads(line)
                yield {**point, "value": float(point["value"])}

    def log(self, run_id: int, source: str = "worker", offset: int | None = None) -> dict[str, Any]:
        """Return the end of a log (`text`), or the part after a byte offset; pass `end` as the offset of the next
        request.
        """
        return self._get(f"/runs/{int(run_id)}/logs", {"source": source, "offset": offset})

    def ranks(self, run_id: int) -> dict[str, Any]:
        """Return what each rank of a run is doing, and whether the run stands still."""
        return self._get(f"/runs/{int(run_id)}/ranks")

    def differences(self, run_ids: Iterable[int]) -> dict[str, Any]:
        """Return where two to eight runs differ, and which was fastest."""
        return self._get("/differences", {"runs": ",".join(str(int(run_id)) for run_id in run_ids)})

    def fit(self, sweep_id: int) -> dict[str, Any]:
        """Return how a sweep over a count scales: sizes, fitted laws, findings."""
        return self._get(f"/sweeps/{int(sweep_id)}/fit")

    def verdict(self, sweep_id: int) -> dict[str, Any]:
        """Return the answer of a sweep to its question, and which of its combinations was fastest."""
        return self._get(f"/sweeps/{int(sweep_id)}/verdict")

    def duels(self) -> list[dict[str, Any]]:
        """Return the 50 latest duels."""
        found: list[dict[str, Any]] = self._get("/duels")["duels"]
        return found

    def duel(self, duel_id: int) -> dict[str, Any]:
        """Return a duel with its verdict."""
        return self._get(f"/duels/{int(duel_id)}")

    def sweeps(self, *, sort: str = "") -> Iterator[dict[str, Any]]:
        """Yield the lab's sweeps, highest number first, or by `sort`, in which each has the place of its first run."""
        return self._pages("/sweeps", "sweeps", {"sort": sort or None})

    def sweep(self, sweep_id: int) -> dict[str, Any]:
        """Return one sweep with the ids of its runs."""
        return self._get(f"/sweeps/{int(sweep_id)}")

    def experiments(self) -> list[dict[str, Any]]:
        """Return all experiments."""
        found: list[dict[str, Any]] = self._get("/experiments")["experiments"]
        return found

    def recipes(self) -> list[dict[str, Any]]:
        """Return all recipes: commands that people saved under a name."""
        found: list[dict[str, Any]] = self._get("/experiments")["recipes"]
        return found

    def experiment(self, name: str) -> dict[str, Any]:
        """Return one experiment with its presets and the JSON schema of its settings."""
        return self._get(f"/experiments/{quote(name, safe='')}")

    def metric_names(self) -> list[dict[str, Any]]:
        """Return the description of each metric."""
        found: list[dict[str, Any]] = self._get("/metric-names")["metrics"]
        return found

    def queue(self) -> dict[str, Any]:
        """Return the queued runs, with their reasons for waiting and estimated starts."""
        return self._get("/queue")

    def machine(self) -> dict[str, Any]:
        """Return the machine's capacity, usage and load."""
        return self._get("/machine")

    def submit(
        self,
        experiment: str | None = None,
        *,
        command: str | Sequence[str] | None = None,
        folder: str | None = None,
        python: str | None = None,
        settings: Mapping[str, Any] | None = None,
        preset: str | None = None,
        title: str = "",
        terms: Mapping[str, Any] | None = None,
        key: str | None = None,
        **config: Any,
    ) -> int:
        """Launch a run with some settings changed and return its id; retries never launch a second run.
        Cautions become Python warnings.

        `experiment` is the name of an experiment or a recipe. `command` is one of your own script instead, as text or
        words, in `folder` (default: this process's), with the interpreter `python`. `settings` are those whose names
        are no Python names, or are arguments here. `key` identifies this launch: repeating it within a week, also from
        another process, returns the same run.
        """
        body = self._launch(experiment, command, folder, python, preset, title, terms, {**(settings or {}), **config})
        found = self._post("/runs", self._named(body), {"Idempotency-Key": key or str(uuid.uuid4())})
        for caution in found.get("cautions", ()):
            warnings.warn(caution, stacklevel=2)
        return int(found["id"])

    def sweep_over(
        self,
        over: Mapping[str, Any],
        experiment: str | None = None,
        *,
        command: str | Sequence[str] | None = None,
        folder: str | None = None,
        python: str | None = None,
        seeds: int = 1,
        seed_field: str = "",
        settings: Mapping[str, Any] | None = None,
        preset: str | None = None,
        title: str = "",
        terms: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> int:
        """Launch a sweep over values of up to two settings, such as `{"lr": [0.1, 0.01]}`, and return its id; else as
        `submit`. Without any, it repeats the run with `seeds` seeds.
        """
        body = self._launch(experiment, command, folder, python, preset, title, terms, settings or {})
        varied = {"over": dict(over), "seeds": seeds, "seed_field": seed_field}
        found = self._post("/sweeps", self._named({**body, **varied}), {"Idempotency-Key": key or str(uuid.uuid4())})
        return int(found["id"])

    def plan(
        self,
        experiment: str,
        *,
        over: Mapping[str, Any] | None = None,
        seeds: int = 1,
        settings: Mapping[str, Any] | None = None,
        preset: str | None = None,
        title: str = "",
        terms: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return what `submit`, or with `over` or `seeds` `sweep_over`, would queue, with resources and estimates."""
        body = self._launch(experiment, None, None, None, preset, title, terms, settings or {})
        return self._post("/plan", self._named({**body, "over": dict(over or {}), "seeds": seeds}))

    def note(self, run_id: int, text: str, *, append: bool = True) -> str:
        """Add a paragraph to a run's note, or replace it; return the whole note."""
        return str(self._post(f"/runs/{int(run_id)}/note", self._named({"text": text, "append": append}))["note"])

    def _launch(
        self,
        experiment: str | None,
        command: str | Sequence[str] | None,
        folder: str | None,
        python: str | None,
        preset: str | None,
        title: str,
        terms: Mapping[str, Any] | None,
        config: Mapping[str, Any],
    ) -> dict[str, Any]:
        body: dict[str, Any] = {"config": dict(config), "title": title, "terms": dict(terms or {})}
        if command is not None:
            body |= {"command": command if isinstance(command, str) else list(command)}
            body |= {"folder": folder or str(Path.cwd()), "python": python or ""}
        if experiment is not None:
            body["experiment"] = experiment
        if preset is not None:
            body["preset"] = preset
        return body

    def wait(self, run_id: int, timeout_s: float | None = None, *, poll_s: float = 0.5) -> dict[str, Any]:
        """Return a run with all its details after it has ended (see `status` and `cause`); raises TimedOut after
        `timeout_s`.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            found = self.run(run_id)
            if found["status"] in ENDED:
                return found
            if end is not None and time.monotonic() + poll_s > end:
                raise TimedOut(f"Run {run_id} is still {found['status']} after {timeout_s:g} s.")
            time.sleep(poll_s)

    def cancel(self, run_id: int, *, force: bool = False) -> str:
        """Request a run's end and return its status: cancelled, or stopping until all its processes have ended."""
        return str(self._post(f"/runs/{int(run_id)}/cancel", self._named({"force": force}))["status"])

    def record(
        self,
        *,
        experiment: str = "",
        name: str = "",
        config: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
        note: str = "",
        key: str | None = None,
    ) -> RecordedRun:
        """Begin a run that this process executes, and return it; its `log` takes microseconds, and a thread sends.

        The same `key` again, also from another process, goes on with the run, unless it has finished or failed.
        """
        return RecordedRun(self, experiment, name, config or {}, list(tags), note, str(key or uuid.uuid4()))

    def mark(self, run_id: int, **marks: Any) -> dict[str, Any]:
        """Change marks of a run and return it: `name`, `note`, `tags` to add, `untag`, `starred`, `archived`,
        `baseline`.
        """
        return self._post(f"/runs/{int(run_id)}/marks", self._named(marks))

    def files(self, run_id: int) -> dict[str, Any]:
        """Return the `files` that a run keeps, each with its SHA-256 hash, and those of other runs that it `used`."""
        return self._get(f"/runs/{int(run_id)}/files")

    def keep(self, run_id: int, source: str | os.PathLike[str] | bytes, name: str = "") -> dict[str, Any]:
        """Keep a file of a run, such as a checkpoint, a picture or a table, and return it: the file at a path, under
        its own name unless another one is given, or bytes under a name. It takes the place of one of that name.
        """
        if not isinstance(source, bytes):
            name = name or Path(source).name
        elif not name:
            raise ValueError("Bytes need a name, such as 'loss.png'.")
        if name in (".", "..") or set(name) & {"/", "\\"}:
            raise ValueError(f"The name of a file must not have / or \\; got '{name}'.")
        with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:  # noqa: PTH123 any path
            digest, size = _digest(file)
            given = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
            asked = {"sha256": digest, **self._named({})}
            with self._open("PUT", _file_path(run_id, name), asked, file, given) as answer:
                return _read(answer)

    def fetch(self, run_id: int, name: str, to: str | os.PathLike[str] = ".") -> Path:
        """Copy a file that a run keeps to a path or into a folder, check its hash, and return where it is."""
        found = {each["name"]: each["sha256"] for each in self.files(run_id)["files"]}
        path = Path(to) / Path(name).name if Path(to).is_dir() else Path(to)
        part = path.with_name(f"{path.name}.part")
        with self._open("GET", _file_path(run_id, name)) as answer, part.open("wb") as file:
            shutil.copyfileobj(answer, file)
        with part.open("rb") as file:
            if _digest(file)[0] != found.get(name):
                part.unlink()
                raise ParallabError(f"The file '{name}' of run {run_id} changed on its way. Fetch it again.")
        return part.replace(path)

    def use(self, run_id: int, source: str | os.PathLike[str]) -> dict[str, Any]:
        """Record that a run used a file that another run keeps, known by its content, and return it."""
        with open(source, "rb") as file:  # noqa: PTH123 any path
            return self._post(f"/runs/{int(run_id)}/uses", self._named({"sha256": _digest(file)[0]}))

    def _named(self, body: dict[str, Any]) -> dict[str, Any]:
        return body if self._token or not self.owner else {**body, "owner": self.owner}

    def _get(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        with self._open("GET", path, query) as answer:
            return _read(answer)

    def _post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        said = json.dumps(body, allow_nan=False).encode()
        given = {"Content-Type": "application/json", **(headers or {})}
        with self._open("POST", path, None, said, given, with_secret=path in ("/runs", "/sweeps")) as answer:
            return _read(answer)

    def _link_secret(self) -> str:
        """Return the secret of the console's link: the one that was given, or that of the home on this machine."""
        if self._secret or not self._near:
            return self._secret or ""
        try:
            found = json.loads(Path(os.environ["PARALLAB_HOME"], "command-link.json").read_text(encoding="utf-8"))
            here = urlsplit(found["url"]).port == urlsplit(self.url).port
            return str(found["secret"]) if here else ""
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _pages(
        self, path: str, name: str, asked: Mapping[str, Any], before: int | None = None
    ) -> Iterator[dict[str, Any]]:
        while True:
            found = self._get(path, {**asked, "before": before})
            yield from found[name]
            before = found["next"]
            if before is None:
                return

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: bytes | IO[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        with_secret: bool = False,
    ) -> IO[bytes]:
        """Send one request, with retries while the lab is busy or does not respond. All changes of the API are safe to
        repeat.
        """
        given = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in (query or {}).items()
            if value is not None
        }
        address = f"{self.url}/api/v1{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")
        pause_s = FIRST_PAUSE_S
        for left in range(self.tries - 1, -1, -1):
            given_headers = {"Accept": "application/json", **self._agent, **(headers or {})}
            if body is not None and not isinstance(body, bytes):
                body.seek(0)
            request = Request(address, body, given_headers, method=method)
            if shown := self._token or (self._link_secret() if with_secret else ""):
                request.add_unredirected_header("Authorization", f"Bearer {shown}")
            try:
                answer: IO[bytes] = self._opener.open(request, timeout=self.timeout_s)
                return answer
            except HTTPError as error:
                with error:
                    if error.code != 503 or not left:
                        raise _refused(error) from None
                    asked_s = str(error.headers.get("Retry-After", ""))
                    pause_s = max(pause_s, float(asked_s) if asked_s.isdecimal() else 0.0)
            except (URLError, HTTPException, OSError) as error:
                if not left:
                    why = getattr(error, "reason", error)
                    raise Unreachable(
                        f"The lab at {self.url} does not respond ({why or type(error).__name__}). Check that the "
                        "console is running and the URL is correct."
                    ) from None
            time.sleep(min(pause_s, LONGEST_PAUSE_S))
            pause_s *= 2
        raise AssertionError("the last try returns or raises")


class _NoRedirects(HTTPRedirectHandler):
    """Raise an error for a redirect instead of following it; a lab never redirects."""

    def redirect_request(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        return None


def _is_near(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(answer: IO[bytes]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(answer.read())
    except ValueError:
        raise ParallabError("The response is not JSON, so the server is not a Parallab lab. Check the URL.") from None
    return found


def _refused(error: HTTPError) -> Refused:
    """Return the lab's error, or the HTTP reason if the server is not a lab."""
    try:
        said = json.loads(error.read())
        sentence, problems = (
            str(said["error"]),
            {str(each["field"]): str(each["sentence"]) for each in said.get("problems", [])},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return Refused(error.code, f"The server is not a Parallab lab: {error.reason}. Check the URL.", {}, False)
    return Refused(error.code, sentence, problems)


def _digest(file: IO[bytes]) -> tuple[str, int]:
    """Return the SHA-256 hash and the size of a file."""
    digest, size = sha256(), 0
    while piece := file.read(1 << 20):
        digest.update(piece)
        size += len(piece)
    return digest.hexdigest(), size


def _file_path(run_id: int, name: str) -> str:
    return f"/runs/{int(run_id)}/files/{quote(name, safe='')}"


def _joined(metrics: Iterable[str]) -> str | None:
    if isinstance(metrics, str):
        return metrics or None
    return ",".join('"' + name.replace('"', '""') + '"' for name in metrics) or None


# ---- A run that this process executes ------------------------------------------------------------------------------

SEND_S, BEAT_S = 0.5, 15.0
"""Seconds between two reports, and between two signs of life where there is nothing to report."""
MOST_ROWS, MOST_BYTES = 5_000, 1_000_000
"""Of one report."""
CAPACITY = 200_000
"""Rows that wait in memory while the lab does not answer; more are dropped, and the run's page says so."""
LONGEST_WAIT_S = 30.0
"""Seconds between two tries."""
EXIT_S = 30.0
"""Seconds that an end waits until all is delivered."""


class RecordedRun:
    """A run that this process executes and reports; a context manager, in which an exception makes it failed."""

    def __init__(
        self,
        lab: Parallab,
        experiment: str,
        name: str,
        config: Mapping[str, Any],
        tags: Sequence[str],
        note: str,
        key: str,
    ) -> None:
        about = {
            "host": platform.node(),
            "program": sys.argv[0] if sys.argv else "",
            "python": platform.python_version(),
        }
        asked = {"experiment": experiment, "name": name, "tags": list(tags), "note": note, "key": key, **about}
        began = lab._post("/reported-runs", lab._named({**asked, "config": _plain(config)}))
        self.id = key
        """Its key, by which a later process goes on with it."""
        self.run_id = int(began["id"])
        """Its number in the lab."""
        self.name, self.url = name, f"{lab.url}/run?run={self.run_id}"
        self.info = SimpleNamespace(run_id=key, run_name=name, status="RUNNING")
        self.config = RunConfig(config, self._send_config)
        self.summary = RunSummary(self)
        self.lab = lab
        self._sender = copy(lab)
        self._sender.tries = 1
        self._zero = time.monotonic() - float(began["elapsed_s"])
        self._next_step = 0
        self._owner = os.getpid()
        self._begin_process()
        _end_with_process()
        _runs.append(self)

    def _begin_process(self) -> None:
        """Begin to send what this process logs; a forked one has rows of its own."""
        self._pid, self._writer = os.getpid(), str(uuid.uuid4())
        self._rows: deque[tuple[int, float, dict[str, Any]]] = deque()
        self._batch: list[tuple[int, float, dict[str, Any]]] = []
        self._settings: dict[str, Any] = {}
        self._end: dict[str, Any] | None = None
        self._refused = ""
        self._sent_at = time.monotonic()
        self.acknowledged = self.dropped = 0
        """Rows of this process that the lab has stored, and those that are lost."""
        self._lock, self._wake, self._closing = threading.Lock(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._send_until_closed, name="parallab", daemon=True)
        self._thread.start()
        if self._pid != self._owner:
            from multiprocessing.util import Finalize  # its processes end without atexit

            Finalize(self, self.finish, exitpriority=1)

    def _ensure_process(self) -> None:
        if self._pid != os.getpid():
            self._begin_process()

    # ---- Recording

    def log(self, data: Mapping[str, Any], step: int | None = None, commit: bool = True) -> None:
        """Record numbers at a step; without one at the next, where `commit=False` stays at the present one. Inner dicts
        get names with a dot. Raises NotCarried for what is no number.
        """
        self._ensure_process()
        if step is None:
            step = self._next_step
            self._next_step += commit
        else:
            self._next_step = step + 1
        row = (int(step), time.monotonic() - self._zero, _numbers(data))
        if self._end is not None or self._refused:
            self._drop(1, self._refused or "the run has ended")
        elif len(self._rows) >= CAPACITY:
            self._drop(1, f"the lab does not answer, and {CAPACITY:,} rows wait")
        else:
            self._rows.append(row)
            if len(self._rows) == MOST_ROWS:
                self._wake.set()

    def keep(self, source: str | os.PathLike[str] | bytes, name: str = "") -> bool:
        """Keep a file as `Parallab.keep` does, at once; where the lab does not take it, say so, return False, and let
        the program go on.
        """
        sender = copy(self.lab)
        sender.tries = 2
        try:
            sender.keep(self.run_id, source, name)
        except (ParallabError, OSError, ValueError) as error:
            named = name or (Path(source).name if not isinstance(source, bytes) else "")
            _say(f"run {self.run_id}: the file {named} is not in the lab: {error}")
            return False
        return True

    def use(self, run_id: int, name: str, to: str | os.PathLike[str] = ".") -> Path:
        """Copy a file of another run as `Parallab.fetch` does, record that this run used it, and return its path."""
        path = self.lab.fetch(run_id, name, to)
        self.lab.use(self.run_id, path)
        return path

    def log_artifact(self, source: str | os.PathLike[str], name: str | None = None, **more: Any) -> None:
        """Keep a file, as `wandb.Run.log_artifact` does; of a folder, its files."""
        _keep_artifact(self, source, name, **more)

    def save(self, source: str | os.PathLike[str], **more: Any) -> None:
        """Keep the files that match a pattern, as they are now."""
        _keep_matching(self, source, **more)

    def finish(
        self, exit_code: int | None = None, *, cause: str = "", error: str = "", timeout_s: float = EXIT_S
    ) -> None:
        """End the run: finished, or failed for an exit code other than 0 or with a cause; wait up to `timeout_s` until
        all is delivered, else say what is not. A forked process only delivers its rows.
        """
        if self in _runs:
            _runs.remove(self)
        if self._pid != os.getpid() or self._end is not None:
            return
        why = cause or (f"Its program ended with exit code {exit_code}." if exit_code else "")
        end = {"status": "failed" if why else "finished", "cause": why[:2_000], "error": error[-20_000:]}
        self._end = {**end, "time_s": time.monotonic() - self._zero} if self._pid == self._owner else {}
        self._closing.set()
        self._wake.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._refused = f"no answer within {timeout_s:g} s"
            self._drop(len(self._rows) + len(self._batch), self._refused)
        if self.dropped:
            _say(f"run {self.run_id}: {self.dropped:,} rows are not in the lab.")

    def __enter__(self) -> RecordedRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if kind is None or (isinstance(error, SystemExit) and not error.code):
            self.finish()
        else:
            told = "".join(traceback.format_exception(kind, error, trace))
            self.finish(cause=f"{kind.__name__}: {error}", error=told)

    def _send_config(self, changes: Mapping[str, Any]) -> None:
        self._ensure_process()
        with self._lock:
            self._settings.update(_plain(changes))

    def _drop(self, rows: int, why: str) -> None:
        if rows and not self.dropped:
            _say(f"run {self.run_id}: rows are dropped: {why}.")
        self.dropped += rows

    # ---- Sending, in a thread of its own

    def _send_until_closed(self) -> None:
        pause_s = 0.0
        while True:
            if pause_s and self._closing.is_set():
                time.sleep(min(pause_s, 1.0))
            else:
                (self._closing if pause_s else self._wake).wait(pause_s or SEND_S)
            self._wake.clear()
            try:
                if self._send():
                    return
                if pause_s:
                    _say(f"run {self.run_id}: the lab answers again.")
                pause_s = 0.0
            except Exception as error:  # of the network, the lab, or a bug here: training goes on
                if not pause_s:
                    kind = "" if isinstance(error, ParallabError) else f"{type(error).__name__}: "
                    _say(f"run {self.run_id}: {kind}{error} Rows wait in memory.")
                pause_s = min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_WAIT_S)

    def _send(self) -> bool:
        """Send all that waits; return whether nothing more will come."""
        while not self._refused:
            is_last = self._closing.is_set()
            self._batch = self._batch or self._next_batch()
            with self._lock:
                settings = dict(self._settings)
            end = self._end if is_last and not self._rows else None
            if not (self._batch or settings or end or time.monotonic() - self._sent_at >= BEAT_S):
                return is_last
            rows = [{"step": step, "time_s": at, "values": values} for step, at, values in self._batch]
            more = {"rows": rows, "config": settings, **({"end": end} if end else {})}
            if self._report({"offset": self.acknowledged, "dropped": self.dropped, **more}) and end:
                return True
        return True

    def _next_batch(self) -> list[tuple[int, float, dict[str, Any]]]:
        found: list[tuple[int, float, dict[str, Any]]] = []
        size = 0
        while self._rows and len(found) < MOST_ROWS and size < MOST_BYTES:
            found.append(self._rows.popleft())
            size += 60 + sum(6 * len(name) + 30 for name in found[-1][2])
        return found

    def _report(self, body: dict[str, Any]) -> bool:
        """Send a report and return whether the lab took it. What it refuses is dropped; a run that takes nothing
        more is given up.
        """
        try:
            answer = self._post(body)
        except Refused as error:
            if error.status == 409 and body["rows"] and (there := self._post({})["rows"]) < self.acknowledged:
                _say(
                    f"run {self.run_id}: the lab lost {self.acknowledged - there:,} rows that it had, as by a restore."
                )
                self.acknowledged = there
            elif body["rows"] or body["config"]:
                self._drop(len(body["rows"]), f"the lab refused them: {error}")
                self._forget(body["config"])
            else:
                self._refused = f"the lab takes no more: {error}"
                _say(f"run {self.run_id}: {self._refused}")
            return False
        self.acknowledged = answer["rows"]
        self._forget(body["config"])
        if answer["status"] != "running" and "end" not in body:
            self._refused = f"the run has {answer['status']}"
        return True

    def _forget(self, settings: Mapping[str, Any]) -> None:
        """Forget what was sent."""
        self._batch = []
        with self._lock:
            for name in [name for name, value in settings.items() if self._settings[name] == value]:
                del self._settings[name]

    def _post(self, body: dict[str, Any]) -> dict[str, Any]:
        told = self._sender._named({"writer": self._writer, **body})
        try:
            return self._sender._post(f"/runs/{self.run_id}/report", told)
        except Refused as error:
            if error.status >= 500 or error.status in (408, 429) or not error.is_of_lab:
                raise Unreachable(str(error)) from None
            raise
        finally:
            self._sent_at = time.monotonic()


class RunConfig(dict):  # type: ignore[type-arg]
    """Settings of a run, as items and as attributes; changes are reported."""

    def __init__(self, values: Mapping[str, Any], send: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__(values)
        object.__setattr__(self, "_send", send)

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __setattr__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"The config has no '{name}'.") from None

    def setdefault(self, name: str, value: Any = None) -> Any:
        if name not in self:
            self[name] = value
        return self[name]

    def update(self, values: Any = (), allow_val_change: bool = True, **more: Any) -> None:  # type: ignore[override]
        """Set and report values; of an object, its attributes."""
        changes = {**_mapping(values), **more}
        super().update(changes)
        self._send(changes)


class RunSummary(dict):  # type: ignore[type-arg]
    """Numbers that sum a run up: each is recorded as the last value of its metric."""

    def __init__(self, run: RecordedRun) -> None:
        super().__init__()
        self._run = run

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def update(self, values: Any = (), **more: Any) -> None:  # type: ignore[override]
        """Record numbers at the present step."""
        changes = {**_mapping(values), **more}
        self._run.log(changes, step=max(0, self._run._next_step - 1))
        super().update(changes)


def _numbers(data: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return numbers by name, as JSON has them."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        if type(value) is not float:  # most are, and this is the training step's time
            if isinstance(value, Mapping):
                found.update(_numbers(value, f"{above}{name}."))
                continue
            try:
                value = float(value)
            except (TypeError, ValueError):
                what = f"'{above}{name}' is {_a(type(value).__name__)}"
                raise NotCarried(f"{what}: log takes numbers. Keep a picture, table or text as a file.") from None
        found[f"{above}{name}" if above else name] = value if isfinite(value) else _not_finite(value)
    return found


def _not_finite(number: float) -> str:
    return "NaN" if isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _a(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"


def _mapping(values: Any) -> dict[str, Any]:
    return dict(vars(values)) if hasattr(values, "__dict__") and not isinstance(values, Mapping) else dict(values or {})


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; what JSON has no word for as text."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if isfinite(value) else _not_finite(value)
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _say(sentence: str) -> None:
    print(f"parallab: {sentence}", file=sys.stderr, flush=True)


# ---- The end of the process ----------------------------------------------------------------------------------------

_runs: list[RecordedRun] = []
"""Runs of this process that have not ended."""
_exit_codes: list[Any] = []
"""What `sys.exit` was given; empty before the first run began."""


def _end_with_process() -> None:
    """Have runs end with the process: failed after an exception, an exit code other than 0, or SIGTERM where nobody
    else handles it.
    """
    if not _exit_codes:
        _exit_codes.append(None)
        usual = sys.exit

        def leave(status: Any = None) -> None:
            _exit_codes.append(status)
            usual(status)

        sys.exit = leave  # type: ignore[assignment]
        atexit.register(_end_runs)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end_by_signal)


def _end_runs() -> None:
    error, code = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None), _exit_codes[-1]
    for run in [*_runs]:
        if error is not None:
            run.__exit__(type(error), error, error.__traceback__)
        else:
            run.finish(code if code is None or isinstance(code, int) else 1)


def _end_by_signal(number: int, frame: FrameType | None) -> None:
    for run in [*_runs]:
        run.finish(cause="Its program was ended by SIGTERM.", timeout_s=5.0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


# ---- The calls of W&B and Trackio: `import parallab_client as wandb` -----------------------------------------------

_PLACES = frozenset({"entity", "dir", "reinit", "force", "anonymous", "save_code", "space_id"})
"""Arguments of `init` that say where W&B or Trackio keep a run; PARALLAB_URL does so here."""
_CARRIED = {"mode": ("online",), "resume": ("allow", "auto", True)}
"""Arguments with one meaning here: a run with an `id` goes on."""
_AS_TAGS = ("group", "job_type")


def init(
    project: str | None = None,
    *,
    name: str | None = None,
    config: Any = None,
    tags: Iterable[str] | None = None,
    notes: str | None = None,
    id: str | None = None,
    **more: Any,
) -> RecordedRun:
    """Begin a run in the lab of PARALLAB_URL, as `wandb.init` and `trackio.init` do."""
    for each in sorted(more.keys() - _PLACES - {*_AS_TAGS}):
        if more[each] not in (None, False, *_CARRIED.get(each, ())):
            raise NotCarried(f"init({each}={more[each]!r}) is not carried by Parallab. Leave it out.")
    marks = [*(tags or ()), *(f"{each}={more[each]}" for each in _AS_TAGS if more.get(each))]
    return _said(
        experiment=project or "", name=name or "", config=_mapping(config), tags=marks, note=notes or "", key=id
    )


def _said(**told: Any) -> RecordedRun:
    """Begin a run, and say where it is seen."""
    run = Parallab().record(**told)
    _say(f"run {run.run_id}: {run.url}")
    return run


def log(data: Mapping[str, Any], step: int | None = None, commit: bool = True) -> None:
    """Record numbers of the present run."""
    _present().log(data, step, commit)


def save(glob_str: str | os.PathLike[str], base_path: Any = None, policy: str = "live") -> None:
    """Keep the files that match a pattern with the present run, as they are now."""
    _keep_matching(_present(), glob_str, base_path, policy)


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:
    """End the present run."""
    if _runs:
        _runs[-1].finish(exit_code)


def login(**_: Any) -> bool:
    """Return whether PARALLAB_TOKEN is valid; raises Refused otherwise."""
    return bool(Parallab().me())


def _keep_artifact(
    run: RecordedRun,
    source: Any,
    name: str | None = None,
    type: str | None = None,
    aliases: Any = None,
    *,
    folder: str = "",
) -> None:
    """Keep a file, or those in a folder, under one name without folders: Parallab has neither types nor versions."""
    if not isinstance(source, (str, os.PathLike)):
        kind = _a(source.__class__.__name__).capitalize()
        raise NotCarried(f"{kind} is not carried by Parallab, which keeps files. Give the path of one.")
    if aliases:
        raise NotCarried("Aliases are not carried by Parallab, which keeps one file under a name. Leave them out.")
    path = Path(source)
    for each in sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]:
        inner = each.relative_to(path).as_posix() if path.is_dir() else name or path.name
        run.keep(each, f"{folder}/{inner}".strip("/").replace("/", "-"))


def _keep_matching(run: RecordedRun, pattern: str | os.PathLike[str], base_path: Any = None, policy: str = "") -> None:
    if policy == "end":
        raise NotCarried(
            "save(policy='end') is not carried by Parallab, which keeps a file as it is now. Leave it out."
        )
    for each in sorted(glob.glob(os.fspath(pattern))):  # noqa: PTH207 any pattern
        if Path(each).is_file():
            run.keep(each)


def _present() -> RecordedRun:
    if not _runs:
        raise ParallabError("No run has begun in this process. Call init() first.")
    return _runs[-1]


# ---- The calls of MLflow: `import parallab_client as mlflow` -------------------------------------------------------

_experiment: list[str] = []


def set_experiment(experiment_name: str | None = None, experiment_id: str | None = None, **more: Any) -> None:
    """Set the experiment of the next runs."""
    if experiment_name is None or more:
        raise NotCarried("Experiments have names alone in Parallab. Give set_experiment the name.")
    _experiment[:] = [experiment_name]


def set_tracking_uri(uri: Any) -> None:
    """Say that the lab's address is PARALLAB_URL; the script needs no change."""
    if uri:
        _say(f"set_tracking_uri({str(uri)!r}) is ignored: runs go to {Parallab().url}, the lab of PARALLAB_URL.")


def start_run(
    run_id: str | None = None,
    *,
    run_name: str | None = None,
    tags: Mapping[str, Any] | None = None,
    description: str | None = None,
    nested: bool = False,
) -> RecordedRun:
    """Begin a run; a `run_id` is the key of one that goes on."""
    if nested:
        raise NotCarried("Nested runs are not carried by Parallab. Begin one run after the other.")
    marks = [f"{name}={value}" for name, value in (tags or {}).items()]
    experiment = _experiment[0] if _experiment else ""
    return _said(experiment=experiment, name=run_name or "", tags=marks, note=description or "", key=run_id)


def active_run() -> RecordedRun | None:
    """Return the present run."""
    return _runs[-1] if _runs else None


def end_run(status: str = "FINISHED") -> None:
    """End the present run: failed unless the status is FINISHED."""
    if _runs:
        _runs[-1].finish(cause="" if status == "FINISHED" else f"Its program ended it as {status}.")


def log_metric(key: str, value: float, step: int | None = None) -> None:
    """Record one number, at step 0 without a step, as MLflow does."""
    log_metrics({key: value}, step)


def log_metrics(metrics: Mapping[str, float], step: int | None = None) -> None:
    """Record numbers."""
    (active_run() or start_run()).log(metrics, step or 0)


def log_param(key: str, value: Any) -> Any:
    """Set one setting."""
    log_params({key: value})
    return value


def log_params(params: Mapping[str, Any]) -> None:
    """Set settings."""
    (active_run() or start_run()).config.update(params)


def log_artifact(
    local_path: str | os.PathLike[str], artifact_path: str | None = None, name: str | None = None, **more: Any
) -> None:
    """Keep a file with the present run, as MLflow and W&B do; folders become part of its name."""
    _keep_artifact(active_run() or start_run(), local_path, name, folder=artifact_path or "", **more)


def log_artifacts(local_dir: str | os.PathLike[str], artifact_path: str | None = None) -> None:
    """Keep the files of a folder."""
    log_artifact(local_dir, artifact_path)


def log_text(text: str, artifact_file: str) -> None:
    """Keep a text as a file."""
    (active_run() or start_run()).keep(text.encode(), artifact_file.strip("/").replace("/", "-"))


def log_figure(figure: Any, artifact_file: str, **more: Any) -> None:
    """Keep a figure of Matplotlib as a file."""
    if hasattr(figure, "savefig"):
        _keep_written(artifact_file, lambda file: figure.savefig(file, format=_suffix(artifact_file), **more))
    else:
        raise _not_drawn("log_figure", figure, "those of Matplotlib")


def log_image(image: Any, artifact_file: str | None = None, **more: Any) -> None:
    """Keep a picture of PIL as a file."""
    if artifact_file is None or more or not (hasattr(image, "save") and hasattr(image, "getbbox")):
        raise _not_drawn("log_image", image, "PIL's images with an artifact_file")
    kind = _suffix(artifact_file)
    _keep_written(artifact_file, lambda file: image.save(file, format="jpeg" if kind == "jpg" else kind))


def log_table(data: Any, artifact_file: str) -> None:
    """Keep a dict of columns, or pandas' data frame, as a file of JSON."""
    columns = data.to_dict("list") if hasattr(data, "to_dict") else data
    if _suffix(artifact_file) != "json" or not isinstance(columns, Mapping):
        raise _not_drawn("log_table", data, "dicts of columns and data frames, as .json")
    held = [each if isinstance(each, (list, tuple)) else [each] for each in columns.values()]
    rows = [dict(zip(columns, row)) for row in zip(*held)]
    log_text(json.dumps(rows, indent=2, default=str), artifact_file)


def _suffix(artifact_file: str) -> str:
    return Path(artifact_file).suffix[1:].lower()


def _keep_written(artifact_file: str, write: Callable[[io.BytesIO], None]) -> None:
    file = io.BytesIO()
    write(file)
    (active_run() or start_run()).keep(file.getvalue(), artifact_file.strip("/").replace("/", "-"))


def _not_drawn(call: str, given: Any, takes: str) -> NotCarried:
    what = _a(type(given).__name__)
    return NotCarried(
        f"{call} of {what} is not carried by Parallab, which takes {takes}. Write a file, and keep it by log_artifact."
    )


def log_dict(dictionary: Any, artifact_file: str) -> None:
    """Keep a dict as a file of JSON."""
    log_text(json.dumps(dictionary, indent=2, default=str), artifact_file)


def set_tag(key: str, value: Any) -> None:
    """Add the tag `key=value`."""
    set_tags({key: value})


def set_tags(tags: Mapping[str, Any]) -> None:
    """Add tags."""
    run = active_run() or start_run()
    run.lab.mark(run.run_id, tags=[f"{name}={value}" for name, value in tags.items()])


def __getattr__(name: str) -> Any:
    """Return what W&B has as `run`, `config` and `summary`; say of all else that it is not carried."""
    if name == "run":
        return active_run()
    if name in ("config", "summary"):
        return getattr(_present(), name)
    if name.startswith("__"):
        raise AttributeError(name)
    cure = (
        "Write what it logs to a file, and keep that by log_artifact" if name.startswith("log_") else "Remove the call"
    )
    raise NotCarried(
        f"'{name}' is not carried by Parallab, which takes numbers, settings, tags and files. {cure}; docs/api.md has "
        "the calls of W&B, Trackio and MLflow that are carried."
    )
