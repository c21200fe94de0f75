"""What Parallab is made of: lock files that hold to their hashes, and licences that somebody has accepted."""

import json
import re
import subprocess
import sys
from pathlib import Path

import plotly.graph_objects as go
import pytest
from packaging.requirements import Requirement
from plotly.offline import get_plotlyjs_version

from app.core.assets import PLOTLY
from deploy.audit import weaknesses
from deploy.install import LOCKS, lock_of, pinned, without_gpus
from deploy.licences import PAGE, Licence
from deploy.lock import TRIED
from deploy.plotly_bundle import TRACES
from engine.home import ROOT

PLAIN = lock_of((3, 11), "Linux", "x86_64", dev=False)


def asked(name: str) -> dict[str, Requirement]:
    """Return the packages that a file of requirements asks for."""
    lines = [line.partition(" #")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    found = [Requirement(line) for line in lines if line and not line.startswith(("#", "-r"))]
    return {re.sub(r"[-_.]+", "-", each.name).lower(): each for each in found}


def test_the_lock_files_have_every_package_that_is_asked_for_in_a_version_that_fits() -> None:
    """Fails after a change of the requirements until `make lock` was run."""
    for version in TRIED:
        plain = pinned(lock_of(version, "Linux", "x86_64", dev=False).read_text())
        dev = pinned(lock_of(version, "Linux", "x86_64", dev=True).read_text())
        assert not {
            name
            for name, each in asked("requirements.txt").items()
            if name not in plain or plain[name] not in each.specifier
        }
        assert not {
            name
            for name, each in asked("requirements-dev.txt").items()
            if name not in dev or dev[name] not in each.specifier
        }
        assert plain.items() <= dev.items(), "developers run what users run"


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.txt")), ids=lambda lock: lock.stem)
def test_each_package_of_a_lock_file_has_hashes_and_no_registry_is_named(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert "--index" not in text
    blocks = re.split(r"\n(?=[a-z0-9])", re.sub(r"^#.*\n", "", text, flags=re.M))
    assert len(blocks) == len(pinned(text)) > 30
    assert not [block.partition(" ")[0] for block in blocks if not re.search(r"--hash=sha256:[0-9a-f]{64}", block)]


def test_a_cpu_build_leaves_cuda_out_and_keeps_all_else() -> None:
    kept = pinned(without_gpus(PLAIN.read_text()))
    left = set(pinned(PLAIN.read_text())) - set(kept)
    assert {"torch", "torchvision", "triton"} < left
    assert all(name.startswith(("torch", "triton", "nvidia-", "cuda-")) for name in left)
    assert {"nvidia-ml-py", "numpy", "sympy", "streamlit"} < set(kept)


@pytest.mark.processes
def test_a_python_without_a_lock_file_is_told_so(tmp_path: Path) -> None:
    """With pip in the place of a program that only says what it was asked for."""
    program = (
        "import platform, subprocess, sys; import deploy.install as install; platform.machine = lambda: 'riscv64';"
        "subprocess.run = lambda words: print(*words[2:]) or type('Ended', (), {'returncode': 0}); sys.argv = "
        "['install']; install.main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (
        ended.returncode,
        "riscv64: installing the newest matching versions from requirements.txt" in ended.stderr,
    ) == (0, True), ended.stderr
    assert ended.stdout.split()[-2:] == ["-r", str(ROOT / "requirements.txt")]


def test_every_package_of_the_lock_file_has_a_licence_that_somebody_accepted() -> None:
    """Fails after a change of the lock file until `make licences` was run."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if re.match(r"\| [a-z0-9-]+ \| \d", line)
    ]
    assert {name: version for name, version, _ in rows} == pinned(PLAIN.read_text())
    assert not {
        name: refused for name, version, licence in rows if (refused := Licence(name, version, licence).refused)
    }


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("MIT", []),
        ("Apache-2.0 OR BSD-3-Clause", []),
        ("GPL-3.0-only OR MIT", []),
        ("MIT AND GPL-3.0-only", ["GPL-3.0-only"]),
        ("AGPL-3.0-or-later", ["AGPL-3.0-or-later"]),
        ("UNKNOWN", ["UNKNOWN"]),
        ("", ["no licence"]),
    ],
)
def test_a_licence_is_accepted_only_where_all_of_it_is(name: str, refused: list[str]) -> None:
    assert Licence("some", "1.0", name).refused == refused


def test_a_report_of_weaknesses_is_told_and_anything_else_is_no_report() -> None:
    found = {"name": "some", "version": "1.0", "vulns": [{"id": "CVE-1", "aliases": [], "fix_versions": ["1.1"]}]}
    assert weaknesses(json.dumps({"dependencies": [found, {"name": "other", "version": "2", "vulns": []}]})) == [
        "some 1.0: CVE-1, fixed in 1.1"
    ]
    with pytest.raises(ValueError, match="Expecting value"):
        weaknesses("could not connect")


def test_the_bundle_of_plotly_has_the_packages_version_and_every_trace_that_the_code_adds() -> None:
    head, _, rest = PLOTLY.read_text().partition("\n")
    assert "Permission is hereby granted" in rest[:600] and "Bundled license information" in rest
    found = re.fullmatch(r"/\* plotly\.js v(\d+)\.[\d.]+ \(([a-z, ]+)\), MIT licence, Plotly, Inc\. \*/", head)
    assert found and found[1] == get_plotlyjs_version().partition(".")[0]
    traces = found[2].split(", ")
    assert traces == ["scatter", *TRACES]
    code = "\n".join(path.read_text() for path in (ROOT / "app").rglob("*.py"))
    added = set(re.findall(r"\.add_([a-z]+)\(", code)) | set(re.findall(r"\bgo\.([A-Z][a-z]+)\(", code))
    known = {name.removeprefix("add_") for name in dir(go.Figure) if name.startswith("add_")}
    assert {name.lower() for name in added} & known <= {*traces, "annotation", "vline", "vrect", "hline", "hrect"}
