"""Resuming from a run's page: the button where a run left a checkpoint, under the person's name, and the links both
ways.
"""

import re

import pytest
from streamlit.testing.v1 import AppTest

from app.links.launch import clone_query
from app.run.lineage import _drawn, offspring, tree
from app.run.overview import steps
from engine.errors import ConfigError
from engine.home import Home
from engine.launch import launch, retry
from engine.launch_options import LaunchOptions
from engine.registry import experiment
from engine.store import Launch, Reader, Store
from engine.store.records import Demand, Status
from engine.system.machine import demand, machine
from engine.system.processes import me
from tests.app.reading import give_name, html, opened
from tests.app.runs.drawn_table import table_of
from tests.checkpoints import lay_of


def ended(home: Home, status: Status = "cancelled", *, name: str = "reference", saved: bool = True) -> int:
    """Add a run that ended, with a checkpoint where asked; return its id."""
    config = experiment(name).configure("quick")
    with Store.open(home) as store:
        run_id = store.runs.add(
            Launch(name, config.model_dump(mode="json"), "Ada", "quick", demand=demand(config, machine()))
        )
        store.claims.claim(run_id, me(), [])
        store.worker.begin(run_id, me(), {})
        store.claims.end(run_id, status, "It ended.")
    if saved:
        lay_of(home, run_id, 1200)
    return run_id


def links(test: AppTest) -> dict[str, str]:
    """Return the page's links to runs: the words, and where each leads."""
    return {words: target for target, words in re.findall(r'<a href="([^"]+)">([^<]+)</a>', html(test))}


def can_resume(test: AppTest) -> bool | None:
    """Say whether Resume can be clicked; None where the page has no such button."""
    return next((not button.disabled for button in test.button if button.label == "Resume"), None)


@pytest.mark.parametrize(
    ("status", "name", "saved", "can"),
    [
        *((status, "reference", True, True) for status in ("cancelled", "failed", "lost")),
        ("cancelled", "reference", False, False),
        ("finished", "reference", True, None),
        ("cancelled", "hogwild", True, None),
    ],
)
def test_resume_is_offered_where_a_run_can_go_on(
    home: Home, status: Status, name: str, saved: bool, can: bool | None
) -> None:
    test = opened("run", {"run": str(ended(home, status, name=name, saved=saved))})
    assert not test.exception
    assert can_resume(test) is can


@pytest.mark.parametrize(
    ("name", "saved", "told"),
    [
        (
            "reference",
            True,
            (
                "Resume continues from step 1,200. Retry starts over with the same settings. Clone lets you "
                "change the settings first."
            ),
        ),
        (
            "reference",
            False,
            (
                "Run 1 can't be resumed: it failed before its first checkpoint. Correct what its cause names, and "
                "launch it again. "
                "Retry starts over with the same settings. Clone lets you change the settings first."
            ),
        ),
        ("hogwild", True, "Retry starts over with the same settings. Clone lets you change the settings first."),
    ],
)
def test_what_can_be_done_about_a_run_that_ended_badly_is_said_even_after_a_retry(
    home: Home, name: str, saved: bool, told: str
) -> None:
    run_id = ended(home, "failed", name=name, saved=saved)
    for _ in range(2):
        captions = [str(caption.value).replace("\\", "") for caption in opened("run", {"run": str(run_id)}).caption]
        assert told in captions
        retry(home, run_id, owner="Bea")


def test_retry_says_what_it_will_do_and_opens_the_new_run(home: Home) -> None:
    run_id = ended(home)
    test = opened("run", {"run": str(run_id)})
    button = test.button(key=f"once.retry-{run_id}")
    assert button.help == (
        f"Queues a new run with the same settings at once, from the start, and opens it. Run {run_id} is kept."
    )
    test.session_state["person"] = "Bea"
    shown = links(button.click().run())
    assert shown[f"retries run {run_id} from the start"] == f"/run?run={run_id}"
    assert f"retried as run {run_id + 1}" in links(opened("run", {"run": str(run_id)}))


def test_a_run_of_an_earlier_version_over_gloo_is_shown_and_its_transport_refused(home: Home) -> None:
    config = experiment("parameter_server").configure("quick")
    with Store.open(home) as store:
        settings = config.model_dump(mode="json") | {"transport": "gloo"}
        run_id = store.runs.add(Launch("parameter_server", settings, "Ada", demand=demand(config, machine())))
        store.claims.claim(run_id, me(), [])
        store.worker.begin(run_id, me(), {})
        store.claims.end(run_id, "failed", "It ended.")
    shown = opened("run", {"run": str(run_id)})
    assert not shown.exception
    with Reader.open(home) as reader:
        query = clone_query(reader.runs.one(run_id))
    refusal = r"transport must be one of 'rpc' or 'shared_memory', got 'gloo'\."
    (ignored,) = [each.value for each in opened("launch", query).warning if "transport" in each.value]
    assert re.search(refusal, ignored.replace("\\", "")), ignored
    with pytest.raises(ConfigError, match=refusal):
        retry(home, run_id, owner="Bea")


def test_a_run_that_reached_its_time_limit_says_that_the_limit_goes_with_it(home: Home) -> None:
    config = experiment("hogwild").configure("quick")
    with Store.open(home) as store:
        terms = LaunchOptions(max_run_time_s=90.0)
        run_id = store.runs.add(
            Launch("hogwild", config.model_dump(mode="json"), "Ada", terms=terms, demand=demand(config, machine()))
        )
        store.claims.claim(run_id, me(), [])
        store.worker.begin(run_id, me(), {})
        store.claims.stop_at_limit(run_id)
        store.claims.end(run_id, "cancelled", "Ended at its time limit.")
    (said,) = (
        str(caption.value)
        for caption in opened("run", {"run": str(run_id)}).caption
        if "Retry starts" in str(caption.value)
    )
    assert said.replace("\\", "").endswith("Both keep the time limit of 1 min 30 s; clone the run to change it.")


def test_resume_asks_for_a_name_queues_a_run_under_it_and_links_both(home: Home, reader: Reader) -> None:
    run_id = ended(home)
    test = opened("run", {"run": str(run_id)})
    test.session_state["person"] = "Bea"
    test.button(key=f"once.resume-{run_id}").click().run()
    assert not test.exception
    child = reader.runs.one(run_id + 1)
    assert (child.parent_id, child.owner, child.status, child.experiment, child.preset) == (
        run_id,
        "Bea",
        "queued",
        "reference",
        "quick",
    )
    assert links(opened("run", {"run": str(run_id)})) == {
        "Runs": "/runs",
        f"resumed as run {child.id}": f"/run?run={child.id}",
    }
    assert links(opened("run", {"run": str(child.id)})) == {
        "Runs": "/runs",
        f"resumes run {run_id}": f"/run?run={run_id}",
    }
    with Store.open(home) as store:
        store.worker.go_on_from_parent(child.id, step=1200, time_s=12.5)
    assert links(opened("run", {"run": str(child.id)})) == {
        "Runs": "/runs",
        f"resumes run {run_id} at step 1,200": f"/run?run={run_id}",
    }
    assert links(opened("run", {"run": str(ended(home))})) == {"Runs": "/runs"}


def test_without_a_name_a_resumption_asks_for_it_and_is_carried_out_after(
    home: Home, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = ended(home)
    test = opened("run", {"run": str(run_id)})
    test.button(key=f"once.resume-{run_id}").click().run()
    assert reader.runs.count() == 1
    give_name(monkeypatch, "Bea")
    test.button(key=f"once.resume-{run_id}").click().run()
    assert (reader.runs.count(), reader.runs.one(run_id + 1).owner) == (2, "Bea")


def test_each_run_of_a_chain_is_listed_once_with_how_it_follows(home: Home) -> None:
    first = ended(home)
    second = retry(home, first, owner="Bea")
    with Store.open(home) as store:
        store.runs.cancel(second, by="Bea")
    third = retry(home, second, owner="Bea")
    test = opened("run", {"run": str(second)})
    shown = [words for words, address in links(test).items() if "run?run=" in address]
    assert shown == [f"retries run {first} from the start", f"retried as run {third}"]


def test_a_clone_keeps_its_origin_and_both_pages_name_what_differs(
    home: Home, monkeypatch: pytest.MonkeyPatch, reader: Reader
) -> None:
    give_name(monkeypatch, "ada")
    config = experiment("hogwild").configure("quick").model_dump(mode="json")
    first = launch(home, Launch("hogwild", config, "ada", preset="quick"))
    form = opened("launch", clone_query(reader.runs.one(first)))
    form.number_input(key="form.hogwild.learning_rate").set_value(0.02).run()
    form.button(key="once.launch").click().run()
    (second,) = reader.runs.cloned_as(first)
    assert reader.runs.cloned_from(second) == first and reader.runs.cloned_from(first) is None
    (row,) = (row for row in table_of(opened("runs", {"fold": "false"}))["rows"] if row["key"] == f"run-{second}")
    before, after = config["learning_rate"], 0.02
    assert row["marks"] == [f"clone of {first}"]
    assert row["title"] == f"{row['name']}\nclone of {first}: learning rate {before} → {after}"
    said = f"learning rate {before} → {after})"
    assert f"clone of run {first} ({said}" in html(opened("run", {"run": str(second)}))
    assert "Tree of 2 runs" in [each.label for each in opened("run", {"run": str(second)}).expander]
    assert f"cloned as run {second} ({said}" in html(opened("run", {"run": str(first)}))
    sweep = opened("launch", {"clone": str(second), "experiment": "hogwild", "sweep": "trainers:1, 2", "seeds": "1"})
    assert sweep.button(key="once.launch").label == "Launch sweep"
    sweep.button(key="once.launch").click().run()
    assert len(reader.runs.cloned_as(second)) == 2, "the runs of a sweep too"
    steps_from = {step.label: step.query for step in steps(reader.runs.one(second), reader)}
    assert {query.get("clone") for label, query in steps_from.items() if not label.endswith("Reference")} == {
        str(second)
    }
    with Store.open(home) as store:
        store.runs.cancel(first, by="ada")
        store.db.connection.execute("DELETE FROM runs WHERE id = ?", [first])
    titles = [row["title"] for row in table_of(opened("runs", {"fold": "false"}))["rows"]]
    assert any(title.endswith(f"\nclone of {first}: deleted") for title in titles)
    test = opened("run", {"run": str(second), "tree": "true"})
    assert f"clone of run {first}, which was deleted" in html(test)
    assert f"run {first}, deleted" in html(test) and "cloned as: 2 runs" in html(test)


def test_the_tree_of_a_run_draws_who_came_of_whom_and_says_what_changed_and_what_was_noted(
    home: Home, store: Store
) -> None:
    def add(lr: float = 0.1, **origin: int) -> int:
        return store.runs.add(Launch("hogwild", {"lr": lr}, "Ada", demand=Demand(1, 0, 1, 1), **origin))

    first = add()
    resumed, clone = add(parent_id=first), add(0.2, cloned_from=first)
    further = add(0.3, cloned_from=clone)
    deep = add(0.3, cloned_from=further)
    name = "learning rate 0.05, seed 0, with what tells it from the runs beside it"
    store.annotations.rename(deep, name, by="Ada")
    store.annotations.set_note(clone, "Twice as <b>large</b>.", by="Ada")
    family = store.read.runs.family(deep, 9)
    rows = {row.id: row for row in store.read.runs.some([kin.id for kin in family])}
    drawn = [(node[0].id, *marks) for node, *marks in _drawn(offspring(family, rows))]
    assert drawn == [
        (first, "", False, True),
        (resumed, "t", False, False),
        (clone, "e", False, True),
        (further, " ", True, True),
        (deep, " ", True, False),
    ]
    said = tree(further, family, rows)
    cells = [[re.sub("<[^>]*>", "", cell) for cell in row.split("<td>")[1:]] for row in said.split("<tr>")[2:]]
    assert [(run, change, note) for run, change, _, note in cells] == [
        (f"run {first} Hogwild!, queued", "", ""),
        (f"run {resumed} Hogwild!, queued", "resumed: the same settings", ""),
        (f"run {clone} Hogwild!, queued", "cloned: lr 0.1 → 0.2", "Twice as &lt;b&gt;large&lt;/b&gt;."),
        (f"run {further}, this one Hogwild!, queued", "cloned: lr 0.2 → 0.3", ""),
        (f"run {deep} {name} (Hogwild!), queued", "cloned: the same settings", ""),
    ]
