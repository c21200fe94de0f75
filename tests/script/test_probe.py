"""The form that a script itself gives, in a child that stops at the parser."""

import os
import sys
import time
from pathlib import Path
from textwrap import dedent

import psutil
import pytest

from engine.script.command import Command, read_command
from engine.script.probe import help_options, probed
from engine.system.processes import identity
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes


def probe(folder: Path, text: str, files: dict[str, str], limit_s: float = PATIENCE_S) -> Command:
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(body))
    command = probed(read_command(text, str(folder), sys.executable), limit_s)
    assert tuple(command.rendered(command.defaults()).argv) == command.argv
    return command


COMPUTED = """
    import argparse, os, sys
    first = argparse.ArgumentParser(add_help=False)
    first.add_argument("--config")
    known, rest = first.parse_known_args()
    parser = argparse.ArgumentParser()
    for line in open("settings.txt"):
        name, value = line.split()
        parser.add_argument(name, type=float, default=value, help="of " + os.environ["WHERE"])
    group = parser.add_argument_group("model")
    group.add_argument("--sizes", nargs="+", type=int, default=[1, 2])
    group.add_argument("--amp", action="store_true")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("train").add_argument("--mode", choices=["a", "b"])
    args = parser.parse_args(rest)
    open("trained", "w")
"""


def test_the_parser_is_read_where_it_is_complete_and_the_script_stops_there(tmp_path: Path) -> None:
    files = {"t.py": COMPUTED, "settings.txt": "--lr 0.1\n--decay 0\n"}
    command = probe(tmp_path, "WHERE=here python t.py --lr 2 train --mode b", files)
    assert (command.level, command.why_not) == ("probe", "")
    assert {each.name: (each.type, each.default, each.group) for each in command.fields} == {
        "WHERE": ("str", "here", "Environment"),
        "lr": ("float", 2.0, ""),
        "mode": ("str", "b", ""),
        "config": ("str", None, ""),
        "decay": ("float", 0.0, ""),
        "sizes": ("list", [1, 2], "model"),
        "amp": ("bool", False, "model"),
    }
    assert (command.field("lr").help, command.field("mode").choices) == ("of here", ("a", "b"))
    assert command.rendered({"amp": True, "lr": 3.0}).text == "WHERE=here python t.py --lr 3.0 --amp train --mode b"
    assert not (tmp_path / "trained").exists()


def test_click_is_stopped_where_it_parses(tmp_path: Path) -> None:
    script = """
        import click
        def add(function):
            return click.option("--" + "l" + "r", default=0.1, help="rate")(function)
        @click.command()
        @add
        @click.option("--aug/--no-aug", default=True)
        @click.argument("data")
        def main(**settings): open("trained", "w")
        main()
    """
    command = probe(tmp_path, "python t.py d --no-aug", {"t.py": script})
    assert {each.name: (each.type, each.default) for each in command.fields} == {
        "data": ("str", "d"),
        "aug": ("bool", False),
        "lr": ("float", 0.1),
    }
    assert command.level == "probe"
    assert not (tmp_path / "trained").exists()


def test_hydra_prints_its_configuration(tmp_path: Path) -> None:
    files = {
        "stub/hydra/__init__.py": """
            import sys
            def main(**settings):
                def decorate(function):
                    def run():
                        assert sys.argv[1:] == ["lr=2", "--cfg", "job"]
                        print("lr: 2.0\\nmodel:\\n  width: 8\\nout: ???")
                    return run
                return decorate
        """,
        "t.py": """
            import hydra
            @hydra.main(config_path=None, config_name="c")
            def main(cfg): open("trained", "w")
            main()
        """,
    }
    command = probe(tmp_path, f"PYTHONPATH={tmp_path}/stub python t.py lr=2", files)
    assert {name: value for name, value in command.defaults().items() if name != "PYTHONPATH"} == {
        "lr": 2.0,
        "model.width": 8,
        "out": None,
    }
    assert (command.level, command.why_not) == ("configuration", "")


def test_the_help_text_is_what_is_left(tmp_path: Path) -> None:
    script = """
        import sys
        if "--help" in sys.argv:
            print("usage: t.py\\n\\n  -n, --epochs N   number of epochs (default: 3)\\n  --amp            use it")
            sys.exit()
        print("training", sys.argv)
    """
    command = probe(tmp_path, "python t.py --epochs=5", {"t.py": script})
    assert (command.level, command.why_not) == ("help", "t.py ended without parsing options.")
    assert command.defaults() == {"epochs": 5, "amp": False}


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("import no_such_package\n", "The probe stopped: No module named 'no_such_package'."),
        ("int('x')\n", "The probe stopped: ValueError: invalid literal for int() with base 10: 'x'."),
        ("import os\nos.kill(os.getpid(), 9)\n", "The probe stopped: it was ended by SIGKILL."),
    ],
)
def test_what_stopped_a_probe_is_a_sentence_and_the_source_form_stays(tmp_path: Path, script: str, why: str) -> None:
    parser = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', default=0.1)\n"
    command = probe(tmp_path, "python t.py --lr 1", {"t.py": f"{script}{parser}p.parse_args()\n"})
    assert (command.why_not, command.level, command.defaults()) == (why, "source", {"lr": 1.0})


def test_a_probe_ends_at_its_limit_with_all_that_it_started(tmp_path: Path) -> None:
    script = """
        import os, signal, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            open("daemon.tmp", "w").write(str(os.getpid()))
            os.rename("daemon.tmp", "daemon")
        time.sleep(3600)
    """
    began = time.monotonic()
    limit_s = 3.0
    command = probe(tmp_path, "python t.py", {"t.py": script}, limit_s)
    while not (tmp_path / "daemon").exists() and time.monotonic() - began < PATIENCE_S:
        limit_s *= 3
        command = probe(tmp_path, "python t.py", {"t.py": script}, limit_s)
    assert command.why_not == f"The probe stopped: the script didn't parse its command line within {limit_s:g} s."
    assert identity(int((tmp_path / "daemon").read_text())) is None
    assert not [
        each for each in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(each.info["cmdline"] or ())
    ]


def test_the_child_sees_no_gpu_and_nothing_of_the_console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLAB_SECRET", "x")
    script = """
        import argparse, os
        found = [name for name in os.environ if name.startswith("PARALLAB_") and name != "PARALLAB_PROBE"]
        p = argparse.ArgumentParser()
        p.add_argument("--found", default=str(found) + os.environ["CUDA_VISIBLE_DEVICES"] + "!")
        p.parse_args()
    """
    assert probe(tmp_path, "python t.py", {"t.py": script}).defaults() == {"found": "[]!"}
    assert os.environ["PARALLAB_SECRET"] == "x"


def test_a_help_text_of_click_is_read() -> None:
    text = """Usage: t.py [OPTIONS]

    Options:
      --lr FLOAT            Step size
                            of Adam.  [default: 0.1]
      -b, --batch INTEGER   Images.  [default: 32]
      --fast / --slow       Speed.
      --help                Show this message and exit.
    """
    found = {each.name: (each.type, each.default, each.help) for each in help_options(dedent(text))}
    assert found["lr"] == ("float", 0.1, "Step size of Adam. [default: 0.1]")
    assert found["batch"][:2] == ("int", 32)
