"""Looks up whether a package of the lock file has a published weakness; a part of `make check`, carried out by
pip-audit.

It needs the package index: without a way there it says so and is skipped. In CI a weakness is told and stops nothing:
one that was published overnight is no fault of the change that is checked.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping

from deploy.install import ROOT, lock_of

BORNE: Mapping[str, str] = {}
"""Weaknesses that we live with: their ids, and why they can't be used here."""
LIMIT_S = 240
LOCK = lock_of((3, 11), "Linux", "x86_64", dev=False)


def weaknesses(report: str) -> list[str]:
    """Return what a report of pip-audit's found, a line each; raises ValueError where it is none."""
    found = json.loads(report)["dependencies"]
    return [
        f"{each['name']} {each['version']}: {one['id']}, mended in {', '.join(one['fix_versions']) or 'no version yet'}"
        for each in found
        for one in each.get("vulns", [])
        if not {one["id"], *one.get("aliases", [])} & set(BORNE)
    ]


def main() -> None:
    """Look, and say what was found; exit code 1 where there is a weakness, but in CI."""
    ended = None
    words = [
        "--requirement",
        str(LOCK.relative_to(ROOT)),
        "--require-hashes",
        "--disable-pip",
        "--format",
        "json",
        "--progress-spinner",
        "off",
    ]
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "pip_audit", *words, "--timeout", "10"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        told = weaknesses(ended.stdout)
    except subprocess.TimeoutExpired:
        print(f"pip-audit was skipped: the package index did not answer within {LIMIT_S} s.")
        return
    except (ValueError, KeyError):
        reason = ended.stderr.strip().splitlines()[-1] if ended and ended.stderr.strip() else "it said nothing"
        print(f"pip-audit was skipped: the package index can't be asked ({reason[:200]}).")
        return
    print(
        "\n".join([f"{len(told)} published weaknesses in {LOCK.name}:", *told])
        if told
        else f"No package of {LOCK.name} has a published weakness."
    )
    sys.exit(1 if told and not os.environ.get("CI") else 0)


if __name__ == "__main__":
    main()
