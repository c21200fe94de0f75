"""How much of a mutated product the tests notice: a fixed sample of mutants, each met by the tests that carry out its
line.

`sample` draws mutants with cosmic-ray's operators (`pip install cosmic-ray==8.7.0`, which nothing else here needs) from
functions of the store, the queue, the analysis, the access rules and the filter, and keeps each by the name of its
function, the operator and its number within the function, so that it is found again after the function has moved. `run`
makes each mutant in a copy of the checkout and runs the tests that start no rank and no browser and that reach the
mutated line, until one fails. Which tests reach a line is read from coverage data with contexts, as `python -m
bench.suite_coverage` leaves it.

Run: python -m bench.mutants sample --count 300 && python -m bench.mutants run --label before --coverage .coverage
"""

import argparse
import ast
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from bench.measuring import RESULTS
from engine.home import ROOT

KEPT = RESULTS / "mutants.json"
FOLDERS = ("store", "queue", "analysis", "access", "filter")
LEFT_OUT = ("core/VariableInserter", "core/VariableReplacer", "core/RemoveDecorator", "core/ExceptionReplacer")
"""Operators that need arguments, or whose mutants no test of behaviour can tell."""
SLOW = ("browser", "faults", "experiments", "runtime", "museum", "deploy", "doctor")
"""Folders of tests that start ranks, browsers or servers."""
MOST_TESTS, TIMEOUT_S = 600, 900.0
LOADED_FIRST = (
    "pytest",
    "hypothesis",
    "numpy",
    "scipy.stats",
    "pydantic",
    "psutil",
    "sqlite_utils",
    "click.testing",
    "streamlit",
    "plotly",
    "fastapi",
    "pandas",
)


def functions(source: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield each function of a module with its dotted name."""

    def within(node: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                own = f"{name}.{child.name}".lstrip(".")
                if not isinstance(child, ast.ClassDef):
                    yield own, child
                yield from within(child, own)

    return within(ast.parse(source), "")


def _annotations(function: Any) -> set[tuple[int, int]]:
    """Return the lines and columns that the annotations of a function take: a mutant there changes nothing."""
    arguments = [
        *function.args.posonlyargs,
        *function.args.args,
        *function.args.kwonlyargs,
        function.args.vararg,
        function.args.kwarg,
    ]
    notes = [function.returns, *(each.annotation for each in arguments if each)]
    notes += [node.annotation for node in ast.walk(function) if isinstance(node, ast.AnnAssign)]
    return {
        (note.lineno, column) for note in notes if note for column in range(note.col_offset, note.end_col_offset + 1)
    }


@cache
def positions(path: Path) -> dict[tuple[str, str], list[tuple[int, int, int]]]:
    """Return the mutants of a module: by function and operator the line, the column and the operator's number within
    the module.
    """
    import cosmic_ray.plugins as plugins
    from cosmic_ray.ast import ast_nodes, get_ast_from_path

    found: dict[tuple[str, str], list[tuple[int, int, int]]] = defaultdict(list)
    inner = list(functions(path.read_text()))
    noted = set().union(*(_annotations(node) for _, node in inner)) if inner else set()
    tree = get_ast_from_path(path)
    for name in plugins.operator_names():
        operator = plugins.get_operator(name)
        if name in LEFT_OUT or operator.arguments():
            continue
        places = [start for node in ast_nodes(tree) for start, _ in operator().mutation_positions(node)]
        for number, (line, column) in enumerate(places):
            around = [own for own, node in inner if node.body[0].lineno <= line <= node.end_lineno]  # type: ignore[attr-defined]
            if around and (line, column) not in noted:
                found[around[-1], name].append((line, column, number))
    return found


def modules(root: Path) -> list[Path]:
    """Return the modules that mutants are drawn from."""
    return [path for folder in FOLDERS for path in sorted((root / "engine" / folder).rglob("*.py"))]


def sample(count: int, seed: int) -> None:
    """Draw mutants, at most one of each place and kind of operator, and keep them."""
    places: dict[tuple[str, int, int, str], list[dict[str, Any]]] = defaultdict(list)
    for path in modules(ROOT):
        lines = path.read_text().splitlines()
        for (function, operator), spots in positions(path).items():
            for nth, (line, column, _) in enumerate(spots):
                mutant = {
                    "function": function,
                    "operator": operator,
                    "nth": nth,
                    "line": lines[line - 1].strip(),
                    "module": str(path.relative_to(ROOT)),
                }
                places[str(path), line, column, operator.split("_")[0]].append(mutant)
    chance = random.Random(seed)
    shuffled = chance.sample(sorted(places), len(places))
    drawn = list(
        islice((mutant for mutant in (chance.choice(places[place]) for place in shuffled) if is_python(mutant)), count)
    )
    KEPT.write_text(
        json.dumps(
            {"command": "python -m bench.mutants " + " ".join(sys.argv[1:]), "mutants": drawn, "results": {}}, indent=1
        )
        + "\n"
    )
    print(f"{count} of {len(places)} places: {Counter(mutant['module'].split('/')[1] for mutant in drawn)}")


def is_python(mutant: dict[str, Any]) -> bool:
    """Say whether a mutant is a program at all; some operators also change what only looks like one."""
    import cosmic_ray.plugins as plugins
    from cosmic_ray.mutating import mutate_code

    place = find(ROOT, mutant)
    mutated = mutate_code(place[0].read_text(), plugins.get_operator(mutant["operator"])(), place[2]) if place else None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return mutated is not None and compile(mutated, "mutant", "exec") is not None
        except (SyntaxError, SyntaxWarning):
            return False


def find(root: Path, mutant: dict[str, Any]) -> tuple[Path, int, int] | None:
    """Return where a mutant lies now: its module, its line and its operator's number there; None where its function or
    line is gone.
    """
    key, found = (mutant["function"], mutant["operator"]), []
    for path in modules(root):
        lines = path.read_text().splitlines()
        spots = positions(path).get(key, [])
        same = [spot for spot in spots if lines[spot[0] - 1].strip() == mutant["line"]]
        if same:
            nth = mutant["nth"]
            spot = spots[nth] if nth < len(spots) and spots[nth] in same else same[0]
            found.append((str(path.relative_to(root)) != mutant["module"], path, spot[0], spot[2]))
    return min(found)[1:] if found else None


def tests_of(data: Any, root: Path, path: Path, line: int) -> list[str]:
    """Return the tests that carry a line out: of each file the first, of each the second, and so on."""
    measured = next((name for name in data.measured_files() if name.endswith(str(path.relative_to(root)))), None)
    contexts = data.contexts_by_lineno(measured).get(line, []) if measured else []
    found = []
    for context in sorted({each for each in contexts if each}):
        parts = context.split(".")
        at = next(
            (end for end in range(len(parts), 0, -1) if (root / Path(*parts[:end])).with_suffix(".py").is_file()), 0
        )
        if (
            at
            and len(parts) > at
            and parts[1] not in SLOW
            and parts[at - 1].startswith("test_")
            and parts[at].startswith("test_")
        ):
            found.append("::".join([str(Path(*parts[:at]).with_suffix(".py")), *parts[at:]]))
    own = path.relative_to(root / "engine").parts[0]
    within: Counter[str] = Counter()
    order = {}
    for test in found:
        file = test.split("::")[0]
        order[test] = (within[file], not test.startswith(f"tests/{own}/"))
        within[file] += 1
    return sorted(found, key=order.__getitem__)[:MOST_TESTS]


def replace(path: Path, text: str) -> None:
    """Write a module, and remove its compiled form: Python tells the two apart by their size and second alone."""
    path.write_text(text)
    for stale in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        stale.unlink()


def meet(tree: Path, path: Path, mutated: str, tests: list[str]) -> str:
    """Run tests on a mutant in a fork of this process; return which one failed, or what became of them."""
    original = path.read_text()
    try:
        replace(path, mutated)
        out = tree / "mutant.log"
        child = os.fork()
        if child == 0:
            _tested(tree, out, tests)
        return _outcome(child, out)
    finally:
        replace(path, original)


def _tested(tree: Path, out: Path, tests: list[str]) -> None:
    code = -1
    try:
        os.setsid()
        os.chdir(tree)
        sys.path[:] = [str(tree), *(each for each in sys.path if each not in ("", str(ROOT)))]
        for name in [
            name for name in sys.modules if name.split(".")[0] in ("bench", "engine", "app", "tests", "deploy", "pages")
        ]:
            del sys.modules[name]
        with out.open("w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            code = int(
                importlib.import_module("pytest").main(
                    [
                        "-x",
                        "-q",
                        "-p",
                        "no:cacheprovider",
                        "-W",
                        "ignore::pytest.PytestAssertRewriteWarning",
                        "--tb=line",
                        "-m",
                        "not long and not cluster",
                        *tests,
                    ]
                )
            )
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _outcome(child: int, out: Path) -> str:
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            failed = [
                line.split(" ")[1]
                for line in out.read_text(errors="replace").splitlines()
                if line.startswith(("FAILED ", "ERROR "))
            ]
            if code not in (0, 1, 2) and not re.search(
                "while loading conftest|ERROR collecting", out.read_text(errors="replace")
            ):
                raise RuntimeError(
                    f"The tests did not run (exit code {code}):\n{out.read_text(errors='replace')[-2000:]}"
                )
            return "survived" if code == 0 else f"killed: {failed[0] if failed else 'at import'}"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "killed: time-out"


def run(label: str, coverage: Path, root: Path) -> None:
    """Meet every mutant that has no result under this label yet, and keep what became of each."""
    for name in LOADED_FIRST:
        importlib.import_module(name)
    import cosmic_ray.plugins as plugins
    from cosmic_ray.mutating import mutate_code
    from coverage import CoverageData

    data = CoverageData(str(coverage))
    data.read()
    kept = json.loads(KEPT.read_text())
    results = kept["results"].setdefault(label, {})
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(
            root, tree, ignore=shutil.ignore_patterns(".git", ".venv", ".parallab", ".hypothesis", "*_cache")
        )
        (Path(folder) / "shared").symlink_to(root.parent / "shared")
        subprocess.run([sys.executable, "-m", "compileall", "-q", str(tree / "engine"), str(tree / "app")], check=True)
        for at, mutant in enumerate(kept["mutants"]):
            if str(at) in results:
                continue
            results[str(at)] = _one(tree, mutant, data, plugins, mutate_code)
            KEPT.write_text(json.dumps(kept, indent=1) + "\n")
            print(at, mutant["module"], mutant["function"], mutant["operator"], "->", results[str(at)], flush=True)
    print(label, Counter(each.split(":")[0] for each in results.values()))


def _one(tree: Path, mutant: dict[str, Any], data: Any, plugins: Any, mutate_code: Any) -> str:
    place = find(tree, mutant)
    if place is None:
        return "gone"
    path, line, number = place
    tests = tests_of(data, tree, path, line)
    if not tests:
        return "not reached"
    mutated = mutate_code(path.read_text(), plugins.get_operator(mutant["operator"])(), number)
    return meet(tree, path, mutated, tests) if mutated else "gone"


def main() -> None:
    """Draw the sample, or run it."""
    options = argparse.ArgumentParser(description=__doc__)
    ways = options.add_subparsers(dest="way", required=True)
    drawing = ways.add_parser("sample")
    drawing.add_argument("--count", type=int, default=300)
    drawing.add_argument("--seed", type=int, default=19)
    running = ways.add_parser("run")
    running.add_argument("--label", required=True)
    running.add_argument("--coverage", type=Path, required=True)
    running.add_argument("--root", type=Path, default=ROOT, help="the checkout whose product and tests are taken")
    chosen = options.parse_args()
    if chosen.way == "sample":
        sample(chosen.count, chosen.seed)
    else:
        run(chosen.label, chosen.coverage.absolute(), chosen.root.absolute())


if __name__ == "__main__":
    main()
