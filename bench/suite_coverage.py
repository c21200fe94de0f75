"""Which lines and branches of the product `make test` carries out, in every process that isn't killed with -9.

Writes results/coverage-<label>.txt: the share of each folder, then every line and branch that nothing carried out, by
function and text, so that two tables can be compared although code has moved. `--against before` prints what was
carried out then and is not now. The data stays in .coverage, with the tests that reach each line, for `bench.mutants`.

Run: python -m bench.suite_coverage --label after --against before [--only-report]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench.measuring import RESULTS
from bench.suite import head, lanes
from engine.home import ROOT

DATA = ROOT / ".coverage"


def measure() -> None:
    """Run the suite under coverage and combine what their processes wrote."""
    coverage = [sys.executable, "-m", "coverage"]
    with tempfile.TemporaryDirectory() as folder:
        data = f"--data-file={folder}/{DATA.name}"
        for arguments in lanes().values():
            subprocess.run([*coverage, "run", data, "-m", "pytest", "-q", *arguments], cwd=ROOT)
        subprocess.run([*coverage, "combine", "-q", f"--data-file={DATA}", folder], cwd=ROOT, check=True)


def reported(data: Path, root: Path) -> dict[str, Any]:
    """Return coverage's own report of each file."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run(
            [
                sys.executable,
                "-m",
                "coverage",
                "json",
                "-q",
                f"--rcfile={ROOT}/pyproject.toml",
                f"--data-file={data}",
                "-o",
                out.name,
            ],
            cwd=root,
            check=True,
        )
        found: dict[str, Any] = json.loads(Path(out.name).read_text())["files"]
        return found


def missing(report: dict[str, Any], root: Path) -> list[str]:
    """Return every line and branch that was not carried out, as 'file, function: text' and with '-> text'
    for a branch.
    """
    found = []
    for name, of_file in sorted(report.items()):
        lines = (root / name).read_text().splitlines()

        def text(number: int, lines: list[str] = lines) -> str:
            return lines[number - 1].strip() if number > 0 else "the end"

        for function, of_function in of_file["functions"].items():
            place = f"{name}, {function or 'module'}"
            found += [f"{place}: {text(line)}" for line in of_function["missing_lines"]]
            found += [
                f"{place}: {text(start)} -> {text(end)}"
                for start, end in of_function["missing_branches"]
                if start not in of_function["missing_lines"]
            ]
    return found


def shares(report: dict[str, Any]) -> list[str]:
    """Return the share of lines and branches that were carried out, in all and by folder."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for name, of_file in report.items():
        summary = of_file["summary"]
        for folder in ("in all", "/".join(name.split("/")[:-1][:2])):
            for at, key in enumerate(("covered_lines", "num_statements", "covered_branches", "num_branches")):
                sums[folder][at] += summary[key]
    return [
        (
            f"{folder}: lines {a:,} of {b:,} ({100 * a / max(1, b):.2f} %), branches {c:,} of {d:,} "
            f"({100 * c / max(1, d):.2f} %)"
        )
        for folder, (a, b, c, d) in sums.items()
    ]


def lost(before: list[str], after: list[str]) -> list[str]:
    """Return what was carried out before and is not any more; what is in neither table is new or gone."""
    return sorted(set(after) - set(before))


def main() -> None:
    """Measure, write the table and compare."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--label", required=True)
    options.add_argument("--against")
    options.add_argument("--only-report", action="store_true", help="take the data that is there")
    options.add_argument("--data", type=Path, default=DATA)
    options.add_argument("--root", type=Path, default=ROOT)
    chosen = options.parse_args()
    if not chosen.only_report:
        measure()
    report = reported(chosen.data.absolute(), chosen.root.absolute())
    unreached = missing(report, chosen.root.absolute())
    text = [*head(f"python -m bench.suite_coverage --label {chosen.label}"), *shares(report), "", *unreached]
    (RESULTS / f"coverage-{chosen.label}.txt").write_text("\n".join(text) + "\n")
    print("\n".join(shares(report)))
    if chosen.against:
        then = (RESULTS / f"coverage-{chosen.against}.txt").read_text().splitlines()
        print(f"Carried out in {chosen.against}, not in {chosen.label}:", *lost(then, unreached), sep="\n  ")


if __name__ == "__main__":
    main()
