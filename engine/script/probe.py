"""The form that a script itself gives: a child process under the person's interpreter, with limits, that stops at the
parser.

Hydra prints its configuration (`--cfg job`), LightningCLI as well (`--print_config`); others are run until they parse
(`parser_dump.py`); what is left is the text of `--help`.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from engine.script.command import Command, with_options
from engine.script.configurations import flat, read_yaml, setting
from engine.script.declarations import (
    Said,
    absl_words,
    add_option,
    click_words,
    converter_kind,
    fire_words,
    option_of,
    typed,
)
from engine.script.enrich import SourceForm, lightning_subcommand, read_source
from engine.script.field import Style
from engine.script.words import Option, name_of, value_of

LIMIT_S = 20
"""Seconds, of CPU and on the clock."""
_CHILD = Path(__file__).with_name("parser_dump.py")
_MARK = "PARALLAB_PROBE"
_MOST_OUTPUT = 4_000_000
_MOST_OPTIONS = 2_000
_PRINTS = {"hydra": (("--cfg", "job"), ""), "lightning": (("--print_config",), "--")}
"""Words by which a script prints its configuration, and what precedes the names of its settings."""
_WORDS: dict[str, Callable[[Said], Said]] = {"click": click_words, "absl": absl_words, "fire": fire_words}


@dataclass(frozen=True)
class _Ended:
    """How a child ended."""

    output: str
    text: str
    """What it printed on both streams."""
    report: dict[str, Any]
    why: str = ""
    """Why it gave nothing, "" if it ended well."""


def probed(command: Command, limit_s: float = LIMIT_S) -> Command:
    """Return the command with the form that its script gives; runs the script until it parses its command line."""
    source = read_source(command)
    before = with_options(command, source.options, "source", source.why) if source.options else command
    if command.script is None or not command.is_python:
        return replace(before, why_not=source.why)
    if not (Path(command.folder or ".") / command.script).is_file():
        return replace(before, why_not=source.why)
    if shutil.which(interpreter(command)[0], path=_path(command)) is None:
        return replace(before, why_not=f"{interpreter(command)[0]} isn't a program that can be run.")
    if source.kind in _PRINTS:
        found, why = _printed(command, source, limit_s)
    else:
        found, why = _stopped(command, limit_s)
    if found:
        return with_options(command, found, "configuration" if source.kind in _PRINTS else "probe")
    if not source.options:
        helped = help_options(_run(command, "whole", ["--help"], limit_s, only=True).text)
        if helped:
            return with_options(command, helped, "help", why)
    return replace(before, why_not=why)


def interpreter(command: Command) -> list[str]:
    """Return the words that start the Python of a command: the one that the person named, else the command's own."""
    if command.python:
        return [command.python]
    words = list(command.argv)
    program, before = words[command.program_at], words[: command.program_at]
    name = Path(program).name
    if name == "uv":
        end = next(
            (at for at, word in enumerate(words) if word.endswith(".py") or word in ("--", "-m", "-s")), len(words)
        )
        options = [word for word in words[2:end] if not word.startswith("python")]
        inline = ["--with-requirements", command.script] if command.script and _has_inline(command) else []
        return [program, "run", *options, *inline, "python"]
    if re.fullmatch(r"python[\d.]*t?|pypy3?", name):
        return [*before, program]
    if before:  # such as `conda run`
        return [*before, "python"]
    found = shutil.which(program, path=_path(command))
    beside = Path(found).resolve().with_name("python") if found else None
    return [str(beside)] if beside is not None and beside.is_file() else ["python"]


def _path(command: Command) -> str:
    return command.environment.get("PATH", os.environ.get("PATH", os.defpath))


def _has_inline(command: Command) -> bool:
    """Return whether a script names its dependencies itself (PEP 723)."""
    with suppress(OSError):
        return "# /// script" in (Path(command.folder or ".") / (command.script or "")).read_text(errors="replace")
    return False


# ---- the three ways --------------------------------------------------------------------------------------------------


def _printed(command: Command, source: SourceForm, limit_s: float) -> tuple[list[Option], str]:
    words, prefix = _PRINTS[source.kind]
    ended = _run(command, "whole", words, limit_s)
    loaded = read_yaml(ended.output)
    if ended.why or not isinstance(loaded, dict):
        return [], ended.why or f"The script printed no configuration for {' '.join(words)}."
    known = {each.name: each for each in source.options}
    place = lightning_subcommand(command) if prefix else ()
    style: Style = "separate" if prefix else "assigned"
    for name, value in flat(loaded):
        made = setting(name, (f"{prefix}{name}",), value, command=place, style=style)
        given = known.get(name)
        known[name] = replace(made, help=given.help, choices=given.choices) if given else made
    return list(known.values())[:_MOST_OPTIONS], ""


def _stopped(command: Command, limit_s: float) -> tuple[list[Option], str]:
    ended = _run(command, "module" if command.is_module else "file", [], limit_s)
    found: list[Option] = []
    for said in ended.report.get("options", [])[:_MOST_OPTIONS]:
        option = option_of(_WORDS.get(said["library"], dict)(said)) if isinstance(said, dict) else None
        if option is not None:
            add_option(found, option)
    if found and not ended.why:
        return found, ""
    return [], ended.why or f"{command.name} ended without parsing options."


_HELP_LINE = re.compile(
    r"^ {1,8}(-{1,2}[A-Za-z][^\s,=]*(?:[ =]\S+)?(?:, *-{1,2}[A-Za-z][^\s,=]*(?:[ =]\S+)?)*)(?:\s{2,}(.*))?$"
)
_HELP_DEFAULT = re.compile(r"[\[(]default(?:s to|:|=)?\s*([^\])]+)[\])]", re.IGNORECASE)


def help_options(text: str) -> list[Option]:
    """Return the options of a help text, as argparse, click and most programs write it."""
    found: list[Option] = []
    lines = text.splitlines()
    for at, line in enumerate(lines[:5_000]):
        match = _HELP_LINE.match(line)
        if match is None:
            continue
        said = [match[2] or ""]
        for further in lines[at + 1 :]:
            if not re.match(r"^ {10,}\S", further):
                break
            said.append(further.strip())
        described = " ".join(" ".join(said).split())
        parts = [each.strip() for each in match[1].split(",")]
        flags = tuple(re.split(r"[ =]", each)[0] for each in parts)
        valued = any(re.search(r"[ =]\S", each) for each in parts)
        long = next((each for each in flags if each.startswith("--")), flags[0])
        if long in ("--help", "--version"):
            continue
        match = _HELP_DEFAULT.search(described)
        written = match[1].strip().strip("'\"") if match else "None"
        default = None if written == "None" else value_of(written)
        kind, _ = converter_kind("", "", default)
        option = Option(name_of(long), flags, kind, default=typed(default, kind, False), help=described)
        found.append(option if valued else replace(option, type="bool", action="on", default=False))
    return found


# ---- the child -------------------------------------------------------------------------------------------------------


def _run(command: Command, mode: str, words: Sequence[str], limit_s: float, only: bool = False) -> _Ended:
    """Run the script in a child of its own session; the whole tree is killed at the limit, and at the end."""
    folder = Path(command.folder or ".").absolute()
    own = list(command.argv[command.arguments_at :])
    script = command.argv[command.script_at] if command.is_module and mode == "module" else command.script or ""
    mark = uuid4().hex
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PARALLAB_")}
    environment |= command.environment
    environment |= {"CUDA_VISIBLE_DEVICES": "", _MARK: mark, "MPLBACKEND": "Agg", "WANDB_MODE": "disabled"}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    with tempfile.TemporaryDirectory(prefix="parallab-probe-") as made:
        report, out, err = (Path(made) / name for name in ("report.json", "out", "err"))
        argv = [*interpreter(command), str(_CHILD), str(report), str(int(limit_s) + 1), mode, script]
        with out.open("wb") as output, err.open("wb") as errors:
            try:
                child = subprocess.Popen(
                    [*argv, *([] if only else own), *words],
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    start_new_session=True,
                )
            except OSError as error:
                return _Ended("", "", {}, f"The probe can't start {argv[0]}: {error.strerror}.")
            try:
                code = child.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _kill(child, mark)
        printed, complaints = _read(out), _read(err)
        found = _report(report)
    return _Ended(printed, printed + complaints, found, _reason(code, found, complaints, limit_s))


def _reason(code: int | None, report: dict[str, Any], complaints: str, limit_s: float) -> str:
    if code is None or code == -signal.SIGXCPU:
        return f"The probe stopped: the script didn't parse its command line within {limit_s:g} s."
    if missing := report.get("missing"):
        return f"The probe stopped: No module named '{missing}'."
    if error := report.get("error"):
        return f"The probe stopped: {error}."
    if code == 0:
        return ""
    last = next((line.strip() for line in reversed(complaints.splitlines()) if line.strip()), "")
    if match := re.match(r"ModuleNotFoundError: (No module named .*)", last):
        return f"The probe stopped: {match[1]}."
    how = f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it exited with code {code}"
    return f"The probe stopped: {last[:300] or how}."


def _report(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text()) if path.stat().st_size <= _MOST_OUTPUT else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_OUTPUT).decode(errors="replace")


def _kill(child: "subprocess.Popen[bytes]", mark: str) -> None:
    """Kill the child's session, and what left it but has its mark."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for _ in range(5):
        left = [each for each in psutil.process_iter() if _marked(each, mark)]
        for each in left:
            with suppress(psutil.Error):
                each.kill()
        if not left:
            return


def _marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(_MARK) == mark and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False
