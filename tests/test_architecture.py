"""The rules of the architecture: who may import whom, what stays free of torch, what makes an experiment complete."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from pydantic.fields import FieldInfo

from engine.config import Config, bound_of, choices_of
from engine.home import ROOT
from engine.metrics import METRICS
from engine.registry import EXPERIMENTS, UNLISTED, experiment, experiments
from tests.waiting import PATIENCE_S

TORCH = {"torch", "torchvision"}
SQL = {"sqlite3", "sqlite_utils"}
LAYERS = (
    "engine.errors engine.home engine.museum.exhibit engine.metrics engine.histograms engine.catalogue",
    "engine.config engine.config_values engine.seeding engine.trace engine.recorder engine.pipelining",
    "engine.experiment engine.script engine.own_methods",
    "engine.registry engine.launch_options engine.filter engine.access engine.store",
    "engine.system engine.data engine.rl engine.commands engine.cluster.targets engine.launch",
    "engine.analysis.statistics engine.analysis engine.analysis.pipeline engine.sweep engine.analysis.scaling",
    "engine.hang engine.transfer engine.published engine.queue engine.duel engine.museum engine.notices",
    "engine.exercises engine.upkeep",
    "engine.runtime.command.sources",
    "engine.runtime.usage engine.runtime.rank engine.runtime.nodes engine.runtime.worker engine.runtime.transport",
    "engine.runtime.command",
    "engine.runner engine.cluster engine.runner.runner",
    "engine.training engine.plugin engine.experiments engine.museum.method engine.museum.exhibits engine.worker",
    "engine.parallab_client engine.mcp_server",
    "engine.doctor engine.cluster.node_checks engine.cluster.doctor engine.cli engine.__main__",
    "app.core app.links app.charts app.report app.ui app.actions app.export app.auth",
    "app.home app.launch app.run app.runs app.compare app.sweep app.duel app.scaling app.figures app.museum",
    "app.machine app.people app.notifications app.exercises",
    "app.api app.web app.main app.asgi app.__main__ pages",
)
"""The folders, and the modules that lie in no folder of their own, from the bottom to the top: each imports only what
comes before it, and its own folder.
"""
ORDER = tuple(name for line in LAYERS for name in line.split())
ALONE = {name for name in ORDER if name.count(".") == 1 and not (ROOT / name.replace(".", "/")).is_dir()}
"""The modules that lie in no folder of their own."""
SCREENS = ORDER[ORDER.index("app.home") : ORDER.index("app.api")]
METHOD_SEES = (
    *("engine.config", "engine.seeding", "engine.recorder", "engine.errors", "engine.metrics", "engine.trace.layout"),
    *("engine.data", "engine.training", "engine.rl", "engine.pipelining", "engine.plugin"),
    "engine.runtime.worker.ranks",
    "engine.runtime.rank.rank",
    "engine.runtime.rank.process",
    *(f"engine.runtime.transport.{name}" for name in ("rpc", "request_reply", "allreduce")),
)
TORCH_FREE = (
    *(
        "engine.__main__",
        "engine.cli",
        "engine.doctor",
        "engine.launch",
        "engine.experiment",
        "engine.script",
        "engine.own_methods",
        "engine.registry",
        "engine.metrics",
        "engine.histograms",
    ),
    *("engine.recorder", "engine.store", "engine.catalogue", "engine.queue", "engine.filter"),
    *("engine.runner", "engine.system", "engine.access"),
    *(f"engine.cluster.{name}" for name in ("targets", "slurm", "launcher", "supervisor", "doctor")),
    *("engine.runtime.usage", "engine.runtime.worker.session", "engine.runtime.worker.progress_writer"),
    "engine.runtime.command",
    *(
        "engine.commands",
        "engine.upkeep",
        "engine.duel",
        "engine.exercises",
        "engine.sweep",
        "engine.published",
        "engine.notices",
    ),
    *(f"engine.experiments.{name}.config" for name in EXPERIMENTS),
    *("engine.museum.config", "engine.museum.exhibit", "engine.museum.latest_runs"),
    *(
        "engine.data.catalogue",
        "engine.training.settings",
        "engine.plugin",
        "engine.rl.kinds",
    ),
    *("engine.analysis", "engine.pipelining", "engine.transfer"),
)
FACTS = (".config", ".duel", ".scaling")
"""What of an experiment's folder its `Experiment` refers to, for pages and analysis."""
BANNED_WORDS = {"util", "utils", "helper", "helpers", "common", "misc", "manager"}
NOUNS = {
    "training",
    "scaling",
    "pipelining",
    "seeding",
    "tuning",
    "finding",
    "formatting",
    "standing",
    "running",
    "pending",
    "polling",
    "smoothing",
}
"""Established nouns that end as gerunds do; a module is otherwise named by a noun."""


# ---- what there is -------------------------------------------------------------------------------------------------


@cache
def modules() -> dict[str, Path]:
    """Return every module of the product by its dotted name."""
    files = [path for folder in ("engine", "app", "pages") for path in sorted((ROOT / folder).rglob("*.py"))]
    return {_dotted(path): path for path in files}


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass
class Source:
    """What the rules below ask of a module's text, which is parsed once for all of them: as trees, all modules would
    take hundreds of megabytes.
    """

    imports: set[str]
    for_types: set[str]
    """Those of them that are for the type checker alone."""
    classes: list[str]
    """The public ones at its top."""
    dialogs: list[str]
    calls: list[tuple[int, str]]
    """The line of each call, and the last name of what it calls: after a dot where it is an attribute."""


def read(text: str) -> Source:
    tree = ast.parse(text)
    found = Source(set(), set(), [], [], [])
    for each in tree.body:
        if isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING":
            found.for_types |= {node.module for node in each.body if isinstance(node, ast.ImportFrom) and node.module}
    found.classes += [each.name for each in tree.body if isinstance(each, ast.ClassDef) and each.name[0] != "_"]
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                found.imports |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=str(module)):
                inner = {f"{module}.{alias.name}" for alias in node.names} & set(modules())
                found.imports |= inner if len(inner) == len(node.names) else inner | {module}
            case ast.Call(func=ast.Attribute(attr=name)):
                found.calls.append((node.lineno, f".{name}"))
            case ast.Call(func=ast.Name(id=name)):
                found.calls.append((node.lineno, name))
            case ast.FunctionDef() if any("st.dialog" in ast.unparse(each) for each in node.decorator_list):
                found.dialogs.append(node.name)
    return found


@cache
def source(module: str) -> Source:
    return read(modules()[module].read_text())


@cache
def imports(module: str) -> frozenset[str]:
    """Return the dotted names that a module imports anywhere in its text, the packages above them included."""
    return frozenset(parent for name in source(module).imports for parent in _with_parents(name))


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: end + 1]) for end in range(len(parts)))


def way_to(start: str, forbidden: set[str]) -> list[str]:
    """Return the chain of imports from `start` to the first forbidden library, empty where there is none."""
    ways, seen = [[start]], {start}
    for way in ways:
        for name in sorted(imports(way[-1]) - source(way[-1]).for_types):
            if name in forbidden:
                return [*way, name]
            if name in modules() and name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return []


def within(names: Iterable[str], *packages: str) -> list[str]:
    return [name for name in names if any(name == package or name.startswith(f"{package}.") for package in packages)]


def is_method(module: str) -> bool:
    """Say whether a module belongs to the part of an experiment that only its ranks see."""
    return module.startswith("engine.experiments.") and not module.endswith(FACTS) and module.count(".") >= 3


# ---- direction -----------------------------------------------------------------------------------------------------


def test_imports_point_one_way_and_each_layer_alone_speaks_sql_or_imports_torch() -> None:
    assert not {
        module: found
        for module in within(modules(), "engine")
        if (found := within(imports(module), "app", "pages", "streamlit"))
    }
    assert not {module: found for module in within(modules(), "app") if (found := within(imports(module), "pages"))}
    assert not {module: found for module in within(modules(), "pages") if (found := within(imports(module), "pages"))}
    others = set(modules()) - set(within(modules(), "engine.store"))
    assert not {module: found for module in others if (found := SQL & imports(module))}
    allowed = {
        *within(modules(), "engine.data", "engine.runtime", "engine.training", "engine.rl", "engine.museum.exhibits"),
        *filter(is_method, modules()),
    }
    assert not {module: found for module in set(modules()) - allowed if (found := TORCH & imports(module))}


def place(module: str) -> str:
    """Return what stands for a module in the order: itself, its folder, or a folder above that."""
    name = module
    while name and name not in ORDER:
        name = name.rpartition(".")[0]
    return name


def test_every_import_leads_down_the_order_of_folders() -> None:
    for module in modules():
        here = place(module)
        assert here or module in {"app", "engine", "engine.runtime"}, f"{module} has no place in the order of folders"
        for name in sorted(source(module).imports & set(modules()) - {"engine"}):
            below = place(name)
            assert ORDER.index(below) <= ORDER.index(here), f"{module} imports {name}, which lies above {here}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    open_modules, done = set[str](), set[str]()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in open_modules, " -> ".join((*way[way.index(module) :], module))
        if module in done:
            return
        open_modules.add(module)
        for name in sorted(source(module).imports & set(modules()) - {module}):
            visit(name, (*way, module))
        open_modules.remove(module)
        done.add(module)

    for module in modules():
        visit(module, ())


def test_no_screen_imports_another() -> None:
    for module in within(modules(), *SCREENS):
        others = [screen for screen in SCREENS if screen != place(module)]
        assert not within(imports(module), *others), module


def test_a_module_is_named_by_a_plain_noun() -> None:
    words = {name: set(re.split(r"[._]", name)) for name in modules() if not name.startswith("engine.museum.exhibits")}
    assert not [name for name, parts in words.items() if BANNED_WORDS & parts]
    gerunds = {
        name: [part for part in parts - NOUNS if re.fullmatch(r"\w{3,}ing", part)] for name, parts in words.items()
    }
    assert not {name: found for name, found in gerunds.items() if found}


def test_a_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for module in modules():
        if module.startswith("engine.museum.exhibits"):
            continue  # each exhibit stands alone, as published
        for name in source(module).classes:
            places.setdefault(name, []).append(module)
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_a_method_sees_only_what_it_is_made_of() -> None:
    for module in filter(is_method, modules()):
        own = ".".join(module.split(".")[:-1][:3])  # the folder of the experiment
        seen = {name for name in within(imports(module), "engine", "app", "pages") if name in modules()}
        packages = {"engine", "engine.runtime", "engine.experiments", "engine.trace"} | {
            f"engine.runtime.{name}" for name in ("rank", "worker", "transport")
        }
        packages |= {"engine.system", "engine.system.network_isolation"}  # what listens asks first
        strangers = seen - packages - set(within(seen, own, *METHOD_SEES))
        assert not strangers, f"{module} imports {sorted(strangers)}"


def test_no_import_leads_to_torch_from_where_it_is_not_wanted() -> None:
    starts = within(modules(), "app", "pages", *TORCH_FREE)
    assert not [package for package in TORCH_FREE if package not in modules()]
    assert not [" -> ".join(way) for start in starts if (way := way_to(start, TORCH))]
    assert way_to("engine.worker", {"torch"})[-1] == "torch"


@pytest.mark.processes
def test_nothing_that_pages_and_command_line_import_loads_torch() -> None:
    names = within(modules(), *TORCH_FREE)
    assert loaded_by(names, "torch", "torchvision") == []


@pytest.mark.processes
def test_the_console_answers_before_it_loads_data_frames_and_the_api() -> None:
    assert loaded_by(["app.__main__", "app.asgi"], "pandas", "pyarrow", "fastapi", "scipy") == []


@pytest.mark.processes
def test_the_store_and_the_commands_that_list_runs_load_neither_pydantic_nor_numpy() -> None:
    assert loaded_by(["engine.store", "engine.cli.runs"], "pydantic", "numpy") == []


def loaded_by(names: Iterable[str], *packages: str) -> list[str]:
    """Return which of the packages a new Python has loaded once it has imported the modules of these names."""
    program = (
        f"import importlib, sys\nfor name in {list(names)}: importlib.import_module(name)\n"
        f"print(*(name for name in {packages} if name in sys.modules))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()


# ---- experiments ---------------------------------------------------------------------------------------------------


def fields() -> list[tuple[str, str, FieldInfo]]:
    return [
        (found.name, name, info)
        for found in [*experiments(), *map(experiment, UNLISTED)]
        for name, info in found.config.model_fields.items()
    ]


def test_dialogs_are_opened_by_the_frame_round_every_page() -> None:
    """A dialog opened inside a live fragment can lose a click, one opened beside another is an error
    (app/ui/dialogs.py says why).
    """
    read_ones = within(modules(), "app", "pages")
    dialogs = {name for module in read_ones for name in source(module).dialogs}
    assert {"ask_cancel", "ask_extend"} <= dialogs
    called = [(module, call) for module in read_ones for call in source(module).calls]
    assert not [f"{module}:{line}" for module, (line, name) in called if name.lstrip(".") in dialogs]


def test_whatever_writes_csv_goes_through_the_one_guard() -> None:
    """One module writes CSV; a second has to send its cells through `safe_cell` too, and be named here."""
    writes = {".writerow", ".writerows", ".DictWriter", ".to_csv", "DictWriter"}
    found = {module: calls for module in modules() if (calls := writing(module, writes))}
    assert set(found) == {"engine.transfer.tables"}
    assert not [call for calls in found.values() for call in calls if "safe_cell" not in call]


def writing(module: str, names: set[str]) -> list[str]:
    """Return the lines of a module with a call of one of these names."""
    lines = modules()[module].read_text().splitlines()
    return [lines[line - 1] for line, name in source(module).calls if name in names]


def test_every_experiment_folder_is_in_the_table() -> None:
    folders = {path.parent.name for path in (ROOT / "engine" / "experiments").glob("*/config.py")}
    assert folders == set(EXPERIMENTS)


def test_the_readme_describes_every_experiment_like_its_card() -> None:
    table = (ROOT / "README.md").read_text().partition("## Experiments\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| \[(\w+)\]\((.+)\) \|$", table, re.M)
    wanted = {(each.name, each.sentence, each.name, f"docs/experiments/{each.name}.md") for each in experiments()}
    assert (len(rows), set(rows)) == (len(wanted), wanted)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_complete_with_presets_and_docs_of_every_field(name: str) -> None:
    found = experiment(name)
    assert found.name == name
    assert found.sentence.endswith(".")
    assert {"published", "tuned", "quick"} <= set(found.presets)
    assert found.axis in found.config.model_fields
    assert found.flows
    assert found.source
    assert issubclass(found.config, Config)
    assert (ROOT / "docs" / "experiments" / f"{name}.md").is_file()
    page = (ROOT / "docs" / "experiments" / f"{name}.md").read_text()
    own = set(experiment(name).config.model_fields) - set(Config.model_fields)
    assert not [field for field in sorted(own) if f"`{field}`" not in page]
    for preset in found.presets.values():
        assert preset.sentence.endswith(".")
        assert not re.search(r"\b(seconds|minutes)\b", preset.sentence), "the estimate says how long it takes"
    assert [found.configure(preset).roles for preset in found.presets]


@pytest.mark.parametrize("name", [*(f"engine.experiments.{name}" for name in EXPERIMENTS), "engine.museum"])
def test_run_is_the_one_public_name_of_a_method(name: str) -> None:
    tree = ast.parse(modules()[f"{name}.method"].read_text())
    defined = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    assert defined == {"run"}


def test_every_metric_that_a_method_records_is_described() -> None:
    quoted = re.compile(r'"((?:train|test|perf|charts|theory)/[a-z0-9_]+)"')
    recorded = {
        name
        for module, path in modules().items()
        if module.startswith(("engine.experiments", "engine.training", "engine.rl", "engine.runtime"))
        for name in quoted.findall(path.read_text())
    }
    assert len(recorded) > 20
    assert not sorted(recorded - set(METRICS))


def test_every_field_says_what_it_is_and_every_number_has_bounds() -> None:
    assert not [
        f"{name}.{field}" for name, field, info in fields() if not (info.description or "").strip().endswith((".", "?"))
    ]
    numeric = [
        (name, field, info)
        for name, field, info in fields()
        if re.search(r"\b(int|float)\b", str(info.annotation)) and not choices_of(info)
    ]
    assert numeric
    for name, field, info in numeric:
        assert bound_of(info, "ge") is not None or bound_of(info, "gt") is not None, (
            f"{name}.{field} has no lower bound"
        )
        assert bound_of(info, "le") is not None or bound_of(info, "lt") is not None, (
            f"{name}.{field} has no upper bound"
        )


# ---- files ---------------------------------------------------------------------------------------------------------


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every text file of the checkout that is or could be committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        try:
            yield Path(name), (ROOT / name).read_text()
        except (UnicodeDecodeError, FileNotFoundError):
            continue


@pytest.mark.processes
def test_every_file_of_ours_that_a_text_names_exists() -> None:
    named = re.compile(r"(?<![\w/.])(?:engine|app|pages|tests|bench|deploy|docs)/[\w/]+\.(?:py|js|md|html)(?!\w)")
    found = [
        f"{path}: {name}"
        for path, text in texts()
        if path.suffix in (".md", ".py", ".js", ".toml") and path.name != "CHANGELOG.md"
        for name in named.findall(text)
        if not (ROOT / name).exists()
    ]
    assert not found


@pytest.mark.processes
def test_no_file_names_one_machine_and_the_layout_lists_every_package() -> None:
    pattern = re.compile(r"(?<![\w.}])/(?:" + "|".join(("root", "work", "home", "Users")) + r")/\w")
    assert not [f"{path}: {found.group()}" for path, text in texts() if (found := pattern.search(text))]
    layout = (ROOT / "docs" / "architecture.md").read_text().partition("## Layout\n")[2].partition("\n## ")[0]
    listed = {name for line in re.findall(r"^ {6}((?:\w+/ ?)+)", layout, re.M) for name in re.findall(r"\w+", line)}
    assert listed == {path.parent.name for top in ("app", "engine") for path in (ROOT / top).glob("*/__init__.py")} | {
        "static",
        "templates",
    }
    assert set(re.findall(r"^ {4}(\w+)/", layout, re.M)) == {
        path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] not in "._"
    } - {"shared"}


def test_docs_name_files_that_exist() -> None:
    named = re.compile(r"`((?:app|engine|pages|tests|bench|deploy)/[\w/.-]+\.(?:py|js|css|html))`")
    texts = {path: path.read_text() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))}
    del texts[ROOT / "CHANGELOG.md"]  # what earlier versions had
    found = [(path.name, name) for path, text in texts.items() for name in named.findall(text)]
    assert not [(page, name) for page, name in found if not (ROOT / name).exists()]
    drawing = texts[ROOT / "docs" / "architecture.md"].partition("```mermaid")[2].partition("```")[0]
    drawn = set(re.findall(r"\w+", drawing))
    assert not [name for name in ORDER if "." in name and name not in ALONE and not drawn & set(name.split(".")[1:])]


# ---- charts --------------------------------------------------------------------------------------------------------

OFFERS_AN_UPLOAD = {"map", "pydeck_chart", "to_html", "write_html", "iplot", "show_figure"}
"""What else than Streamlit's charts draws with a bar or a map of its maker's: `live.figure` and `live.curves` draw
ours.
"""


def foreign_charts(made: Source) -> list[str]:
    """Return the calls that draw a chart whose bar or menu would offer to send it to a service (plotly's cloud, Vega's
    editor), or ask one for a map.
    """
    return [
        f"{line}: {name}"
        for line, name in made.calls
        if re.fullmatch(rf"\.(\w+_chart|{'|'.join(OFFERS_AN_UPLOAD)})", name)
    ]


def test_no_module_or_chart_is_of_the_wrong_kind() -> None:
    for call in ("st.line_chart(x)", "with a: b.plotly_chart(f)", "st.map(y)", "f.write_html('z')"):
        assert foreign_charts(read(call))
    assert not {name: found for name in modules() if (found := foreign_charts(source(name)))}
    texts = {path.name: path.read_text() for path in (ROOT / "app" / "static").rglob("*.js")}
    assert [name for name, text in texts.items() if re.search(r"Plotly\??\.(react|newPlot|plot)\(", text)] == [
        "plot.js"
    ]
    assert "showSendToCloud: false" in texts["plot.js"]


@pytest.mark.parametrize("path", sorted((ROOT / "pages").glob("*.py")), ids=lambda path: path.stem)
def test_a_page_shows_no_string_of_its_source(path: Path) -> None:
    """Streamlit writes the value of an expression that stands alone onto the page, all but the docstring."""
    _, *rest = ast.parse(path.read_text()).body
    alone = [each.value for each in rest if isinstance(each, ast.Expr)]
    assert not [each.value for each in alone if isinstance(each, ast.Constant)]
