"""What the test suite takes: seconds and processor seconds of `make test`, and the seconds of every test.

Writes results/suite-<label>.txt: the totals, each file, each test of at least 0.1 s (set-up and clean-up included).
Processor seconds are those of the whole machine meanwhile, since most processes of the suite outlive the one that
started them; so nothing else may run.

Run: python -m bench.suite --label after [--rounds 3]
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from xml.etree import ElementTree

import psutil

from bench.measuring import RESULTS
from engine.home import ROOT
from engine.runtime.worker.environment import environment

LEAST_S = 0.1
LANES = re.compile(r"-m pytest -m \"(?P<of>[^\"]+)\"(?P<rest>[^&;\\]*)")


def lanes() -> dict[str, list[str]]:
    """Return the arguments of each call of pytest in `make test`, as the Makefile has them."""
    rule = (ROOT / "Makefile").read_text().partition("\ntest: ")[2].partition("\n\n")[0]
    return {found["of"]: ["-m", found["of"], *found["rest"].split()] for found in LANES.finditer(rule)}


def busy_s() -> float:
    """Return the processor seconds that the machine has spent on anything since it started."""
    times = psutil.cpu_times()
    return float(times.user + times.system + times.nice)


def tests_of(report: Path) -> dict[str, float]:
    """Return the seconds of each test in one of pytest's XML reports."""
    cases = ElementTree.parse(report).iter("testcase")
    return {
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}": float(case.get("time", 0))
        for case in cases
    }


def table(tests: dict[str, float]) -> list[str]:
    """Return the lines of the table: files, then tests, the longest first."""
    files: dict[str, list[float]] = defaultdict(list)
    for name, seconds in tests.items():
        files[name.partition("::")[0]].append(seconds)
    lines = [f"{len(tests):,} tests, {sum(tests.values()):.1f} s in all", "", "seconds  tests  file"]
    lines += [
        f"{sum(each):7.2f}  {len(each):5}  {name}"
        for name, each in sorted(files.items(), key=lambda item: -sum(item[1]))
    ]
    lines += ["", f"seconds  test (those of at least {LEAST_S} s)"]
    return lines + [
        f"{seconds:7.2f}  {name}"
        for name, seconds in sorted(tests.items(), key=lambda item: -item[1])
        if seconds >= LEAST_S
    ]


def head(command: str) -> list[str]:
    """Return what was measured, when and where."""
    about = environment()
    machine = (
        f"{about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, Python {about['python']}, commit "
        f"{about['git_commit']}"
    )
    return [command, f"{time.strftime('%Y-%m-%d', time.gmtime())}: {machine}", ""]


def main() -> None:
    """Run the suite and write the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--label", required=True)
    options.add_argument("--rounds", type=int, default=1)
    chosen = options.parse_args()
    lines, totals = head(f"python -m bench.suite --label {chosen.label}"), []
    tests: dict[str, float] = {}
    for _ in range(chosen.rounds):
        totals.append(0.0)
        for name, arguments in lanes().items():
            load, before, began = os.getloadavg()[0], busy_s(), time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                report = Path(folder) / "report.xml"
                ended = subprocess.run(
                    [sys.executable, "-m", "pytest", "-q", *arguments, f"--junitxml={report}"], cwd=ROOT
                )
                tests |= tests_of(report)
            took = time.monotonic() - began
            totals[-1] += took
            lines.append(
                f"{name}: {took:.0f} s, {busy_s() - before:.0f} processor seconds, load {load:.2f} before, "
                f"{_word(ended.returncode)}"
            )
    lines += [f"in all: {', '.join(f'{each:.0f}' for each in totals)} s; median {median(totals):.0f} s", ""]
    write(chosen.label, [*lines, *table(tests)])


def write(label: str, lines: Sequence[str]) -> None:
    """Keep the table, and print what comes before its tests."""
    (RESULTS / f"suite-{label}.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines[: lines.index("") + 12]))


def _word(code: int) -> str:
    return "all passed" if code == 0 else f"exit code {code}"


if __name__ == "__main__":
    main()
