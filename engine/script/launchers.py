"""Who starts a command's script: python, torchrun, accelerate, uv or another program, and where the script's own words
begin.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Literal

Launcher = Literal["python", "torchrun", "accelerate", "uv", "opaque"]
_PYTHON = re.compile(r"python(\d+(\.\d+)?)?t?|pypy3?|ipython3?")
_SCRIPT = (".py", ".pyw")
_PROCESSES = {"torchrun": "nproc_per_node", "accelerate": "num_processes", "deepspeed": "num_gpus"}
_VALUED = {
    "python": "-W -X --check-hash-based-pycs",
    "torchrun": """--nnodes --nproc-per-node --rdzv-backend --rdzv-endpoint --rdzv-id --rdzv-conf --max-restarts
        --monitor-interval --start-method --event-log-handler --role --log-dir -r --redirects -t --tee
        --local-ranks-filter --node-rank --master-addr --master-port --local-addr --logs-specs --numa-binding
        --signals-to-handle --rdzv-timeout --shutdown-timeout""",
    "accelerate": """--config-file --mixed-precision --num-processes --num-machines --num-cpu-threads-per-process
        --dynamo-backend --dynamo-mode --gpu-ids --machine-rank --main-process-ip --main-process-port -t --tee
        --log-dir --role --rdzv-backend --rdzv-conf --max-restarts --monitor-interval --downcast-bf16 --env
        --deepspeed-config-file --zero-stage --gradient-accumulation-steps --gradient-clipping
        --offload-optimizer-device --offload-param-device --zero3-init-flag --zero3-save-16bit-model
        --deepspeed-hostfile --deepspeed-multinode-launcher --fsdp-version --fsdp-sharding-strategy
        --fsdp-offload-params --fsdp-min-num-params --fsdp-auto-wrap-policy --fsdp-transformer-layer-cls-to-wrap
        --fsdp-backward-prefetch --fsdp-state-dict-type --fsdp-use-orig-params --fsdp-cpu-ram-efficient-loading
        --fsdp-sync-module-states --fsdp-activation-checkpointing --fsdp-forward-prefetch
        --fsdp-reshard-after-forward --megatron-lm-tp-degree --megatron-lm-pp-degree --enable-cpu-affinity""",
    "uv": """--with --with-editable --with-requirements -p --python --extra --no-extra --group --no-group --only-group
        --project --directory --env-file --index --default-index -i --index-url --extra-index-url -f --find-links
        --package --python-platform --cache-dir --config-file --color --refresh-package -P --upgrade-package
        --reinstall-package --resolution --prerelease --index-strategy --link-mode --exclude-newer""",
    "deepspeed": """-H --hostfile -i --include -e --exclude --num-nodes --num-gpus --master-port --master-addr
        --launcher --launcher-args --node-rank --autotuning""",
    "conda": "-n --name -p --prefix --cwd",
    "nice": "-n --adjustment",
    "stdbuf": "-i -o -e",
}
_WITHIN = ("poetry", "pipenv", "pdm", "rye", "hatch", "pixi", "conda", "mamba", "micromamba")
_BEFORE = ("nohup", "time", "nice", "stdbuf", "exec", "command", "unbuffer")
SHELLS = ("bash", "sh", "zsh", "dash")
_SHELL_VALUED, _SHELL_TEXT = re.compile(r"-[a-z]*[oO]|--rcfile|--init-file"), re.compile(r"-[a-z]*c[a-z]*")
"""Options of a shell with a value, and the one after which it takes its commands from a word, in place of a file."""
_MOVES = ("--directory", "--cwd", "--chdir")
"""Options by which a launcher changes into another folder before it starts the script."""


@dataclass(frozen=True)
class LaunchWords:
    """What the words before a script's own say."""

    launcher: Launcher
    options_at: int
    """The word before which further options of the launcher may stand."""
    program_at: int
    """The word that names the interpreter or the launcher."""
    script_at: int
    """The word that names the script, its module, or the program."""
    arguments_at: int
    """The first word of the script's own."""
    is_module: bool = False
    processes: int | None = None
    """Number of processes; None if the launcher starts one."""
    processes_flag: str = ""
    processes_span: tuple[int, int] | None = None
    is_python: bool = True
    """Whether the script is a program of Python."""
    words: tuple[str, ...] = ()


def read_launcher(argv: Sequence[str]) -> LaunchWords:
    """Return who starts the script of a command."""
    return _read(list(argv), 0, "")


def _read(argv: Sequence[str], at: int, uv: Literal["uv", ""]) -> LaunchWords:
    name = PurePosixPath(argv[at]).name if at < len(argv) else ""
    if _PYTHON.fullmatch(name):
        return _python(argv, at, uv or "python")
    if name == "torchrun":
        return _spread(argv, at, at + 1, "torchrun")
    if name == "accelerate" and argv[at + 1 : at + 2] == ["launch"]:
        return _spread(argv, at, at + 2, "accelerate")
    if name == "deepspeed":
        return replace(_spread(argv, at, at + 1, "deepspeed"), launcher="opaque")
    if name in ("uv", "uvx") and argv[at + 1 : at + 2] == ["run"]:
        return _uv(argv, at)
    inner = _inner(argv, at, name)
    if inner is not None and inner < len(argv):
        return _read(argv, inner, uv)
    return _program(argv, at, uv)


def _program(argv: Sequence[str], at: int, uv: Literal["uv", ""]) -> LaunchWords:
    """Read a program that isn't known; a script of Python among its words is what it starts."""
    script = before = at
    if at < len(argv) and PurePosixPath(argv[at]).name in SHELLS:
        before = at + 1
        while before < len(argv) and argv[before].startswith("-") and argv[before] != "--":
            before += 2 if _SHELL_VALUED.fullmatch(argv[before]) else 1
        is_text = any(_SHELL_TEXT.fullmatch(word) for word in argv[at + 1 : before])
        before = min(before + (argv[before : before + 1] == ["--"]), len(argv))
        script = at if is_text or before == len(argv) else before
    elif at < len(argv) and not argv[at].endswith(_SCRIPT):
        script = before = next((each for each in range(at + 1, len(argv)) if argv[each].endswith(_SCRIPT)), at)
    is_python = script < len(argv) and argv[script].endswith(_SCRIPT)
    return LaunchWords(uv or "opaque", at, at, script, min(before + 1, len(argv)), is_python=is_python)


def _python(argv: Sequence[str], at: int, launcher: Launcher) -> LaunchWords:
    end = _options_end(argv, at + 1, "python", ("-m", "-c"))
    word = argv[end] if end < len(argv) else ""
    if word == "-m" and end + 1 < len(argv):
        module = argv[end + 1]
        if module in ("torch.distributed.run", "torch.distributed.launch"):
            return _spread(argv, at, end + 2, "torchrun")
        if module in ("accelerate.commands.launch", "accelerate.launch"):
            return _spread(argv, at, end + 2, "accelerate")
        if module == "accelerate.commands.accelerate_cli" and argv[end + 2 : end + 3] == ["launch"]:
            return _spread(argv, at, end + 3, "accelerate")
        return LaunchWords(launcher, at + 1, at, end + 1, end + 2, is_module=True)
    if word == "-c":
        return LaunchWords(launcher, at + 1, at, at, min(end + 2, len(argv)), is_python=False)
    return LaunchWords(launcher, at + 1, at, end if word else at, min(end + 1, len(argv)), is_python=bool(word))


def _uv(argv: Sequence[str], at: int) -> LaunchWords:
    end = _options_end(argv, at + 2, "uv", ("-m", "--module", "-s", "--script"))
    if end < len(argv) and argv[end] == "--":
        end += 1
    if end + 1 < len(argv) and argv[end] in ("-m", "--module"):
        return LaunchWords("uv", at + 2, at, end + 1, end + 2, is_module=True)
    if end + 1 < len(argv) and argv[end] in ("-s", "--script"):
        return LaunchWords("uv", at + 2, at, end + 1, end + 2)
    if end < len(argv) and argv[end].endswith(_SCRIPT):
        return LaunchWords("uv", at + 2, at, end, end + 1)
    found = _read(argv, end, "uv")
    return replace(found, options_at=at + 2, program_at=at) if found.launcher == "uv" else found


def _spread(argv: Sequence[str], program: int, at: int, launcher: str) -> LaunchWords:
    """Read a launcher of several processes."""
    end = _options_end(argv, at, launcher, ("-m", "--module"))
    name = _PROCESSES[launcher]
    found, span, flag = 1, None, "--" + name.replace("_", "-" if launcher == "torchrun" else "_")
    for first in range(at, end):
        written, equals, text = argv[first].partition("=")
        if _plain(written) == _plain(flag) or (launcher == "accelerate" and written == "-n"):
            text, stop = (text, first + 1) if equals else (argv[first + 1] if first + 1 < end else "", first + 2)
            found, span, flag = int(text) if text.isdecimal() else 1, (first, min(stop, end)), written
    is_module = end < len(argv) and argv[end] in ("-m", "--module")
    script = min(end + is_module, max(len(argv) - 1, 0))
    is_python = not any(_plain(word) == "--no-python" for word in argv[at:end])
    words = tuple(argv[at:end])
    kind: Launcher = "accelerate" if launcher == "accelerate" else "torchrun"
    return LaunchWords(
        kind, at, program, script, min(script + 1, len(argv)), is_module, found, flag, span, is_python, words
    )


def _options_end(argv: Sequence[str], at: int, launcher: str, stops: Sequence[str]) -> int:
    """Return the first word that is no option of a launcher."""
    valued = set(_VALUED[launcher].split())
    while at < len(argv) and argv[at].startswith("-") and argv[at] not in (*stops, "--", "-"):
        at += 2 if _plain(argv[at]) in valued else 1
    return min(at, len(argv))


def _plain(word: str) -> str:
    return word.replace("_", "-")


def _inner(argv: Sequence[str], at: int, name: str) -> int | None:
    """Return where the command begins that another one starts as it is."""
    if name in _WITHIN and argv[at + 1 : at + 2] == ["run"]:
        end = _options_end(argv, at + 2, "conda", ())
        return end + (argv[end : end + 1] == ["--"])
    if name in _BEFORE:
        return _options_end(argv, at + 1, name, ()) if name in _VALUED else _options_end(argv, at + 1, "conda", ())
    return None


def script_path(launch: LaunchWords, argv: Sequence[str], folder: str) -> str | None:
    """Return the file of the script, relative to the folder as it was pasted; None where there is none to read."""
    if launch.script_at >= len(argv) or (launch.script_at == launch.program_at and launch.launcher != "opaque"):
        return None
    word = argv[launch.script_at]
    if "://" in word:
        return None
    there = _moved_to(argv[: launch.script_at]) if launch.launcher != "opaque" else ""
    if not launch.is_module:
        is_file = launch.launcher != "opaque" or "/" in word or "." in word
        return str(Path(there, word)) if there and is_file else word if is_file else None
    parts = word.split(".")
    for path in (Path(*parts).with_suffix(".py"), Path(*parts, "__main__.py"), Path("src", *parts).with_suffix(".py")):
        if Path(folder or ".", there, path).is_file():
            return str(Path(there, path))
    return None


def _moved_to(words: Sequence[str]) -> str:
    """Return the folder that a launcher's options change into, "" if none."""
    for at, word in enumerate(words):
        option, equals, text = word.partition("=")
        if option in _MOVES:
            return text if equals else " ".join(words[at + 1 : at + 2])
    return ""
