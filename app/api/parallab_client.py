"""A client for the API of a Parallab lab, in one file that needs nothing but Python 3.9 or newer: copy it beside your
script.

    from parallab_client import Parallab

    lab = Parallab("http://127.0.0.1:8501", token="plab_…")      # or PARALLAB_URL and PARALLAB_TOKEN
    run_id = lab.submit("hogwild", preset="quick", trainers=2)
    run = lab.wait(run_id)
    print(run["status"], run["last"].get("test/accuracy"))
    for run in lab.runs(filter="trainers >= 4 and test/accuracy.best > 98"):
        print(run["id"], run["execution_time_s"])

In a lab without accounts give no token but your name: Parallab(owner="ada"). Answers are the API's own JSON as dicts
(/api/v1/openapi.json says what each field means). What the lab refuses is raised as an error with the lab's own
sentence. The token is shown to the lab alone: never in an error, and never to where a redirect leads.
"""

from __future__ import annotations

import ipaddress
import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from email.message import Message
from http.client import HTTPException
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

__all__ = ["Parallab", "ParallabError", "Refused", "TimedOut", "Unreachable"]
ENDED = ("finished", "failed", "cancelled", "lost")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0


class ParallabError(Exception):
    """What the lab could not do, or did not; the message is a sentence."""


class Refused(ParallabError):
    """The lab refused: `status` is HTTP's, `problems` are its sentences by the field that they are about."""

    def __init__(self, status: int, sentence: str, problems: Mapping[str, str]) -> None:
        self.status = status
        self.problems = dict(problems)
        super().__init__(f"{sentence} ({status})")


class Unreachable(ParallabError):
    """The lab did not answer, also after some tries."""


class TimedOut(ParallabError):
    """A run was still on when the time was over."""


class Parallab:
    """One lab; for one thread."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        owner: str | None = None,
        timeout_s: float = 30.0,
        tries: int = 6,
        insecure: bool = False,
    ) -> None:
        """Speak to the lab at `url`; each request waits `timeout_s` and is tried so many times while the lab is busy or
        does not answer.

        Without them, PARALLAB_URL (else http://127.0.0.1:8501), PARALLAB_TOKEN and PARALLAB_OWNER are asked. Raises
        ValueError for an address that is none, and for a token that would travel readable to another machine (http),
        unless `insecure` says that the way there is safe.
        """
        self.url = (url or os.environ.get("PARALLAB_URL") or "http://127.0.0.1:8501").rstrip("/")
        self.owner = owner or os.environ.get("PARALLAB_OWNER")
        self.timeout_s, self.tries = timeout_s, max(1, tries)
        self._token = token or os.environ.get("PARALLAB_TOKEN")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ValueError(f"An address looks like https://lab.example:8501, got '{self.url}'.")
        near = _is_near(parts.hostname)
        if self._token and parts.scheme == "http" and not near and not insecure:
            raise ValueError(
                f"The token would travel readable to {parts.hostname}. Use https, or insecure=True where the "
                "way there is safe."
            )
        self._opener = build_opener(
            _NoRedirects(), *([ProxyHandler({})] if near else [])
        )  # no proxy to this machine's own addresses

    def me(self) -> dict[str, Any]:
        """Return whom the token stands for, and what they may do."""
        return self._get("/me")

    def runs(
        self,
        filter: str = "",
        *,
        status: Iterable[str] = (),
        experiment: str | None = None,
        owner: str | None = None,
        sweep: int | None = None,
        archived: bool = False,
        page: int = 100,
    ) -> Iterator[dict[str, Any]]:
        """Yield the runs that match all that is given, the newest first; pages are asked for as they are needed."""
        kinds = [status] if isinstance(status, str) else list(status)
        asked = {
            "filter": filter or None,
            "status": kinds,
            "experiment": experiment,
            "owner": owner,
            "sweep": sweep,
            "archived": archived,
            "limit": page,
        }
        return self._pages("/runs", "runs", asked)

    def run(self, run_id: int) -> dict[str, Any]:
        """Return one run in full."""
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
        """Return curves of a run, each with steps, times_s, passes and values; none named: all of them.

        `shown` of `total` points are in a curve. A value that is no finite number is a float all the same: nan, inf or
        -inf.
        """
        asked = {"metrics": _joined(metrics), "max_points": max_points, "axis": axis, "from": start, "to": end}
        found: list[dict[str, Any]] = self._get(f"/runs/{int(run_id)}/series", asked)["series"]
        for curve in found:
            for name in ("times_s", "values"):
                curve[name] = [float(value) for value in curve[name]]
        return found

    def points(self, run_id: int, metrics: Iterable[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield every point that a run recorded of some metrics (none named: of all), as it comes."""
        with self._open(
            "GET", f"/runs/{int(run_id)}/points", {"metrics": _joined(metrics), "format": "ndjson"}
        ) as answer:
            for line in answer:
                point: dict[str, Any] = json.loads(line)
                yield {**point, "value": float(point["value"])}

    def log(self, run_id: int, source: str = "worker", offset: int | None = None) -> dict[str, Any]:
        """Return the end of a log (`text`), or what follows a byte offset; the `end` of one answer is the offset of the
        next.
        """
        return self._get(f"/runs/{int(run_id)}/logs", {"source": source, "offset": offset})

    def sweeps(self) -> Iterator[dict[str, Any]]:
        """Yield the lab's sweeps, the newest first."""
        return self._pages("/sweeps", "sweeps", {})

    def sweep(self, sweep_id: int) -> dict[str, Any]:
        """Return one sweep with the ids of its runs."""
        return self._get(f"/sweeps/{int(sweep_id)}")

    def experiments(self) -> list[dict[str, Any]]:
        """Return what can be launched."""
        found: list[dict[str, Any]] = self._get("/experiments")["experiments"]
        return found

    def experiment(self, name: str) -> dict[str, Any]:
        """Return one experiment with its presets, and its settings as a JSON schema."""
        return self._get(f"/experiments/{quote(name, safe='')}")

    def metric_names(self) -> list[dict[str, Any]]:
        """Return what each metric means."""
        found: list[dict[str, Any]] = self._get("/metric-names")["metrics"]
        return found

    def queue(self) -> dict[str, Any]:
        """Return what waits, why, and when it should start."""
        return self._get("/queue")

    def machine(self) -> dict[str, Any]:
        """Return what the machine has, who holds it, and how busy it is."""
        return self._get("/machine")

    def submit(
        self,
        experiment: str,
        *,
        preset: str | None = None,
        title: str = "",
        terms: Mapping[str, Any] | None = None,
        key: str | None = None,
        **config: Any,
    ) -> int:
        """Launch a run with some settings changed and return its id; a request that has to be sent again launches no
        second one.

        `key` is what you call this launch: given again within a week, also by another process, it returns the same run.
        """
        body: dict[str, Any] = {"experiment": experiment, "config": config, "title": title, "terms": dict(terms or {})}
        if preset is not None:
            body["preset"] = preset
        return int(self._post("/runs", self._named(body), {"Idempotency-Key": key or str(uuid.uuid4())})["id"])

    def wait(self, run_id: int, timeout_s: float | None = None, *, poll_s: float = 0.5) -> dict[str, Any]:
        """Return a run in full once it has ended, well or not (`status` and `cause` tell); raises TimedOut where it is
        on after `timeout_s`.
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
        """Ask for a run's end and return its status: cancelled, or stopping until nothing of it is left."""
        return str(self._post(f"/runs/{int(run_id)}/cancel", self._named({"force": force}))["status"])

    def _named(self, body: dict[str, Any]) -> dict[str, Any]:
        return body if self._token or not self.owner else {**body, "owner": self.owner}

    def _get(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        with self._open("GET", path, query) as answer:
            return _read(answer)

    def _post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        said = json.dumps(body, allow_nan=False).encode()
        with self._open("POST", path, None, said, {"Content-Type": "application/json", **(headers or {})}) as answer:
            return _read(answer)

    def _pages(self, path: str, name: str, asked: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        before = None
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
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> IO[bytes]:
        """Send one request, again while the lab is busy or does not answer; both changes that the API knows may be sent
        twice.
        """
        given = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in (query or {}).items()
            if value is not None
        }
        address = f"{self.url}/api/v1{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")
        pause_s = FIRST_PAUSE_S
        for left in range(self.tries - 1, -1, -1):
            request = Request(address, body, {"Accept": "application/json", **(headers or {})}, method=method)
            if self._token:
                request.add_unredirected_header("Authorization", f"Bearer {self._token}")
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
                        f"The lab at {self.url} does not answer ({why or type(error).__name__}). Is its "
                        "console on, and the address right?"
                    ) from None
            time.sleep(min(pause_s, LONGEST_PAUSE_S))
            pause_s *= 2
        raise AssertionError("the last try returns or raises")


class _NoRedirects(HTTPRedirectHandler):
    """A lab sends nobody elsewhere; where something does, that is said instead of followed."""

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
        raise ParallabError("The answer is no JSON, so it is no lab's. Is the address right?") from None
    return found


def _refused(error: HTTPError) -> Refused:
    """Return what the lab said, or where it was no lab that spoke, HTTP's own word."""
    try:
        said = json.loads(error.read())
        sentence, problems = (
            str(said["error"]),
            {str(each["field"]): str(each["sentence"]) for each in said.get("problems", [])},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        sentence, problems = f"Something else than a lab answered: {error.reason}.", {}
    return Refused(error.code, sentence, problems)


def _joined(metrics: Iterable[str]) -> str | None:
    return (metrics if isinstance(metrics, str) else ",".join(metrics)) or None
