"""`make licences`: writes docs/licences.md, the licence of every package that Parallab needs to run. What packages say
of themselves is read by pip-licenses.

A licence that is not among those we accept stops it: whoever adds such a package has to decide on it here.
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
    ): "asks for no more than its notice",
    r"(3-Clause )?BSD.*|HPND|Historical Permission Notice.*": "asks for no more than its notice",
    r"Apache.*": "asks for its notice, and gives a licence of patents",
    r"(PSF-2\.0|Python Software Foundation License|CNRI-Python|Python-2\.0)": "Python's own",
    r"MPL[- ]2\.0|Mozilla Public License 2\.0.*": "binds changes of its own files; we change none",
    r"LGPL.*|GNU (Library or )?Lesser General Public License.*": (
        "is used as a library that anybody can exchange; we change nothing of it"
    ),
    r"LLVM-exception|GCC-exception-3\.1": "an exception that lets any program use a compiler's run time",
    r"BSL-1\.0|Boost.*|NCSA|FTL|BlueOak-1\.0\.0": "asks for no more than its notice",
    r"LicenseRef-NVIDIA.*|NVIDIA Proprietary Software": (
        "CUDA's libraries, not free software; they may be used with NVIDIA's GPUs and passed on with a program"
    ),
}
"""What we accept, as patterns of a licence's name, and why."""
SAID: Mapping[str, str] = {
    "cuda-toolkit": "NVIDIA Proprietary Software",  # a list of NVIDIA's other packages, without a file of its own
}
"""What packages are under that say nothing themselves."""
_PARTS = re.compile(r"\s+(?:AND|OR|WITH)\s+|[();]")


@dataclass(frozen=True)
class Licence:
    """What one package says of itself."""

    package: str
    version: str
    name: str

    @property
    def refused(self) -> list[str]:
        """The parts of its licence that nobody has accepted; of alternatives one that is accepted is enough."""
        if not self.name:
            return ["no licence"]
        if any(_accepted(way) for way in re.split(r"\s+OR\s+", self.name)):
            return []
        return [part for part in parts(self.name) if not _accepted(part)]


def parts(name: str) -> list[str]:
    """Return the single licences that an expression or a list is made of."""
    return [part.strip() for part in _PARTS.split(name) if part.strip()]


def found(packages: Sequence[str]) -> list[Licence]:
    """Return the licences of installed packages, by name; raises CalledProcessError where one is not installed."""
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

Parallab is under the MIT licence. It needs these packages to run; what each says of its licence is in the table, which `make licences` writes from the
lock file. The ones that checks and tests need besides are not passed on with anything, and not listed.

What we accept, and why:

{ways}

A package with another licence stops `make licences` and the tests until somebody has decided on it in `deploy/licences.py`.

| package | version | licence |
|---|---|---|
{rows}
"""  # noqa: E501


def _used(licences: Sequence[Licence]) -> dict[str, list[str]]:
    """Return the licences that are there by the reason for which they are accepted."""
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
    """Write the page; exit code 1 where a licence is not accepted or a package of the lock file is not installed."""
    wanted = pinned(lock_of((3, 11), "Linux", "x86_64", dev=False).read_text())
    licences = found(list(wanted))
    licences = [replace(each, version=wanted[each.package]) for each in licences if each.package in wanted]
    missing = sorted(set(wanted) - {each.package for each in licences})
    refused = [f"{each.package} {each.version}: {', '.join(each.refused)}" for each in licences if each.refused]
    if missing or refused:
        sys.exit(
            "\n".join(
                [*(f"{name} is in the lock file and not installed: make install-dev." for name in missing), *refused]
            )
        )
    PAGE.write_text(page(licences))


if __name__ == "__main__":
    main()
