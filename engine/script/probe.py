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
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from engine.script.command import Command, with_options
from engine.script.configurations import flat, read_yaml, setting
from engine.script.declarations import add_option, converter_kind, typed
from engine.script.enrich import SourceForm, read_source
from engine.script.field import Kind
from engine.script.words import Option, kind_of, name_of

LIMIT_S = 20
"""Seconds, of CPU and on the clock."""
_CHILD = Path(__file__).with_name("parser_dump.py")
_MARK = "PARALLAB_PROBE"
_MOST_OUTPUT = 4_000_000
_MOST_OPTIONS = 2_000
_SUBCOMMANDS = ("fit", "validate", "test", "predict")


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
    if source.kind == "hydra":
        found, why = _hydra(command, source, limit_s)
        level = "configuration"
    elif source.kind == "lightning":
        found, why = _lightning(command, source, limit_s)
        level = "configuration"
    else:
        found, why = _stopped(command, limit_s)
        level = "probe"
    if found:
        return with_options(command, found, level, "")  # type: ignore[arg-type]
    if before.level == "command" and not source.options:
        helped = _help(command, limit_s)
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


def _hydra(command: Command, source: SourceForm, limit_s: float) -> tuple[list[Option], str]:
    ended = _run(command, "whole", ["--cfg", "job"], limit_s)
    loaded = read_yaml(ended.output)
    if ended.why or not isinstance(loaded, dict):
        return [], ended.why or "The script printed no configuration for --cfg job."
    known = {each.name: each for each in source.options}
    for name, value in flat(loaded):
        made = setting(name, (name,), None if value == "???" else value, required=value == "???", style="assigned")
        known[name] = replace(made, choices=known[name].choices) if name in known else made
    return list(known.values())[:_MOST_OPTIONS], ""


def _lightning(command: Command, source: SourceForm, limit_s: float) -> tuple[list[Option], str]:
    words = command.argv[command.arguments_at :]
    place = tuple(word for word in words if word in _SUBCOMMANDS)[:1]
    ended = _run(command, "whole", ["--print_config"], limit_s)
    loaded = read_yaml(ended.output)
    if ended.why or not isinstance(loaded, dict):
        return [], ended.why or "The script printed no configuration for --print_config."
    known = {each.name: each for each in source.options}
    for name, value in flat(loaded):
        made = setting(name, (f"--{name}",), value, command=place)
        given = known.get(name)
        known[name] = replace(made, help=given.help, choices=given.choices) if given else made
    return list(known.values())[:_MOST_OPTIONS], ""


def _stopped(command: Command, limit_s: float) -> tuple[list[Option], str]:
    ended = _run(command, "module" if command.is_module else "file", [], limit_s)
    found: list[Option] = []
    for each in ended.report.get("options", [])[:_MOST_OPTIONS]:
        option = _option(each) if isinstance(each, dict) else None
        if option is not None:
            add_option(found, option)
    if found and not ended.why:
        return found, ""
    return [], ended.why or f"{command.name} ended without parsing options."


def _option(plain: dict[str, Any]) -> Option | None:
    """Return an option of the child's report."""
    name, kind = str(plain.get("dest")), str(plain.get("kind"))
    flags = tuple(str(each) for each in plain.get("flags") or ())
    place = tuple(str(each) for each in plain.get("command") or ())
    choices = plain.get("choices") or []
    if kind == "command":
        return Option(name, action="command", subcommands=tuple(map(str, choices)), command=place)
    base = Option(
        name,
        flags,
        help=" ".join(str(plain.get("help") or "").split()).replace("%%", "%"),
        group=str(plain.get("group") or ""),
        command=place,
        required=bool(plain.get("required")),
    )
    default = plain.get("default")
    off = tuple(str(each) for each in plain.get("off") or ())
    if kind in ("click", "absl", "fire"):
        return _of_library(base, kind, plain, default, off)
    match kind:
        case "StoreTrueAction" | "StoreConstAction" if kind == "StoreTrueAction" or plain.get("const") is True:
            return replace(base, type="bool", action="on", default=bool(default))
        case "StoreFalseAction" | "StoreConstAction" if kind == "StoreFalseAction" or plain.get("const") is False:
            return replace(base, type="bool", action="off", default=default is not False)
        case "CountAction":
            return replace(base, type="int", action="count", default=default or 0)
        case "BooleanOptionalAction":
            off = tuple(each for each in flags if re.match(r"--(.*\.)?no-", each))
            on = tuple(each for each in flags if each not in off)
            return replace(base, flags=on, type="bool", action="pair", off_flags=off, default=default)
        case "StoreConstAction":
            return None
    return _valued(base, plain, default, tuple(choices))


def _valued(base: Option, plain: dict[str, Any], default: Any, choices: tuple[Any, ...]) -> Option:
    kind, literals = converter_kind(str(plain.get("type") or ""), str(plain.get("source") or ""), default)
    nargs = plain.get("nargs")
    action = str(plain.get("kind"))
    repeated = "append" if "Append" in action else "extend" if "Extend" in action else "store"
    written = "..." if nargs == "A..." else "" if nargs is None else str(nargs)
    is_list = written not in ("", "?") or repeated != "store"
    constant = plain.get("const")
    if written == "?" and isinstance(constant, bool) and not plain.get("type"):
        kind, default = "str", None if isinstance(default, bool) else default
    if choices and not plain.get("type"):
        kind = kind_of(choices[0]) if default is None else kind
    return replace(
        base,
        type=kind,
        action=repeated,  # type: ignore[arg-type]
        nargs=written,
        default=typed(default, kind, is_list),
        choices=choices if kind != "bool" else (),
        literals=literals,
        constant=constant,
    )


def _of_library(base: Option, kind: str, plain: dict[str, Any], default: Any, off: tuple[str, ...]) -> Option:
    """Return an option of click, absl or fire."""
    named = str(plain.get("type") or "").lower()
    kinds: dict[str, Kind] = {"int": "int", "float": "float", "bool": "bool"}
    element: Kind = next((each for start, each in kinds.items() if named.startswith(start)), "str")
    choices = tuple(plain.get("choices") or ())
    if kind == "fire":
        return replace(base, type=element, default=typed(default, element, False), style="joined")
    if plain.get("is_flag") or off:
        flag = "pair" if off else "off" if default is True else "on"
        return replace(base, type="bool", action=flag, off_flags=off, default=bool(default))  # type: ignore[arg-type]
    if plain.get("count"):
        return replace(base, type="int", action="count", default=default or 0)
    number = plain.get("nargs", 1)
    nargs = "*" if number == -1 else str(number) if isinstance(number, int) and number > 1 else ""
    is_repeated = bool(plain.get("multiple")) or named.startswith("multi")
    value = typed(default, element, is_repeated or bool(nargs))
    action = "append" if is_repeated else "store"
    style = "joined" if kind == "absl" else "separate"
    return replace(base, type=element, action=action, nargs=nargs, default=value, choices=choices, style=style)  # type: ignore[arg-type]


_HELP_LINE = re.compile(
    r"^ {1,8}(-{1,2}[A-Za-z][^\s,=]*(?:[ =]\S+)?(?:, *-{1,2}[A-Za-z][^\s,=]*(?:[ =]\S+)?)*)(?:\s{2,}(.*))?$"
)
_HELP_DEFAULT = re.compile(r"[\[(]default(?:s to|:|=)?\s*([^\])]+)[\])]", re.IGNORECASE)


def _help(command: Command, limit_s: float) -> list[Option]:
    """Return the options that the text of `--help` names."""
    ended = _run(command, "whole", ["--help"], limit_s, only=True)
    return help_options(ended.text)


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
        default = _HELP_DEFAULT.search(described)
        value = default[1].strip().strip("'\"") if default else None
        kind, _ = converter_kind("", "", _plain_value(value))
        if valued:
            found.append(
                Option(name_of(long), flags, kind, default=typed(_plain_value(value), kind, False), help=described)
            )
        else:
            found.append(Option(name_of(long), flags, "bool", "on", default=False, help=described))
    return found


def _plain_value(text: str | None) -> Any:
    from engine.script.words import value_of

    return None if text in (None, "None") else value_of(text or "")


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
