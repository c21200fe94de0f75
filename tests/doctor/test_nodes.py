"""The doctor's judgement of a cluster: what nodes answer, and what can be checked without a job."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.cluster.doctor import COMMANDS, examine_cluster
from engine.cluster.doctor import _runner as runner_finding
from engine.cluster.node_checks import FileEcho, judge
from engine.cluster.probe import CodeVersions, NodeAnswer, Route, code_versions, interface_of
from engine.cluster.targets import Cluster
from engine.doctor import Finding
from engine.errors import UnknownName
from engine.home import Home
from engine.system.processes import me

HERE = CodeVersions(version="1.0", code="abc", python="3.11.7", torch="2.15.0")
TARGET = Cluster(name="lab", shared=Path("/shared"), cores=4, gpus=1, nodes=2, trusted=True)
SOUND = NodeAnswer(
    node="n1",
    host="n1",
    code=HERE,
    cores=4,
    gpus=["H100"],
    visible_gpus="0",
    interfaces={"lo": ["127.0.0.1"], "eth0": ["10.0.0.1"]},
    route=Route(interface="eth0", address="10.0.0.1"),
    data_sets=["mnist"],
    network="namespace",
)
NEAR = FileEcho(0.1, 0.02)


def judged(target: Cluster = TARGET, echo: FileEcho | None = NEAR, **second: Any) -> dict[str, Finding]:
    """Judge a sound first node and a second one with these changes."""
    other = SOUND.model_copy(update={"node": "n2", "host": "n2", "port_error": ""} | second)
    return {one.name: one for one in judge(target, HERE, [SOUND, other], [NEAR, echo])}


def test_sound_nodes_pass_every_check() -> None:
    assert {name: one.state for name, one in judged().items()} == dict.fromkeys(
        (
            *("shared files", "clocks", "code", "python and torch", "cores", "GPUs", "interfaces", "ports", "trust"),
            *("data sets", "network"),
        ),
        "ok",
    )
    alone = judge(TARGET, HERE, [SOUND.model_copy(update={"route": None})], [NEAR])
    assert {"ports", "trust"}.isdisjoint(one.name for one in alone), "one node needs no way to another"
    assert {one.state for one in alone} == {"ok"}


@pytest.mark.parametrize(
    ("name", "state", "words", "changes"),
    [
        ("code", "fail", "n2 has 1.0 (other)", {"code": HERE.model_copy(update={"code": "other"})}),
        ("code", "fail", "n2 has 0.9 (abc)", {"code": HERE.model_copy(update={"version": "0.9"})}),
        ("python and torch", "warn", "torch missing", {"code": HERE.model_copy(update={"torch": ""})}),
        ("cores", "warn", "n1 4, n2 2", {"cores": 2}),
        ("GPUs", "fail", "n2 0; CUDA_VISIBLE_DEVICES is ''", {"gpus": [], "visible_gpus": ""}),
        ("interfaces", "fail", "n2: no way to n1", {"route": Route(error="no way to n1")}),
        ("interfaces", "fail", "loopback", {"route": Route(interface="lo", address="127.0.0.1")}),
        ("ports", "fail", "n2: 10.0.0.1 port 4: timed out", {"port_error": "10.0.0.1 port 4: timed out"}),
        ("data sets", "warn", "does not exist on n2", {"data_sets": None}),
        ("data sets", "warn", "/shared/data: digits.", {"data_sets": []}),
        ("network", "warn", "Ranks on n2 listen", {"network": "host", "network_why": "no namespaces"}),
    ],
)
def test_each_fault_of_a_node_is_named_with_its_cure(name: str, state: str, words: str, changes: Any) -> None:
    found = judged(**changes)
    assert found[name].state == state
    assert words in found[name].sentence
    assert found[name].cure
    assert {one.state for one in found.values() if one.name != name} == {"ok"}


@pytest.mark.parametrize(
    ("echo", "state"),
    [
        (FileEcho(0.1, 0.9), "ok"),
        (FileEcho(0.1, -1.2), "warn"),
        (FileEcho(4.0, 2.5), "ok"),  # the delay of the file explains it
        (FileEcho(0.1, 90.0), "fail"),
    ],
)
def test_a_clock_is_blamed_only_for_what_the_delay_of_files_does_not_explain(echo: FileEcho, state: str) -> None:
    assert judged(echo=echo)["clocks"].state == state


def test_files_that_come_late_or_never_are_reported() -> None:
    assert judged(echo=FileEcho(20.0, 0.0))["shared files"].state == "warn"
    lost = judged(echo=None)
    assert lost["shared files"].state == "fail"
    assert "n2" in lost["shared files"].sentence
    assert lost["clocks"].state == "ok", "the other node's clock is known"


def test_a_configured_interface_must_exist_on_every_node_and_nodes_must_be_trusted() -> None:
    asked = TARGET.model_copy(update={"interface": "ib0", "trusted": False})
    found = judged(asked, interfaces={"ib0": ["10.1.0.2"]})
    assert found["interfaces"].state == "fail"
    assert "n1 has no interface ib0" in found["interfaces"].sentence
    assert found["trust"].state == "warn"


def test_an_interface_is_found_by_its_address_and_code_by_its_text() -> None:
    interfaces = {"lo": ["127.0.0.1"], "eth0": ["10.0.0.1", "fd00::1"]}
    assert [interface_of(one, interfaces) for one in ("fd00::1", "127.0.1.1", "10.9.9.9")] == ["eth0", "lo", ""]
    assert code_versions() == code_versions()
    assert len(code_versions().code) == 12


def written(home: Home, text: str) -> Home:
    home.clusters.write_text(text)
    home.clusters.chmod(0o600)
    return home


def names_and_states(findings: Iterator[Finding]) -> list[tuple[str, str]]:
    return [(one.name, one.state) for one in findings]


def test_the_check_of_a_cluster_ends_at_the_first_thing_that_a_job_needs(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownName, match="other"):
        list(examine_cluster(written(home, f'[lab]\nshared = "{tmp_path}"\ncores = 2\n'), "other", 1))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert names_and_states(examine_cluster(home, "lab", 1)) == [("configuration", "ok"), ("commands", "fail")]
    assert names_and_states(examine_cluster(written(home, "[lab]\ncores = 2\n"), "lab", 1)) == [
        ("configuration", "fail")
    ]
    home.clusters.chmod(0o666)
    assert "chmod 600" in next(examine_cluster(home, "lab", 1)).sentence


@pytest.mark.parametrize(
    ("environment", "state"),
    [({"PATH": "/empty"}, "fail"), ({"SLURM_CONF": "/another"}, "fail"), ({}, "ok")],
)
def test_a_runner_with_another_slurm_than_this_shell_is_told(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], state: str
) -> None:
    """The runner submits the jobs, whatever this shell can do."""
    for name in COMMANDS:
        (tmp_path / name).touch(mode=0o755)
    here = {"PATH": str(tmp_path), "SLURM_CONF": "/this"}
    for name, value in here.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("engine.cluster.doctor.runner_process", lambda home: me())
    monkeypatch.setattr("psutil.Process.environ", lambda process: here | environment)
    found = runner_finding(home)
    assert found and found.state == state
    monkeypatch.setattr("engine.cluster.doctor.runner_process", lambda home: None)
    assert runner_finding(home) is None
