"""`python -m app`: looks whether the console may be served as the environment asks, and serves it. The one way in for
people and services.
"""

import gc
import os
import runpy
import sys
from typing import NoReturn

import click

from app.core.console_address import ADDRESS, PORT, REFUSED, ConsoleAddress, greeting, refusal
from app.web.port_check import complaint, is_console
from engine.cli.frame import code_of, complete_process
from engine.errors import EngineError
from engine.home import ROOT, Home
from engine.system.runner_process import ensure_running, has_console

CONFIG = ".streamlit/config.toml"


@click.command("app", help="Serve the console. Options override environment variables: see docs/deployment.md.")
@click.option("--port", type=click.IntRange(1, 65_535), help=f"Port of the server; default: {PORT}, or 8501.")
@click.option(
    "--address",
    help=f"Address of the server; default: {ADDRESS}, or 127.0.0.1. Other than loopback requires accounts.",
)
def serve(port: int | None, address: str | None) -> None:
    """Check, then serve; exit code 2 where the console may not be served as it was asked, 1 where its port
    is taken.
    """
    complete_process()
    if ignored := sorted(name for name in os.environ if name.startswith("STREAMLIT_")):
        for name in ignored:
            del os.environ[name]
        click.echo(f"Ignored: {', '.join(ignored)}. The console sets Streamlit's options itself: {CONFIG}.", err=True)
    os.environ.update({name: str(value) for name, value in ((PORT, port), (ADDRESS, address)) if value is not None})
    try:
        serving = ConsoleAddress.of()
        reason = refusal(serving)
    except EngineError as error:
        _end(str(error), code_of(error))
    if reason:
        _end(reason, REFUSED)
    if taken := complaint(serving.port, serving.address):
        home = Home.find()
        if is_console(serving.port, serving.address) and has_console(home):
            sentence, code = _with_runner(home, taken)
            _end(f"{sentence}\n{greeting(home, serving.url, sys.stderr.fileno())}", code)
        _end(taken, 1)
    options = [
        "--server.address",
        serving.address,
        "--server.port",
        str(serving.port),
        "--server.baseUrlPath",
        serving.base,
    ]
    os.chdir(ROOT)
    gc.disable()  # imports make little garbage, and searches for it take a sixth of the time; app/asgi.py enables it
    sys.argv = ["streamlit", "run", "app/asgi.py", *options]
    runpy.run_module("streamlit", run_name="__main__")


def _with_runner(home: Home, taken: str) -> tuple[str, int]:
    """Start a runner for a home that a console serves, if it has none; return what to say, and the exit code."""
    try:
        if ensure_running(home):
            return f"The console is running already; started a runner for {home.path}.", 0
    except EngineError as error:
        return str(error), code_of(error)
    return taken, 1


def _end(sentence: str, code: int) -> NoReturn:
    click.echo(sentence, err=True)
    sys.exit(code)


if __name__ == "__main__":
    serve(prog_name="python -m app")
