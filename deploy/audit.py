"""Report known vulnerabilities of locked packages with pip-audit; part of `make check`.

Needs the package index and is skipped without it. In CI vulnerabilities are reported but do not fail the check: one
published overnight is not caused by the change under test.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping

from deploy.install import ROOT, lock_of

BORNE: Mapping[str, str] = {}
"""Accepted vulnerabilities: ids, and why they do not apply here."""
LIMIT_S = 240
LOCK = lock_of((3, 11), "Linux", "x86_64", dev=False)


def weaknesses(report: str) -> list[str]:
    """Return the findings of a pip-audit report, one line each; raises ValueError for an invalid report."""
    found = json.loads(report)["dependencies"]
    return [
        f"{each['name']} {each['version']}: {one['id']}, fixed in {', '.join(one['fix_versions']) or 'no version yet'}"
        for each in found
        for one in each.get("vulns", [])
        if not {one["id"], *one.get("aliases", [])} & set(BORNE)
    ]


def main() -> None:
    """Print the findings; exit code 1 for a vulnerability, except in CI."""
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
        print(f"pip-audit skipped: the package index did not respond within {LIMIT_S} s.")
        return
    except (ValueError, KeyError):
        reason = ended.stderr.strip().splitlines()[-1] if ended and ended.stderr.strip() else "no error message"
        print(f"pip-audit skipped: the package index is not available ({reason[:200]}).")
        return
    print(
        "\n".join([f"{len(told)} known vulnerabilities in {LOCK.name}:", *told])
        if told
        else f"No known vulnerabilities in {LOCK.name}."
    )
    sys.exit(1 if told and not os.environ.get("CI") else 0)


if __name__ == "__main__":
    main()
