"""The form that a script's source gives, for scripts of each kind; nothing of them is executed."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from engine.script import parser_dump
from engine.script.command import Command, read_command
from engine.script.declarations import absl_words, option_of
from engine.script.enrich import enriched, read_source

TRAP = "raise SystemExit('executed')\n"
"""The end of each module: a form that was read by execution would end here."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "my träining"
    found.mkdir()
    return found


def read(folder: Path, text: str, files: dict[str, str]) -> Command:
    for name, body in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(body) + (TRAP if path.suffix == ".py" else ""))
    command = enriched(read_command(text, folder=str(folder)))
    assert tuple(command.rendered(command.defaults()).argv) == command.argv
    assert Command.of(command.plain()) == command
    return command


def shown(command: Command) -> dict[str, tuple[str, Any]]:
    return {each.name: (each.type, each.default) for each in command.fields}


ARGPARSE = """
    import argparse
    import torch

    MODELS = sorted(["resnet18", "vgg"])

    def str2bool(text):
        return text.lower() in ("yes", "true")

    def add_optimizer(parser, prefix=""):
        group = parser.add_argument_group("optimizer")
        group.add_argument(f"--{prefix}lr", "--learning-rate", type=float, default=1e-3, help="step size, in %%")
        group.add_argument("--betas", nargs=2, type=float, default=(0.9, 0.999))

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("data", nargs="?", default="d", help="folder")
        parser.add_argument("-a", "--arch", default="resnet18", choices=MODELS)
        add_optimizer(parser)
        parser.add_argument("--amp", action="store_true")
        parser.add_argument("--no-cuda", action="store_false", dest="cuda")
        parser.add_argument("--bias", action=argparse.BooleanOptionalAction, default=True)
        parser.add_argument("--nesterov", type=str2bool, default="no")
        parser.add_argument("--tag", action="append", default=[])
        parser.add_argument("-v", action="count", default=0)
        for name in ("train", "test"):
            parser.add_argument(f"--{name}-size", type=int, default=2**6, required=name == "test")
        parser.add_argument("--devices", type=int, default=torch.cuda.device_count())
        parser.set_defaults(amp=False)
        args = parser.parse_args()
        train(args)

    if __name__ == "__main__":
        main()
"""


def test_argparse_in_functions_groups_and_loops(folder: Path) -> None:
    text = "python t.py /data -a vgg --amp --lr 3 -vv --test-size=8 --tag x --tag y"
    command = read(folder, text, {"t.py": ARGPARSE})
    assert (command.level, command.why_not) == ("source", "")
    assert shown(command) == {
        "data": ("str", "/data"),
        "arch": ("str", "vgg"),
        "amp": ("bool", True),
        "lr": ("float", 3.0),
        "v": ("int", 2),
        "test_size": ("int", 8),
        "tag": ("list", ["x", "y"]),
        "betas": ("list", [0.9, 0.999]),
        "cuda": ("bool", True),
        "bias": ("bool", True),
        "nesterov": ("bool", False),
        "train_size": ("int", 64),
        "devices": ("int", None),
    }
    assert command.field("arch").choices == ("resnet18", "vgg")
    assert (command.field("lr").help, command.field("lr").group) == ("step size, in %", "optimizer")
    changed = command.rendered(
        {
            "amp": False,
            "cuda": False,
            "bias": False,
            "nesterov": True,
            "betas": [0.1, 0.2],
            "data": "e",
            "v": 1,
            "lr": 3.0,
        }
    )
    assert changed.text == (
        "python t.py e -a vgg --lr 3 -v --test-size=8 --tag x --tag y "
        "--betas 0.1 0.2 --no-cuda --no-bias --nesterov True"
    )


def test_subcommands_keep_options_on_their_side(folder: Path) -> None:
    script = """
        import argparse
        common = argparse.ArgumentParser(add_help=False)
        common.add_argument("--lr", type=float, default=0.1)
        parser = argparse.ArgumentParser()
        parser.add_argument("--root", default=".")
        commands = parser.add_subparsers(dest="command")
        train = commands.add_parser("train", parents=[common])
        train.add_argument("--epochs", type=int, default=1)
        commands.add_parser("test").add_argument("--split")
        print(parser.parse_args())
    """
    command = read(folder, "python t.py train --epochs 2", {"t.py": script})
    assert shown(command) == {"epochs": ("int", 2), "root": ("str", "."), "lr": ("float", 0.1)}
    assert command.rendered({"root": "r", "lr": 0.2}).text == "python t.py --root r train --epochs 2 --lr 0.2"


def test_a_parser_of_a_sibling_module_and_a_class(folder: Path) -> None:
    files = {
        "options/base.py": """
            import argparse
            class BaseOptions:
                def __init__(self):
                    self.parser = argparse.ArgumentParser()
                def initialize(self):
                    self.parser.add_argument("--name", default="x")
                def parse(self):
                    self.initialize()
                    return self.parser.parse_args()
        """,
        "options/__init__.py": "from .base import BaseOptions\n",
        "t.py": """
            from options import BaseOptions
            class Options(BaseOptions):
                def initialize(self):
                    super().initialize()
                    self.parser.add_argument("--lr", type=float, default=0.1)
            if __name__ == "__main__":
                opt = Options().parse()
        """,
    }
    assert shown(read(folder, "python t.py --lr=1", files)) == {"lr": ("float", 1.0), "name": ("str", "x")}


def test_a_pasted_word_that_is_not_of_the_type_is_text_and_truths_are_those_of_their_converter(folder: Path) -> None:
    script = """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--batch", type=lambda text: text if text == "auto" else int(text), default=8)
        parser.add_argument("--plain", type=bool, default=False)
        parser.add_argument("--fine", type=lambda text: text.lower() in ("yes", "true"), default=False)
        parser.parse_args()
    """
    command = read(folder, "python t.py --batch auto --plain False --fine yes", {"t.py": script})
    assert shown(command) == {"batch": ("str", "auto"), "plain": ("bool", True), "fine": ("bool", True)}
    assert command.rendered({"plain": False, "fine": False}).text == "python t.py --batch auto --plain '' --fine False"


def test_choices_are_the_names_of_a_module_or_of_a_table(folder: Path) -> None:
    files = {
        "models.py": """
            from torch import nn
            class resnet18(nn.Module): ...
            def resnet50(): ...
            def _block(): ...
            TABLE = {"b": resnet50, "a": resnet18}
        """,
        "t.py": """
            import argparse, models, socket
            NAMES = sorted(n for n in models.__dict__ if n.islower() and n[:1] != "_" and callable(models.__dict__[n]))
            parser = argparse.ArgumentParser()
            parser.add_argument("--arch", choices=NAMES, help="one of " + ", ".join(NAMES))
            parser.add_argument("--kind", choices=list(models.TABLE.keys()), help="on " + socket.gethostname() + "!")
            args, rest = parser.parse_known_args()
        """,
    }
    command = read(folder, "python t.py", files)
    assert command.field("arch").choices == ("resnet18", "resnet50")
    assert command.field("kind").choices == ("b", "a")
    assert [each.help for each in command.fields] == ["one of resnet18, resnet50", "on …!"]


TYRO = """
    from dataclasses import dataclass, field
    from typing import Literal, Optional
    import tyro

    @dataclass
    class Adam:
        lr: float = 1e-3
        betas: tuple[float, float] = (0.9, 0.999)

    @dataclass
    class Args:
        total_steps: int = 500
        \"\"\"number of steps\"\"\"
        cuda: bool = True
        # use a GPU
        mode: Literal["a", "b"] = "a"
        name: Optional[str] = None
        adam: Adam = field(default_factory=lambda: Adam(lr=0.5))
        path: str = field(default="p", metadata={"help": "where"})

    if __name__ == "__main__":
        args = tyro.cli(Args)
"""


def test_tyro_with_nested_dataclasses(folder: Path) -> None:
    command = read(folder, "python t.py --total_steps 7 --no-cuda --adam.betas 0.1 0.2", {"t.py": TYRO})
    assert shown(command) == {
        "total_steps": ("int", 7),
        "cuda": ("bool", False),
        "adam.betas": ("list", [0.1, 0.2]),
        "mode": ("str", "a"),
        "name": ("str", None),
        "adam.lr": ("float", 0.5),
        "path": ("str", "p"),
    }
    assert [command.field(name).help for name in ("total_steps", "path")] == ["number of steps", "where"]
    assert command.rendered({"cuda": True, "adam.lr": 1e-4, "name": "n"}).text == (
        "python t.py --total_steps 7 --cuda --adam.betas 0.1 0.2 --name n --adam.lr 0.0001"
    )


def test_click_groups_and_typer(folder: Path) -> None:
    script = """
        import click
        @click.group()
        @click.option("--root", default=".")
        def cli(root): ...
        @cli.command()
        @click.option("--lr", "-l", default=0.1, help="rate")
        @click.option("--mode", type=click.Choice(["a", "b"]))
        @click.option("--aug/--no-aug", default=True)
        @click.argument("data")
        def train(lr, mode, aug, data): ...
        if __name__ == "__main__":
            cli()
    """
    command = read(folder, "python c.py train -l 0.2 --no-aug d", {"c.py": script})
    assert shown(command) == {
        "lr": ("float", 0.2),
        "aug": ("bool", False),
        "data": ("str", "d"),
        "root": ("str", "."),
        "mode": ("str", None),
    }
    assert command.field("mode").choices == ("a", "b")
    script = """
        from typing import Annotated
        import typer
        def main(data: str, lr: Annotated[float, typer.Option(help="rate")] = 1, amp: bool = False): ...
        if __name__ == "__main__":
            typer.run(main)
    """
    command = read(folder, "python y.py d --amp", {"y.py": script})
    assert shown(command) == {"data": ("str", "d"), "amp": ("bool", True), "lr": ("float", 1.0)}


def test_huggingface_fire_and_absl(folder: Path) -> None:
    script = """
        from dataclasses import dataclass, field
        from transformers import HfArgumentParser
        @dataclass
        class Model:
            name_or_path: str = field(metadata={"help": "model"})
            fast: bool = field(default=True)
            train: bool = False
        def main():
            parser = HfArgumentParser((Model,))
            model, = parser.parse_args_into_dataclasses()
        main()
    """
    command = read(folder, "python h.py --name_or_path gpt2 --train --no_fast", {"h.py": script})
    assert shown(command) == {"name_or_path": ("str", "gpt2"), "train": ("bool", True), "fast": ("bool", False)}
    assert command.rendered({"train": False, "fast": True}).text == "python h.py --name_or_path gpt2 --train False"
    library = script.replace("(Model,)", "(Model, TrainingArguments)").replace(" Hf", " TrainingArguments, Hf", 1)
    command = read(folder, "python l.py --name_or_path gpt2 --learning_rate 1e-3", {"l.py": library})
    assert command.why_not == "The options of TrainingArguments are known only when the script runs."
    assert command.defaults() == {"name_or_path": "gpt2", "learning_rate": 1e-3, "fast": True, "train": False}
    script = """
        import fire
        def train(lr=0.1, steps: int = 3, amp=False): ...
        fire.Fire(train)
    """
    command = read(folder, "python f.py --lr=1", {"f.py": script})
    assert shown(command) == {"lr": ("float", 1.0), "steps": ("int", 3), "amp": ("bool", False)}
    script = """
        from absl import app, flags
        FLAGS = flags.FLAGS
        flags.DEFINE_float("lr", 0.1, "rate")
        flags.DEFINE_bool("amp", True, "mixed")
        flags.DEFINE_enum("mode", "a", ["a", "b"], "which")
        def main(_): ...
        if __name__ == "__main__":
            app.run(main)
    """
    command = read(folder, "python a.py --noamp", {"a.py": script})
    assert shown(command) == {"amp": ("bool", False), "lr": ("float", 0.1), "mode": ("str", "a")}
    assert command.rendered({"amp": True, "lr": 0.2}).text == "python a.py --amp --lr=0.2"


def test_constants_of_a_configurator_and_its_file(folder: Path) -> None:
    script = """
        import time
        out = 'out'  # folder
        steps = 100
        rate = 6e-4 # largest
        compile = True
        run = 'r' + str(time.time())
        config_keys = [k for k, v in globals().items() if not k.startswith('_')]
        exec(open('configurator.py').read())
    """
    command = read(
        folder, "python n.py config/c.py --compile=False", {"n.py": script, "config/c.py": "steps = 5 * 4\n"}
    )
    assert shown(command) == {
        "compile": ("bool", False),
        "out": ("str", "out"),
        "steps": ("int", 20),
        "rate": ("float", 6e-4),
        "run": ("str", None),
    }
    assert command.field("rate").help == "largest"
    assert command.rendered({"rate": 0.1}).text == "python n.py config/c.py --compile=False --rate=0.1"


def test_hydra_composes_its_files(folder: Path) -> None:
    files = {
        "train.py": """
            import hydra
            @hydra.main(version_base=None, config_path="conf", config_name="config")
            def main(cfg): ...
            if __name__ == "__main__":
                main()
        """,
        "conf/config.yaml": """
            defaults:
              - model: small
              - experiment: null
              - _self_
            lr: 1e-3
            sizes: [1, 2]
            seed: ???
            out: ${hydra:runtime.cwd}/x
        """,
        "conf/model/small.yaml": "width: 64\n",
        "conf/model/big.yaml": "width: 512\ndepth: 3\n",
        "conf/experiment/e.yaml": "# @package _global_\ndefaults:\n  - override /model: big\nlr: 0.5\n",
    }
    command = read(folder, "python train.py experiment=e model.depth=4 +new.key=1", files)
    assert shown(command) == {
        "experiment": ("str", "e"),
        "model.depth": ("int", 4),
        "new.key": ("int", 1),
        "model": ("str", "big"),
        "model.width": ("int", 512),
        "lr": ("float", 1e-3),
        "sizes": ("list", [1, 2]),
        "seed": ("str", None),
        "out": ("str", "${hydra:runtime.cwd}/x"),
    }
    assert (command.field("model").choices, command.seed_field) == (("big", "small"), "seed")
    assert command.rendered({"sizes": [3], "seed": 4, "model": "small"}).text == (
        "python train.py experiment=e model.depth=4 +new.key=1 model=small 'sizes=[3]' seed=4"
    )


def test_hydra_composes_classes_of_its_store(folder: Path) -> None:
    script = """
        from dataclasses import dataclass, field
        from typing import Any
        import hydra
        from hydra.core.config_store import ConfigStore
        from omegaconf import MISSING

        @dataclass
        class Adam:
            lr: float = 1e-3
        @dataclass
        class SGD:
            lr: float = 0.1
            nesterov: bool = False
        @dataclass
        class Config:
            defaults: list[Any] = field(default_factory=lambda: [{"optim": "adam"}, "_self_"])
            optim: Any = MISSING
            epochs: int = 3

        store = ConfigStore.instance()
        store.store(group="optim", name="adam", node=Adam)
        store.store(group="optim", name="sgd", node=SGD)
        store.store(name="config", node=Config)

        @hydra.main(version_base=None, config_name="config")
        def main(cfg): ...
        main()
    """
    command = read(folder, "python t.py optim=sgd optim.lr=1", {"t.py": script})
    assert shown(command) == {
        "optim": ("str", "sgd"),
        "optim.lr": ("float", 1.0),
        "optim.nesterov": ("bool", False),
        "epochs": ("int", 3),
    }
    assert command.field("optim").choices == ("adam", "sgd")
    assert read(folder, "python t.py", {}).defaults() == {"optim": "adam", "optim.lr": 1e-3, "epochs": 3}


def test_omegaconf_merges_files_and_the_command_line(folder: Path) -> None:
    script = """
        from omegaconf import OmegaConf
        def main():
            conf = OmegaConf.merge(OmegaConf.load("conf/base.yaml"), OmegaConf.from_cli())
            train(conf)
        main()
    """
    files = {"t.py": script, "conf/base.yaml": "lr: 0.1\nmodel:\n  width: 8\n"}
    command = read(folder, "python t.py model.width=16", files)
    assert (command.level, shown(command)) == ("source", {"model.width": ("int", 16), "lr": ("float", 0.1)})
    assert command.rendered({"lr": 0.5}).text == "python t.py model.width=16 lr=0.5"


def test_lightning_reads_its_classes_and_its_file(folder: Path) -> None:
    files = {
        "cli.py": """
            from lightning.pytorch.cli import LightningCLI
            from model import Net
            if __name__ == "__main__":
                LightningCLI(Net)
        """,
        "model.py": """
            import lightning as L
            class Net(L.LightningModule):
                def __init__(self, width: int = 8, lr: float = 0.1, bias: bool = True):
                    super().__init__()
        """,
        "c.yaml": "model:\n  lr: 0.5\ntrainer:\n  max_epochs: 3\n",
    }
    command = read(folder, "python cli.py fit --config c.yaml --model.width 16", files)
    assert shown(command) == {
        "config": ("list", ["c.yaml"]),
        "model.width": ("int", 16),
        "model.lr": ("float", 0.5),
        "model.bias": ("bool", True),
        "trainer.max_epochs": ("int", 3),
        "seed_everything": ("int", None),
    }
    assert command.rendered({"model.bias": False, "trainer.max_epochs": 4}).text == (
        "python cli.py fit --config c.yaml --model.width 16 --model.bias false --trainer.max_epochs 4"
    )


BUILT = """
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("rest", nargs="*", type=int)
    parser.add_argument("-a", "--a-b", type=int, default="3", help="100%% of it")
    parser.add_argument("--on", action="store_true")
    parser.add_argument("--no-off", dest="off", action="store_false")
    parser.add_argument("--fixed", action="store_const", const=5)
    parser.add_argument("--pair", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--tag", action="append", default=[])
    parser.add_argument("-v", action="count", default=0)
    parser.add_argument("--kind", choices=["x", "y"])
    parser.add_argument("--plain", type=bool, default=False)
    parser.add_argument("--some", nargs="+", type=float, default=(1, 2), required=True)
    parser.add_argument("--maybe", nargs="?", const=True, default=False)
    group = parser.add_argument_group("model")
    group.add_argument("--depth", default=1.5)
    group.add_argument("--words", nargs=argparse.REMAINDER)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("train").add_argument("--lr", type=float)
"""


def test_a_source_and_a_probe_read_a_declaration_alike(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: dict[str, Any] = {}
    exec(dedent(BUILT), built)
    monkeypatch.setattr(parser_dump, "OPTIONS", [])
    parser_dump.add_parser(built["parser"])
    (folder / "t.py").write_text(dedent(BUILT) + "parser.parse_args()\n" + TRAP)
    found = read_source(read_command("python t.py", folder=str(folder))).options
    assert found == [option for said in parser_dump.OPTIONS if (option := option_of(said))]
    assert len(found) == 16


def test_flags_of_absl_with_several_numbers_have_numbers() -> None:
    said = {"dest": "n", "flags": ["--n"], "type": "multi int", "default": [1, 2], "off": []}
    option = option_of(absl_words(said))
    assert option is not None
    assert (option.type, option.action, option.default) == ("int", "append", [1, 2])


@pytest.mark.parametrize(
    ("text", "script", "why"),
    [
        ("python gone.py --x 1", "", "gone.py isn't a file in "),
        ("bash run.sh", "", "run.sh isn't a file in "),
        ("bash t.py", "", "t.py declares no options that its source shows."),
        ("bash -c 'python t.py'", "", "No script was recognised"),
        ("nvidia-smi -l 1", "", "No script was recognised"),
        ("python t.py", "def broken(:\n", "Line 1 of t.py isn't valid Python."),
        ("python t.py 1", "import sys\nprint(sys.argv[1])\n", "t.py declares no options that its source shows."),
        (
            "python t.py",
            "import argparse\np = argparse.ArgumentParser()\np.add_argument(open('x').read())\np.parse_args()\n",
            "1 option of t.py is known only when the script runs.",
        ),
    ],
)
def test_the_reason_why_a_form_was_not_read_further_is_a_sentence(
    folder: Path, text: str, script: str, why: str
) -> None:
    command = read(folder, text, {"t.py": script})
    assert (command.level, why in command.why_not) == ("command", True), command.why_not


@pytest.mark.parametrize(
    "script",
    [
        "x = [1]\nfor i in range(400):\n    x = [x, x]\n",
        "x = 3\nfor i in range(400):\n    x = x * x\n",
        "x = '%999999999d' % 1 + '{:999999999}'.format(1) + 'a' * 10**9\n",
        "def f(): return f() + f() + f()\nf()\n",
        "while True:\n    for i in range(10**9):\n        for j in range(10**9):\n            pass\n",
        "from t import *\nimport t\nt.t.t\nclass A(A): pass\nA().b.c()\nlambda: 1\nmatch 1:\n    case _: pass\n",
    ],
)
def test_a_script_that_computes_without_end_is_read_within_bounds(folder: Path, script: str) -> None:
    parser = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--x', default=1)\n"
    command = read(folder, "python t.py", {"t.py": parser + script + "p.add_argument('--y')\np.parse_args()\n"})
    assert "x" in shown(command)
