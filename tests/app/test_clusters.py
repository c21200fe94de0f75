"""Runs on clusters in the console: the forms that launch them, and where pages show that they wait or run."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.compare.groups import groups_of
from app.run import live_update
from app.runs.columns import read_column, texts
from engine.analysis.comparability import unlike
from engine.filter import Names
from engine.home import Home
from engine.launch_options import LaunchOptions
from engine.store import Launch, Reader, Store, SweepLaunch
from engine.store.queue.cluster_jobs import JobState
from engine.sweep.launch import launch_sweep
from tests.app.reading import html, opened, said
from tests.app.runs.drawn_table import rows_of
from tests.labs import basic, clusters
from tests.stand_in import worker


@pytest.fixture(autouse=True)
def _browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the browser no cookies; AppTest has none of its own."""
    monkeypatch.setattr("app.ui.current_user._cookies", dict)


def form(page: str = "launch", **query: Any) -> AppTest:
    test = opened(page, query or ({"experiment": "hogwild", "preset": "quick"} if page == "launch" else {}))
    test.session_state["person"] = "Ada"
    assert not test.exception
    return test.run()


def keys(test: AppTest) -> set[str]:
    return {str(one.key) for one in (*test.button_group, *test.number_input, *test.toggle)}


def test_without_clusters_the_form_does_not_ask_where_to_run(home: Home) -> None:
    assert not {"launch.target", "launch.nodes"} & keys(form())


def test_a_run_is_launched_on_a_cluster_with_some_nodes(home: Home, reader: Reader) -> None:
    clusters.write(home)
    test = form(experiment="parameter_server", preset="quick")
    assert test.button_group(key="launch.target").options == ["This machine", "lab"]
    assert "launch.nodes" not in keys(test) and "Estimated start" in html(test)
    test.button_group(key="launch.target").set_value("lab").run()
    assert "no job of this lab waits or runs there now" in said(test) and "Estimated start" not in html(test)
    assert "launch.oversubscribe" not in keys(test) and "CPU (nodes of lab)" in html(test)
    test.number_input(key="launch.nodes").set_value(2).run()
    assert "Options: on lab, 2 nodes." in said(test)
    test.button(key="once.launch").click().run()
    assert reader.runs.one(1).terms == LaunchOptions(target="lab", nodes=2)


def test_nodes_are_asked_for_only_where_a_cluster_has_several(home: Home) -> None:
    clusters.write(home, nodes=1)
    test = form()
    test.button_group(key="launch.target").set_value("lab").run()
    assert "launch.nodes" not in keys(test) and "Slurm decides when it starts" in said(test)


def test_a_wrong_clusters_file_is_explained_before_the_launch(home: Home) -> None:
    clusters.write(home, colour=1)
    test = form()
    assert "cluster lab: Unknown key 'colour'" in test.error[0].value.replace("\\", "")
    assert str(home.path) not in test.error[0].value.replace("\\", "")
    assert "launch.target" not in keys(test) and not test.button(key="once.launch").disabled


def test_a_run_that_no_node_can_take_is_refused_before_the_launch(home: Home) -> None:
    clusters.write(home)
    test = form(experiment="hogwild", preset="quick", on="lab", set="device:cuda")
    assert test.error and test.button(key="once.launch").disabled


def test_a_run_whose_ranks_share_memory_is_refused_on_several_nodes(home: Home) -> None:
    clusters.write(home)
    test = form(experiment="hogwild", preset="quick", on="lab", nodes="2")
    assert "Its ranks share memory" in test.error[0].value and test.button(key="once.launch").disabled
    test.number_input(key="launch.nodes").set_value(1).run()
    assert not test.error and not test.button(key="once.launch").disabled


def test_each_run_of_a_sweep_runs_on_the_cluster(home: Home, reader: Reader) -> None:
    clusters.write(home)
    test = form()
    test.button_group(key="launch.target").set_value("lab")
    test.toggle(key="sweep.on.hogwild").set_value(True).run()
    assert "Slurm decides when they start" in said(test) and "Estimated finish" not in html(test)
    test.text_input(key="sweep.values.hogwild.trainers").set_value("1, 2").run()
    test.button(key="once.launch").click().run()
    assert [run.target for run in reader.runs.find()] == ["lab", "lab"]


def test_a_duel_runs_on_the_cluster(home: Home, reader: Reader) -> None:
    clusters.write(home)
    test = form("duel")
    assert "Total run time" in html(test)
    test.button_group(key="launch.target").set_value("lab").run()
    assert "Slurm decides when they start" in said(test) and "Total run time" not in html(test)
    test.button(key="once.duel.launch").click().run()
    assert not test.exception
    assert reader.runs.one(1).terms == LaunchOptions(max_retries=2, target="lab")


def test_a_clone_keeps_where_to_run(home: Home, store: Store) -> None:
    clusters.write(home)
    there, here = clusters.queued(home, nodes=2), basic.add(store, "Ada")
    for run_id, target in ((there, "lab"), (here, "")):
        page = opened("run", {"run": str(run_id)})
        page.button(key=f"clone-{run_id}").click().run()
        assert not page.exception
        assert page.session_state["launch.target"] == target
    test = form(experiment="hogwild", preset="quick", clone=str(there), on="gone")
    assert "Cluster gone is not in this lab's clusters.toml" in said(test)
    assert test.session_state["launch.target"] == ""


def test_a_waiting_run_says_what_slurm_says_and_has_no_estimated_start(home: Home, store: Store) -> None:
    clusters.write(home)
    run_id, other = clusters.queued(home, nodes=2), clusters.queued(home)
    query = {"run": str(run_id)}
    assert "To be submitted to lab." in said(opened("run", query))
    clusters.submitted(store, run_id)
    test = opened("run", query)
    assert "Waits on lab: Resources (no free nodes)." in said(test) and "Expected" not in said(test)
    assert "on lab, 2 nodes" in said(test)
    assert f"{100 + run_id}: PENDING, Resources (no free nodes)" in html(test)
    notes = {row["key"]: row["Status"]["note"] for row in rows_of(opened("runs"))}
    assert notes == {
        f"run-{run_id}": "position 1: waits on lab: Resources (no free nodes)",
        f"run-{other}": "position 2: to be submitted to lab",
    }
    found = html(opened("home"))
    assert "waits on lab: Resources" in found and "2 queued" in found and "empty" in found


def test_a_change_of_the_jobs_state_redraws_the_page(home: Home, store: Store, reader: Reader) -> None:
    clusters.write(home)
    run_id = clusters.queued(home)
    clusters.submitted(store, run_id, reason="Priority")
    before = live_update.standing(home, run_id, "Overview").token
    job = clusters.job_of(store, run_id)
    store.cluster_jobs.seen([(job, JobState(job.job_id, "PENDING", "Resources"))])
    assert live_update.standing(home, run_id, "Overview").token != before


def test_a_run_on_a_cluster_is_listed_where_runs_are_and_holds_nothing_here(home: Home, store: Store) -> None:
    clusters.write(home)
    run_id = clusters.queued(home)
    clusters.submitted(store, run_id)
    clusters.started(store, run_id)
    test = opened("run", {"run": str(run_id)})
    assert f"{100 + run_id}: RUNNING" in html(test) and "n1" in html(test)
    assert "on lab" in html(opened("home"))
    assert rows_of(opened("runs"))[0]["Status"]["note"].startswith("on lab, ")
    machine_page = html(opened("machine"))
    assert "Runs on clusters" in machine_page and "0 of " in machine_page
    store.claims.end(run_id, "finished", "Completed successfully")
    store.cluster_jobs.remove(clusters.job_of(store, run_id))
    ended = html(opened("run", {"run": str(run_id)}))
    assert "Runs on" in ended and str(100 + run_id) in ended and "RUNNING" not in ended


def test_a_sweep_on_a_cluster_has_no_estimated_finish(home: Home) -> None:
    clusters.write(home)
    sweep_id = launch_sweep(home, SweepLaunch(Launch("hogwild", {}, "Ada", terms=clusters.ON_IT), {"trainers": [1, 2]}))
    test = opened("sweep", {"sweep": str(sweep_id)})
    assert "2 runs left, on lab." in said(test) and "Runs on" in html(test)


def test_runs_are_filtered_listed_and_grouped_by_where_they_run(home: Home, store: Store, reader: Reader) -> None:
    clusters.write(home)
    there, here = clusters.queued(home), basic.add(store, "Ada")
    for written, found in (('target == "lab"', [there]), ('target == "this machine"', [here])):
        assert [run.id for run in reader.runs.find(matching=reader.fields.filter(written))] == found
    column = read_column("target", Names.usual())
    assert (column.label, column.is_timed) == ("Runs on", False)
    assert texts(reader, [there, here], [column])["target"] == {there: "lab", here: "this machine"}
    groups = groups_of(reader.runs.find(), ["target"])
    assert {group.name: [run.id for run in group.runs] for group in groups} == {"lab": [there], "this machine": [here]}


def test_a_run_of_a_cluster_beside_one_of_this_machine_has_other_hardware(home: Home, store: Store) -> None:
    clusters.write(home)
    there, here = clusters.queued(home), basic.add(store, "Ada")
    clusters.submitted(store, there)
    clusters.started(store, there)
    store.claims.claim(here, worker(), [])
    store.worker.begin(here, worker(), {"host": "console", "cpu": "Desk", "cores": 8, "gpus": []})
    found = store.read.studies.surroundings([there, here])
    assert unlike(list(found.values())) == "n1 (2 cores of Node) and console (8 cores of Desk)"
