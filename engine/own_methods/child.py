"""`python -m engine.own_methods.child NAME PATH`: imports the `config.py` of one experiment, prints its card, and
answers what follows from settings, a line of JSON for each line. Torch-free, with limits; nothing else of ours imports
such code but the process of a run.

    {"settings": {…}} -> {"facts": {…}}, or {"problems": [[field, sentence], …]}
    {"given": {…}} -> {"given": {…}}, the settings that duels derive from others
    {"references": {"baseline": {…}, "axis": […]}} -> {"references": […]}, the reference lines of a sweep
"""

import gc
import inspect
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from importlib import import_module
from math import ceil
from pathlib import Path
from typing import Any, TextIO, get_args, get_origin

CPU_S = 5
"""Processor time for the import and for each answer."""
MOST_MEMORY, MOST_FILE = 1_000_000_000, 1 << 20
ALARM_S = 300
"""Seconds for its import and for each answer, should the one who asked be gone."""
IDLE_S = 60.0
"""Seconds without a question after which it ends."""
_NO_PROCESS = ("os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system", "subprocess.Popen", "pty.spawn")
_CARD = (
    *("name", "title", "tagline", "sentence", "pattern", "flows", "source", "api", "presets", "ready_sweeps"),
    *("resumable", "result", "headline", "update_clock", "stale_gradients", "axis", "counts"),
)
"""Fields of an `Experiment` that are plain data."""


def main(name: str, path: str) -> None:
    """Print the card, then answer until the other end closes, or nothing was asked for long."""
    from engine.own_methods.folders import CONFIG, PACKAGE

    folder = f"{path}/{PACKAGE}/{name}/"
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the code prints is no answer
    _limit()
    sys.path.insert(0, path)
    import_module("engine.plugin")  # before the limits of what its code may do

    sys.addaudithook(_refuse)
    _allow()
    try:
        for file in Path(folder).rglob("*.py"):  # also what only a run would import
            compile(file.read_bytes(), file, "exec")
        module = import_module(f"{PACKAGE}.{name}.config")
        try:
            found = module.EXPERIMENT
        except AttributeError:
            raise TypeError(f"{CONFIG} defines no EXPERIMENT = Experiment(…)") from None
        card = card_of(found)
        for preset, settings in {"": {}, **{name: dict(each.settings) for name, each in found.presets.items()}}.items():
            _try_out(found, preset, settings)
    except BaseException as error:
        _say(channel, {"fault": _why(error, folder)})
        return
    _say(channel, {"card": card})
    gc.freeze()
    signal.alarm(0)
    while select.select([sys.stdin], [], [], IDLE_S)[0] and (line := sys.stdin.readline()):
        _allow()
        kind, about = json.loads(line).popitem()
        _say(channel, answer(found, kind, about, folder))
        signal.alarm(0)


def _try_out(found: Any, preset: str, settings: dict[str, Any]) -> None:
    """Ask what pages ask of the settings of a preset, or of the defaults, which alone may break a rule. Raises what its
    code raises, and ValueError for a preset that breaks a rule.
    """
    from engine.config import check_named
    from engine.errors import ConfigError

    try:
        config = found.config.check(settings)
        for rule in config.rules():
            check_named(config, rule.field or "seed")  # one without a field is of all settings
        _facts(found, config, settings)
    except ConfigError as error:
        if preset:
            raise ValueError(f"the preset {preset} can't be launched: {error}") from error


def _limit() -> None:
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE, MOST_FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _allow() -> None:
    """Allow some time from now on."""
    signal.alarm(ALARM_S)
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(time.process_time()) + CPU_S, resource.RLIM_INFINITY))


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse what the declaration of an experiment has no use for: processes, connections, torch."""
    if event in _NO_PROCESS:
        raise PermissionError("config.py can't start a process. Do that in method.py.")
    if event in ("socket.connect", "socket.bind"):
        raise PermissionError("config.py can't use the network. Do that in method.py.")
    if event == "import" and arguments[0] in ("torch", "torchvision"):
        raise ImportError(f"config.py can't import {arguments[0]}, which pages would wait for. Import it in method.py.")


def _say(channel: TextIO, told: Mapping[str, Any]) -> None:
    channel.write(json.dumps(told, default=_plain, allow_nan=False) + "\n")
    channel.flush()


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no plain value: use numbers, texts, lists and mappings.")


def _why(error: BaseException, folder: str) -> str:
    """Return what went wrong, with the last line of the experiment's own code."""
    what = f"{type(error).__name__}: {error}".partition("\n")[0][:600].replace(folder, "")
    if isinstance(error, SyntaxError) and error.filename and error.filename.startswith(folder):
        where = f"{error.filename[len(folder) :]}, line {error.lineno}"
        return f"{where}: {type(error).__name__}: {error.msg}: {(error.text or '').strip()[:200]}"
    if isinstance(error, MemoryError):
        what = f"it needs more than {MOST_MEMORY // 1_000_000:,} MB of memory. Load data in method.py"
    own = [each for each in traceback.extract_tb(error.__traceback__) if each.filename.startswith(folder)]
    if not own:
        return what
    return f"{own[-1].filename[len(folder) :]}, line {own[-1].lineno}: {what}"


# ---- The card: an experiment as plain data -------------------------------------------------------------------------


def card_of(found: Any) -> dict[str, Any]:
    """Return an experiment as plain data; raises TypeError, ValueError for one that can't be."""
    from engine.config import Config
    from engine.experiment import Experiment, Scaling

    if not isinstance(found, Experiment):
        raise TypeError(f"EXPERIMENT must be an Experiment, got {type(found).__name__}")
    declared: Any = found.config
    if not (isinstance(declared, type) and issubclass(declared, Config)):
        raise TypeError(f"config of EXPERIMENT must be a class derived from Config, got {found.config!r}")
    if callable(found.update_clock):
        raise TypeError("update_clock must be a Clock: a function of settings can't leave config.py")
    own = [name for name in found.config.model_fields if name not in Config.model_fields]
    redefined = [name for name in Config.model_fields if name in _annotated(found.config)]
    if "code" in own or redefined:
        raise ValueError(f"the setting {(redefined or ['code'])[0]} is one of every experiment. Choose another name")
    card = {name: getattr(found, name) for name in _CARD}
    return {
        **card,
        "server_roles": found.config.server_roles,
        "work_fields": found.config.work_fields,
        "counts_work": found.work is not None,
        "has_goals": found.goals is not Experiment.goals,
        "duel": found.duel and {name: getattr(found.duel, name) for name in ("length", "strategies", "data", "tests")},
        "scaling": found.scaling
        and {each.name: getattr(found.scaling, each.name) for each in fields(Scaling) if each.name != "references"},
        "settings": {name: _setting(name, found.config.model_fields[name]) for name in own},
        "description": found.config.__doc__ or "",
    }


def _annotated(config: type) -> set[str]:
    """Return the names that classes of the experiment itself annotate."""
    own = [each for each in config.__mro__ if not each.__module__.startswith(("engine.", "pydantic", "builtins"))]
    return {name for each in own for name in inspect.get_annotations(each)}


def _setting(name: str, info: Any) -> dict[str, Any]:
    """Return a setting as plain data; raises TypeError for a type that no form has a field for."""
    from engine.config import bound_of, choices_of, may_be_empty

    shown = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
    kinds = [each for each in (get_args(info.annotation) or (info.annotation,)) if each is not type(None)]
    choices = [] if "catalogue" in shown else list(choices_of(info))  # the home has those of its catalogue
    kind = type(choices[0]) if choices else str if "catalogue" in shown else kinds[0]
    if kind not in (int, float, bool, str) or get_origin(info.annotation) in (list, dict, tuple):
        raise TypeError(f"setting {name} must be int, float, bool, str or a Literal, got {info.annotation}")
    return {
        "type": kind.__name__,
        "empty": may_be_empty(info),
        "default": info.default,
        "description": info.description or "",
        "choices": choices,
        "bounds": {each: bound for each in ("ge", "gt", "le", "lt") if (bound := bound_of(info, each)) is not None},
        "shown": shown,
    }


def answer(found: Any, kind: str, about: Any, folder: str) -> dict[str, Any]:
    """Return what the code of an experiment in a folder answers, or why settings are refused."""
    from engine.errors import ConfigError
    from engine.experiment import Baseline

    try:
        match kind:
            case "settings":
                return {"facts": _facts(found, found.config.check(about), about)}
            case "given":
                return {"given": dict(found.duel.given(about))}
            case "references":
                return {"references": list(found.scaling.references(Baseline(**about["baseline"]), about["axis"]))}
        raise KeyError(kind)
    except ConfigError as error:
        return {"problems": [[each.field, each.sentence] for each in error.problems]}
    except Exception as error:
        return {"fault": _why(error, folder)}


def _facts(found: Any, config: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    duel, work = found.duel, found.work(config) if found.work else None
    if work and not hasattr(config, work.length):
        raise ValueError(f"the length of Work must be a setting, got '{work.length}'")
    return {
        "roles": list(config.roles),
        "max_gpus": config.max_gpus,
        "trains_on": config.trains_on,
        "listens": [bool(config.listens(0)), bool(config.listens(1))],
        "why_one_node": config.why_one_node(),
        "unused": sorted(config.unused),
        "counts": list(found.config.counts(settings)),
        "work": work,
        "goals": dict(found.goals(config)),
        "duel": duel
        and {"pace": duel.pace(config), "momentum": duel.momentum(config), "gradients": duel.gradients(config)},
    }


if __name__ == "__main__":
    main(*sys.argv[1:3])
