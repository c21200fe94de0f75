"""A client for the API of a Parallab lab: one file that needs only Python 3.9 or newer. Copy it next to your script.

    from parallab_client import Parallab

    lab = Parallab("http://127.0.0.1:8501", token="plab_…")      # or PARALLAB_URL and PARALLAB_TOKEN
    run_id = lab.submit("hogwild", preset="quick", trainers=2)
    run = lab.wait(run_id)
    print(run["status"], run["last"].get("test/accuracy"))
    for run in lab.runs(filter="trainers >= 4 and test/accuracy.best > 98"):
        print(run["id"], run["execution_time_s"])

In a lab without accounts pass your name instead of a token: Parallab(owner="ada"). There, a command also needs the
secret of the console's link: it is read from the home in PARALLAB_HOME if you own it, or pass secret="…". Responses are
the API's JSON as dicts (see /api/v1/openapi.json). Refusals are raised as errors with the lab's message. Token and
secret are sent only to the lab: they never appear in an error and never follow a redirect.
"""

from __future__ import annotations

import ipaddress
import json
import os
import time
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.message import Message
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

__all__ = ["Parallab", "ParallabError", "Refused", "TimedOut", "Unreachable"]
ENDED = ("finished", "failed", "cancelled", "lost")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0


class ParallabError(Exception):
    """Base class of all errors; the message is a sentence."""


class Refused(ParallabError):
    """The lab refused the request: `status` is the HTTP status, `problems` lists the errors by field."""

    def __init__(self, status: int, sentence: str, problems: Mapping[str, str]) -> None:
        self.status = status
        self.problems = dict(problems)
        super().__init__(f"{sentence} ({status})")


class Unreachable(ParallabError):
    """The lab did not respond, including retries."""


class TimedOut(ParallabError):
    """The run had not ended when the timeout expired."""


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
        """Yield the runs that match all conditions, newest first, or by `sort` (such as `-test/accuracy.best`); pages
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
        """Yield the lab's sweeps, newest first, or by `sort`, in which each has the place of its first run."""
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
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        with_secret: bool = False,
    ) -> IO[bytes]:
        """Send one request, with retries while the lab is busy or does not respond. Both changes of the API are safe to
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
        sentence, problems = f"The server is not a Parallab lab: {error.reason}. Check the URL.", {}
    return Refused(error.code, sentence, problems)


def _joined(metrics: Iterable[str]) -> str | None:
    if isinstance(metrics, str):
        return metrics or None
    return ",".join('"' + name.replace('"', '""') + '"' for name in metrics) or None
