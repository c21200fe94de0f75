"""`make licences`: write docs/licences.md with the licence of every required package, as reported by pip-licenses.

Fails for a licence that is not accepted here.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from deploy.install import ROOT, lock_of, pinned

PAGE = ROOT / "docs" / "licences.md"
ACCEPTED: Mapping[str, str] = {
    (
        r"MIT( License)?|MIT-0|MIT-CMU|0BSD|ISC( "
        r"License.*)?|Unlicense|Public Domain|Zlib|CC0-1\.0"
    ): "requires only its notice",
    r"(3-Clause )?BSD.*|HPND|Historical Permission Notice.*": "requires only its notice",
    r"Apache.*": "requires its notice and grants a patent licence",
    r"(PSF-2\.0|Python Software Foundation License|CNRI-Python|Python-2\.0)": "Python's own",
    r"MPL[- ]2\.0|Mozilla Public License 2\.0.*": "covers changes to its own files; we change none",
    r"LGPL.*|GNU (Library or )?Lesser General Public License.*": ("used as a replaceable library, unmodified"),
    r"LLVM-exception|GCC-exception-3\.1": "exception that permits any program to use a compiler's run-time library",
    r"BSL-1\.0|Boost.*|NCSA|FTL|BlueOak-1\.0\.0": "requires only its notice",
    r"LicenseRef-NVIDIA.*|NVIDIA Proprietary Software": (
        "CUDA's libraries, proprietary; may be used with NVIDIA's GPUs and redistributed with a program"
    ),
}
"""Accepted licences, as patterns of their names, with reasons."""
SAID: Mapping[str, str] = {
    "cuda-toolkit": "NVIDIA Proprietary Software",  # a list of NVIDIA's other packages, without a file of its own
}
"""Licences of packages that do not declare one."""
_PARTS = re.compile(r"\s+(?:AND|OR|WITH)\s+|[();]")


@dataclass(frozen=True)
class Licence:
    """Declared licence of one package."""

    package: str
    version: str
    name: str

    @property
    def refused(self) -> list[str]:
        """Parts of the licence that are not accepted; one accepted alternative is enough."""
        if not self.name:
            return ["no licence"]
        if any(_accepted(way) for way in re.split(r"\s+OR\s+", self.name)):
            return []
        return [part for part in parts(self.name) if not _accepted(part)]


def parts(name: str) -> list[str]:
    """Return the single licences of an expression or a list."""
    return [part.strip() for part in _PARTS.split(name) if part.strip()]


def found(packages: Sequence[str]) -> list[Licence]:
    """Return the licences of installed packages, by name; raises CalledProcessError for a missing package."""
    words = ["--from=mixed", "--format=json", "--with-system", "--packages", *packages]
    said = subprocess.run(
        [sys.executable, "-m", "piplicenses", *words], capture_output=True, text=True, check=True
    ).stdout
    read = [
        Licence(_plain(each["Name"]), each["Version"], SAID.get(_plain(each["Name"]), each["License"]))
        for each in json.loads(said)
    ]
    return sorted(read, key=lambda each: each.package)


def page(licences: Sequence[Licence]) -> str:
    """Return the page."""
    rows = "\n".join(f"| {each.package} | {each.version} | {each.name} |" for each in licences)
    ways = "\n".join(f"- {why}: {', '.join(names)}" for why, names in _used(licences).items())
    return PAGE_TEXT.format(rows=rows, ways=ways)


PAGE_TEXT = """# Licences

Parallab is under the MIT licence. The table lists the packages that it needs to run, with their declared licences. `make licences` writes it from the
lock file. Packages only for checks and tests are not redistributed and not listed.
`app/static/vendor/plotly.min.js` is a part of plotly.js and contains its licence (MIT) and those of its parts.

Accepted licences, and why:

{ways}

A package with another licence makes `make licences` and the tests fail until `deploy/licences.py` accepts it.

| package | version | licence |
|---|---|---|
{rows}
"""  # noqa: E501


def _used(licences: Sequence[Licence]) -> dict[str, list[str]]:
    """Return the used licences, grouped by the reason for accepting them."""
    ways: dict[str, list[str]] = {}
    for name in sorted({part for each in licences for part in parts(each.name) if _accepted(part)}):
        ways.setdefault(_reason(name), []).append(name)
    return ways


def _accepted(name: str) -> bool:
    return all(_reason(part) for part in parts(name))


def _reason(name: str) -> str:
    return next((why for pattern, why in ACCEPTED.items() if re.fullmatch(pattern, name)), "")


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Write the page; exit code 1 for a licence that is not accepted or a package that is not installed."""
    wanted = pinned(lock_of((3, 11), "Linux", "x86_64", dev=False).read_text())
    licences = found(list(wanted))
    licences = [replace(each, version=wanted[each.package]) for each in licences if each.package in wanted]
    missing = sorted(set(wanted) - {each.package for each in licences})
    refused = [f"{each.package} {each.version}: {', '.join(each.refused)}" for each in licences if each.refused]
    if missing or refused:
        absent = [f"{name} is in the lock file but not installed. Run make install-dev." for name in missing]
        sys.exit("\n".join([*absent, *refused]))
    PAGE.write_text(page(licences))


if __name__ == "__main__":
    main()
