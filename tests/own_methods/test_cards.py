"""Experiments of the lab's own as a console knows them: found, read in a child, checked, and refused with a cure."""

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.analysis.total_work import declared
from engine.commands.lab_settings import approve_experiment
from engine.errors import ConfigError, Forbidden, MethodFault, UnknownName
from engine.experiment import Experiment
from engine.home import Home
from engine.launch import launch
from engine.own_methods import cards, folders, template
from engine.registry import (
    EXPERIMENTS,
    definition,
    experiment,
    experiments,
    is_registered,
    known_experiment,
    own_experiments,
)
from engine.store import Launch, Store
from tests.waiting import PATIENCE_S

SAMPLES = Path(__file__).with_name("samples")


@pytest.fixture
def sample(home: Home) -> Callable[..., Path]:
    """Put a sample into the home, under another name if it is given, with some of its text replaced."""

    def put(name: str, called: str = "", **texts: str) -> Path:
        folder = home.experiments / (called or name)
        shutil.copytree(SAMPLES / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
        for file, text in texts.items():
            (folder / f"{file}.py").write_text(text)
        return folder

    return put


def config_of(name: str, before: str = "", **given: str) -> str:
    """Return a small `config.py`."""
    fields = {"config": "Settings", "axis": "'steps'", "name": f"'{name}'", "presets": "{}", "api": "1"} | given
    texts = ("title", "tagline", "sentence", "source")
    told = {**dict.fromkeys(texts, "'Something'"), "pattern": "'average'", "flows": "()", **fields}
    body = given.pop("body", "steps: int = setting(1, 'Steps.', low=1, high=9)")
    told.pop("body", None)
    return (
        f"from engine.plugin import Config, Experiment, Preset, setting\n{before}\n"
        f"class Settings(Config):\n    {body}\n"
        "    roles = property(lambda self: ('one',))\n"
        f"EXPERIMENT = Experiment({', '.join(f'{key}={value}' for key, value in told.items())})\n"
    )


def why(name: str) -> str:
    """Return why an experiment can't be used; empty if it can."""
    (found,) = [each for each in own_experiments(PATIENCE_S) if each.name == name]
    return "" if found.experiment else str(found.fault)


@pytest.mark.processes
def test_a_folder_of_the_home_is_an_experiment_whose_code_runs_in_a_child(sample: Callable[..., Path]) -> None:
    sample("gossip")
    found = experiment("gossip")
    assert (found.title, found.server_roles, found.axis) == ("Gossip", ("hub",), "workers")
    assert found in experiments() and known_experiment("gossip") is found
    config = found.configure("quick", {"workers": 3, "steps": 10})
    assert config.roles == ("hub", "worker1", "worker2", "worker3") and config.threads(cores=6) == 2
    assert found.work and (work := found.work(config)) and (work.amount, work.updates) == (30, 10)
    assert declared("gossip", config.model_dump()) == work
    assert found.goals(config) == {"train/loss": 0.05}
    with pytest.raises(ConfigError, match=r"workers must be at most steps \(2\), got 3: each has one"):
        found.configure("quick", {"workers": 3, "steps": 2})
    with pytest.raises(ConfigError, match=r"rate must be at most 1.*got 3"):
        found.configure("quick", {"rate": 3})
    assert not [name for name in sys.modules if "gossip" in name or name.startswith("parallab_experiments")]


@pytest.mark.processes
def test_a_package_brings_one_and_a_changed_file_makes_another_version(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "sample_package"
    shutil.copytree(SAMPLES / "gossip", package / "gossip")
    (package / "__init__.py").write_text("raise SystemExit('nobody imports it')\n")
    about = tmp_path / "site" / "sample_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sample_package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{folders.GROUP}]\ngossip = sample_package.gossip\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    found = folders.folders(home)["gossip"]
    assert (found.path, found.package) == (package / "gossip", "sample_package")
    first = experiment("gossip").configure().model_dump()
    (package / "gossip" / "method.py").write_text("# changed\n")
    second = experiment("gossip").configure().model_dump()
    assert first["code"] != second["code"] and {**first, "code": ""} == {**second, "code": ""}
    run = Launch("gossip", first)
    assert definition(run).config.check(first).model_dump() == first, "a run keeps its version"
    with pytest.raises(UnknownName, match="Unknown version '0123456789abcdef'"):
        definition(Launch("gossip", {"code": "0123456789abcdef"}))


STILL: dict[str, tuple[Callable[[Path], object], str]] = {
    "link": (lambda folder: (folder / "more.py").symlink_to("/etc/passwd"), "more.py is a link. Put a copy"),
    "loop": (lambda folder: (folder / "loop").symlink_to(folder), "loop is a link"),
    "no_method": (lambda folder: (folder / "method.py").unlink(), "method.py doesn't exist. python -m engine new"),
    "large": (lambda folder: (folder / "data.bin").write_bytes(bytes(2_000_001)), "and 2,000,000 bytes. Move data"),
    "many": (lambda folder: [(folder / f"{n}.txt").touch() for n in range(201)], "at most 200 files"),
    "hogwild": (lambda folder: None, "'hogwild' is an experiment of Parallab. Rename the folder"),
    "Größe": (lambda folder: None, "The name of its folder must begin with a lower-case letter"),
    "json.x": (lambda folder: None, "The name of its folder must begin with a lower-case letter"),
}
"""What is wrong with a folder, which no process is needed for, and a part of the sentence about it."""


def test_a_folder_that_can_not_be_copied_is_refused_with_its_cure(sample: Callable[..., Path]) -> None:
    for name, (spoil, _) in STILL.items():
        spoil(sample("gossip", name))
    faults = {each.name: str(each.fault) for each in own_experiments()}
    assert all(part in faults[name] for name, (_, part) in STILL.items()), faults
    assert len(experiments()) == len([each for each in experiments() if each.name != "gossip"])
    assert experiment("hogwild").title == "Hogwild!"


SICK = {
    "name_clash": (config_of("other"), "EXPERIMENT.name is 'other', but its folder is called 'name_clash'"),
    "old_api": (config_of("old_api", api="0"), "It is written for version 0 of engine.plugin, and this Parallab has"),
    "with_torch": (config_of("with_torch", "import torch"), "config.py, line 2: ImportError: config.py can't import"),
    "fork_bomb": (
        config_of("fork_bomb", "import os\nwhile True: os.fork()"),
        "config.py, line 3: PermissionError: config.py can't start a process",
    ),
}
BODY = "steps: int = setting(1, 'Steps.', low=1, high=9)\n    def rules(self):\n        yield "
"""A setting, and the start of a rule in line 6."""
SICK_RULES = {
    "misnamed": (
        config_of("misnamed", body=f"{BODY}self.at_most('steps', 'stepz')"),
        "config.py, line 6: TypeError: Unknown setting 'stepz'. Did you mean 'steps'?",
    ),
    "no_field": (
        config_of("no_field", "from engine.plugin import Rule", body=f"{BODY}Rule('stepz', 'even', broken=False)"),
        "TypeError: Unknown setting 'stepz'. Did you mean 'steps'?",
    ),
    "bad_preset": (
        config_of("bad_preset", presets="{'quick': Preset('Fast.', {'steps': 10})}"),
        "the preset quick can't be launched: steps must be at most 9",
    ),
    "bad_work": (
        config_of(
            "bad_work",
            "from engine.plugin import Work",
            work="lambda config: Work('stepz', 1)",
        ),
        "the length of Work must be a setting, got 'stepz'",
    ),
}
"""Faults that show only when settings are checked: at once, so that no page or list meets them later."""
LONG_SICK = {
    "syntax": ("def :\n", "config.py, line 1: SyntaxError"),
    "endless": (config_of("endless", "while True: pass"), "more than 5 s of CPU time"),
    "sleeps": (config_of("sleeps", "import time; time.sleep(1e6)"), "config.py slept for 5 s"),
    "gigabyte": (config_of("gigabyte", "x = bytes(1 << 30)"), "needs more than 1,000 MB of memory"),
    "huge": (
        config_of("huge", presets="{f'p{n}': Preset('x' * 900, {}) for n in range(1000)}"),
        "at most 400,000 bytes",
    ),
    "many_presets": (config_of("many_presets", presets="{f'p{n}': Preset('x', {}) for n in range(99)}"), "presets"),
    "ours": (
        config_of("ours", body="seed: int = setting(1, 'Mine.')\n    steps: int = setting(1, 'Steps.')"),
        "seed is",
    ),
    "takes_code": (
        config_of("takes_code", body="code: int = 1\n    steps: int = setting(1, 'Steps.')"),
        "setting code",
    ),
    "exits": (config_of("exits", "import os; os._exit(7)"), "left with exit code 7"),
    "prints": (config_of("prints", "import os\nprint('x' * 10**6)\nos.write(1, b'{}\\n' * 1000)"), ""),
    "shell": (config_of("shell", "import subprocess; subprocess.run(['true'])"), "can't start a process"),
    "nothing": ("x = 1\n", "config.py defines no EXPERIMENT"),
    "number": ("EXPERIMENT = 7\n", "must be an Experiment, got int"),
    "markup": (config_of("markup", title="'<b>bold</b>'"), "title can't be"),
    "deep": ("def f(): f()\nf()\n", "RecursionError"),
    "umlaut": (config_of("umlaut", sentence="'Größe — 大きさ'"), ""),
}


@pytest.mark.processes
def test_a_sick_one_is_one_sentence_with_its_line_and_the_others_work(sample: Callable[..., Path]) -> None:
    sample("sick")
    for name, (text, _) in (SICK | SICK_RULES).items():
        sample("gossip", name, config=text)
    method = sample("gossip", "no_method", config=config_of("no_method")) / "method.py"
    method.write_text("def run(config, ranks:\n    pass\n")
    began = time.monotonic()
    assert [each.name for each in experiments()][-1] == EXPERIMENTS[-1], "nobody waits for a child"
    sample("gossip")
    cards._offers.clear()
    assert why("sick").endswith("config.py, line 3: NameError: name 'experiment' is not defined.")
    for name, (_, part) in (SICK | SICK_RULES).items():
        assert part in why(name)
    assert "method.py, line 1: SyntaxError: '(' was never closed: def run(config, ranks:" in why("no_method")
    assert not why("gossip") and time.monotonic() > began


@pytest.mark.long  # 20 children, of which some wait for their limits
def test_each_kind_of_sick_one_is_refused_and_stays_alone(sample: Callable[..., Path]) -> None:
    for name, (text, _) in LONG_SICK.items():
        sample("gossip", name, config=text)
    own_experiments(PATIENCE_S)
    assert {name: part in why(name) for name, (_, part) in LONG_SICK.items()} == dict.fromkeys(LONG_SICK, True)


@pytest.mark.long  # the limit of the answer is 5 s of processor time
def test_a_rule_that_never_ends_refuses_the_settings_alone(sample: Callable[..., Path]) -> None:
    rules = (
        "steps: int = setting(1, 'Steps.', low=1, high=9)\n    def rules(self):\n        while self.steps > 1: pass\n"
    )
    sample("gossip", "slow_rule", config=config_of("slow_rule", body=f"{rules}        yield from ()"))
    found = experiment("slow_rule")
    assert found.configure(changes={"steps": 1}).roles == ("one",)
    with pytest.raises(MethodFault, match="more than 5 s of CPU time"):
        found.configure(changes={"steps": 2})
    assert found.configure(changes={"steps": 1, "seed": 1}).roles == ("one",)


@pytest.mark.processes
def test_a_lab_with_accounts_runs_only_code_that_an_admin_has_approved(home: Home, sample: Callable[..., Path]) -> None:
    folder = sample("gossip")
    with Store.open(home) as store:
        store.people.add("Ada", "admin", by="root")
        store.people.add("Mo", "member", by="Ada")
        with pytest.raises(MethodFault, match="waits for the approval of an admin: python -m engine approve gossip"):
            experiment("gossip")
        assert not list(home.methods.rglob("card.json")), "it was not read either"
        with pytest.raises(Forbidden, match="Only admins can approve"):
            approve_experiment(home, "gossip", by="Mo")
        with pytest.raises(ConfigError, match="The files of gossip have changed"):
            approve_experiment(home, "gossip", by="Ada", expected="0123456789abcdef")
        version = approve_experiment(home, "gossip", by="Ada").version
        entry = store.read.audit.entries(limit=1)[0]
        assert (entry.who, entry.detail) == ("Ada", f"experiment=gossip version={version}")
        config = experiment("gossip").configure("quick").model_dump(mode="json")
        with pytest.raises(Forbidden, match="can grant it to Mo"):
            launch(home, Launch("gossip", config, "Mo"))
        run = store.read.runs.one(launch(home, Launch("gossip", config, "Ada")))
        assert (run.config["code"], run.demand.ranks) == (config["code"], 3)
    (folder / "method.py").write_text("# changed\n")
    with pytest.raises(MethodFault, match="waits for the approval"):
        experiment("gossip")


def test_a_template_has_at_most_60_lines() -> None:
    assert (template.CONFIG + template.METHOD).count("\n") <= 60


def test_an_unknown_name_is_none_of_the_labs_own(home: Home) -> None:
    assert not is_registered("gossip") and known_experiment("gossip") is None
    with pytest.raises(UnknownName, match=r"Unknown experiment 'hogwidl'. Did you mean 'hogwild'"):
        experiment("hogwidl")
    assert all(isinstance(each, Experiment) for each in experiments())
