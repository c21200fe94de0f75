"""Agents by their tokens: what they do is marked, has quotas of its own, and needs a member's permissions at most."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.actions.annotations import marks
from engine.access.agents import HEADER, ActingAgent, acting_agent, acting_through
from engine.access.rules import Program
from engine.commands.lab_settings import change_limits
from engine.errors import ConfigError
from engine.launch import launch
from engine.registry import experiment
from engine.store import Launch, Reader, Store
from engine.store.records import RETRIED
from tests.api.conftest import ONE, Lab, Script
from tests.labs.small import without_a_runner
from tests.stand_in import worker

QUICK = {"experiment": "hogwild", "preset": "quick"}


def agent(lab: Lab, person: str, runs: int | None = None) -> Script:
    with lab.store() as store:
        return Script(store.tokens.make(person, "Claude", "agent", by=person, agent_runs=runs))


def test_what_an_agent_does_is_marked_and_counts_against_its_own_quota_whatever_it_sends(lab: Lab) -> None:
    mo, script = agent(lab, "mo", 2), lab.script("mo", "launch")
    assert mo.told("/me")["agent"] == "Claude" and script.told("/me")["agent"] is None
    one = mo.post("/runs", QUICK, headers={HEADER: ""}).json()["id"]
    sweep = mo.post("/sweeps", {**QUICK, "over": {"trainers": [1, 2]}})
    assert (sweep.status_code, sweep.json()["error"]) == (
        403,
        "Quota of agent Claude: 1 of 2 runs are queued or running; 2 more can't be queued. Wait until some end, or ask "
        "the person for a token with a higher number.",
    )
    assert mo.post("/plan", {**QUICK, "over": {"trainers": [1, 2]}}).status_code == 403
    assert (mo.post("/runs", QUICK).status_code, mo.post("/runs", QUICK).status_code) == (201, 403)
    assert script.post("/runs", QUICK).status_code == agent(lab, "mo").post("/runs", QUICK).status_code == 201
    assert mo.post(f"/runs/{one}/cancel", {}).status_code == 200
    told = mo.told("/quota")
    assert [told[name] for name in ("queued", "agent_runs", "own_agent_runs", "max_own_agent_runs")] == [3, 2, 1, 2]
    change_limits(lab.home, {"max_agent_runs_per_person": 2}, by="ada")
    answer = mo.post("/runs", QUICK)
    assert "Quota of the agents of mo: 2 of 2 runs" in answer.json()["error"]
    assert script.post("/runs", QUICK).status_code == 201
    with Reader.open(lab.home) as reader:
        entries = reader.audit.entries(who="mo")
        marked = [entry.role for entry in entries if entry.command in ("launch", "launch sweep", "cancel")]
        assert {role: marked.count(role) for role in marked} == {"member via agent Claude": 8, "member": 2}
        assert [(event.kind, event.detail) for event in reader.details.events(one)] == [
            ("queued", "2 ranks, 2 cores, 0 GPUs, via agent Claude"),
            ("cancelled", "via agent Claude"),
        ]


def test_runs_of_an_agent_are_marked_in_tables_and_found_by_a_filter(lab: Lab) -> None:
    mo, script = agent(lab, "mo"), lab.script("mo", "launch")
    launched = mo.post("/runs", QUICK).json()["id"]
    reported = mo.post("/reported-runs", {"experiment": "net"}).json()["id"]
    assert mo.told("/quota")["own_agent_runs"] == 1, "a reported run takes none of the runs that it may launch"
    script.post("/runs", QUICK)
    assert {run["id"] for run in script.told("/runs?filter=via%20%3D%3D%20%22Claude%22")["runs"]} == {
        launched,
        reported,
    }
    with Reader.open(lab.home) as reader:
        for run_id, words in ((launched, {"via agent": "Claude"}), (lab.runs["finished"], {})):
            assert marks(reader.runs.one(run_id)) == marks(reader.runs.entry(run_id)) == words


def test_an_agent_of_an_admin_has_the_permissions_of_a_member_and_launches_no_command(lab: Lab, tmp_path: Path) -> None:
    ada, of_mo = agent(lab, "ada"), lab.runs["queued"]
    assert {"set limits", "prefer", "run commands"}.isdisjoint(ada.told("/me")["may"])
    refused = ada.post("/runs", {**QUICK, "terms": {"priority": "high"}})
    assert (refused.status_code, ada.post(f"/runs/{of_mo}/cancel", {}).status_code) == (403, 403)
    assert ada.post(f"/runs/{of_mo}/note", {"text": "mine"}).status_code == 403
    with lab.store() as store:
        store.people.allow("ada", "run commands", by="ada")
    body = {"command": "python train.py", "folder": str(tmp_path)}
    assert "experiments and recipes, not commands" in ada.post("/runs", body).json()["error"]
    assert "missing" not in ada.post("/plan", body).json()["error"]
    with lab.store() as store:
        for scope, runs in (("agent", 0), ("agent", 1_001), ("launch", 4)):
            with pytest.raises(ConfigError, match="agent_runs must be 1 to 1,000, for scope agent"):
                store.tokens.make("mo", "x", scope, by="mo", agent_runs=runs)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="vera is a viewer"):
            store.tokens.make("vera", "x", "agent", by="vera")
        assert [(each.scope, each.agent_runs) for each in store.read.tokens.of("ada")] == [("agent", 4)]


def test_in_a_lab_without_accounts_an_agent_is_the_one_that_a_header_names(open_lab: Lab) -> None:
    without_a_runner(open_lab.home)
    for _ in range(4):
        assert ONE.post("/api/v1/runs", json={**QUICK, "owner": "Ada"}, headers={HEADER: "Claude"}).status_code == 201
    answer = ONE.post("/api/v1/runs", json={**QUICK, "owner": "Ada"}, headers={HEADER: "other"})
    assert "Quota of agent other: 4 of 4" in answer.json()["error"]
    assert Script().post("/runs", {**QUICK, "owner": "Ada"}).status_code == 201
    with Reader.open(open_lab.home) as reader:
        assert [entry.role for entry in reader.audit.entries(limit=3)] == [
            "anyone",
            "anyone via agent other",
            "anyone via agent Claude",
        ]
    with open_lab.store() as store:
        store.people.add("ada", "admin", by=Program("first"))
    nobody = ONE.post("/api/v1/runs", json=QUICK, headers={HEADER: "Claude"})
    assert (nobody.status_code, acting_agent()) == (401, None)


def test_a_retry_of_a_lost_run_counts_as_its_agents(store: Store) -> None:
    config, home = experiment("hogwild").configure("quick").model_dump(mode="json"), store.db.home
    wanted = Launch("hogwild", config, "Ada")
    wanted = replace(wanted, terms=replace(wanted.terms, max_retries=1))
    with acting_through(ActingAgent("Claude")):
        run_id = launch(home, wanted)
    store.claims.claim(run_id, worker(), [])
    store.worker.begin(run_id, worker(), {})
    store.claims.lose(run_id, "Its worker is gone.", resumes=False)
    assert RETRIED in [event.kind for event in store.read.details.events(run_id)]
    assert store.read.quotas.held_by_agents("Ada") == 1


def test_a_dry_run_is_the_launch_itself_and_leaves_nothing(lab: Lab) -> None:
    mo = agent(lab, "mo")
    with Reader.open(lab.home) as reader:
        tables = reader.db.column("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")

        def rows() -> dict[str, int]:
            return {name: reader.db.number(f"SELECT count(*) FROM {name}") for name in tables}

        before = rows()
        told = mo.post("/plan", {**QUICK, "over": {"trainers": [1, 2]}, "seeds": 2, "title": "try"}).json()
        assert (told["runs"], told["over"], told["demand"]["ranks"]) == (4, {"trainers": [1, 2]}, 2)
        assert told["names"][0] == "try: trainers 1, seed 0" and "trainers" not in told["config"]
        told = mo.post("/plan", {**QUICK, "config": {"epochs": 3}}).json()
        assert (told["runs"], told["config"]["epochs"], told["over"], told["owner"]) == (1, 3, {}, "mo")
        refused = mo.post("/plan", {**QUICK, "config": {"epochs": 0}})
        assert refused.json() == mo.post("/runs", {**QUICK, "config": {"epochs": 0}}).json()
        assert rows() == before
        assert mo.post("/plan", {**QUICK, "seeds": 9}).status_code == 403
        assert rows() == before | {"audit": before["audit"] + 1}
