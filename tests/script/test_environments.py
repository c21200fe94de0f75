"""Interpreters are found by their files, with their versions; none is executed."""

import stat
import sys
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.script.command import read_command
from engine.script.environments import interpreter_at, interpreters, missing_packages


def environment(prefix: Path, settings: str = "", torch: str = "") -> Path:
    """Make an environment whose interpreter would leave a mark if it ran; return its path."""
    python = prefix / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\ntouch {prefix}/ran\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    if settings:
        (prefix / "pyvenv.cfg").write_text(settings)
    if torch:
        (prefix / "lib" / "python3.12" / "site-packages" / f"torch-{torch}.dist-info").mkdir(parents=True)
    return python


def test_environments_of_the_folder_its_parents_and_conda_are_found_with_their_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project, prefix = tmp_path / "home", tmp_path / "my project", tmp_path / "conda"
    inner = project / "training"
    inner.mkdir(parents=True)
    near = environment(inner / ".venv", "home = /usr/bin\nversion_info = 3.12.3\nuv = 0.5\n", "2.5.1+cu124")
    far = environment(project / "venv", "version = 3.11.7\n")
    own = environment(tmp_path / "console", "version = 3.11.9\n", "2.6.0")
    conda = environment(prefix / "envs" / "vision", torch="2.4.0")
    (conda.parents[1] / "conda-meta").mkdir()
    (conda.parents[1] / "conda-meta" / "python-3.10.14-h955ad1f_1.json").touch()
    (home / ".conda").mkdir(parents=True)
    (home / ".conda" / "environments.txt").write_text(f"{conda.parents[1]}\n{tmp_path}/gone\n")
    system = environment(tmp_path / "usr")
    system.rename(system.with_name("python3.9"))
    system.symlink_to("python3.9")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(system.parent))
    monkeypatch.setenv("CONDA_PREFIX", str(prefix))
    monkeypatch.setattr(sys, "prefix", str(own.parents[1]))
    found = [(each.path, each.kind, each.python, each.torch) for each in interpreters(str(inner))]
    assert found == [
        (str(near), "uv", "3.12.3", "2.5.1+cu124"),
        (str(far), "venv", "3.11.7", ""),
        (str(system), "path", "3.9", ""),
        (str(conda), "conda", "3.10.14", "2.4.0"),
        (str(own), "venv", "3.11.9", "2.6.0"),
    ]
    assert interpreters(str(inner))[0].versions == "Python 3.12.3, torch 2.5.1+cu124"
    assert interpreter_at(".venv/bin/python", str(inner)).path == str(near)
    assert interpreter_at("python").path == str(system)
    assert not list(tmp_path.rglob("ran")), "nothing was executed"


def test_an_interpreter_that_can_not_run_is_named_with_the_cure(tmp_path: Path) -> None:
    environment(tmp_path / "venv", "version = 3.12\n")
    (tmp_path / "notes.txt").touch()
    for word, said in (
        (f"{tmp_path}/gone/python", "gone/python doesn't exist. Give the path of an interpreter"),
        (f"{tmp_path}/venv", f"is a folder. Did you mean {tmp_path}/venv/bin/python?"),
        (f"{tmp_path}/notes.txt", "is not a program that this user may execute"),
        ("no-such-python", "Interpreter no-such-python doesn't exist"),
    ):
        with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
            interpreter_at(word)


def test_packages_that_a_script_imports_and_its_interpreter_lacks_are_named_with_the_cure(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "train.py").write_text(
        "import os, model\nfrom sklearn import svm\nimport numpy.random\nimport editable\nimport linked\n"
        "try:\n    import apex\nexcept ImportError:\n    apex = None\nfrom . import beside\n"
    )
    (project / "model.py").write_text("import torch.nn as nn\nimport src.data\n")
    (project / "src" / "data.py").write_text("import model\n")
    python = environment(tmp_path / "venv", "version = 3.12.3\n", "2.5.1")
    site = tmp_path / "venv" / "lib" / "python3.12" / "site-packages"
    (site / "numpy").mkdir()
    (site / "__editable___some_project_finder.py").write_text("MAPPING = {'editable': '/data/editable'}\n")
    (site / "project.pth").write_text(f"import nothing\n{tmp_path}/linked\n")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "linked.py").touch()
    command = read_command("python train.py", str(project), str(python))
    assert missing_packages(command) == (
        f"train.py imports sklearn, torch, which {python} doesn't have. Choose another interpreter, enter the path of "
        f"one, or install what is missing: {python} -m pip install scikit-learn torch"
    )
    for each in ("torch", "sklearn"):
        (site / each).mkdir()
    assert missing_packages(command) == ""
    assert "imports accelerate, " in missing_packages(
        read_command("accelerate launch train.py", str(project), str(python))
    )
    for other in ("uv run train.py", "bash train.sh", "python gone.py"):
        assert missing_packages(read_command(other, str(project), str(python))) == ""
    unknown = environment(tmp_path / "unknown", "version = 3.12\n")
    assert missing_packages(read_command("python train.py", str(project), str(unknown))) == "", "nothing to read"
