"""The page Museum: what each exhibit is before any run, the newest run of each after it, and the buttons
that launch.
"""

import json
from html import unescape

import pytest
from streamlit.testing.v1 import AppTest

from app.museum import picture
from engine.home import Home
from engine.museum.exhibit import SIGNS, SYSTEMS, sign
from engine.museum.latest_runs import museum
from engine.registry import experiment
from engine.store import Demand, Launch, Reader, Store
from tests.app.reading import html, opened, said
from tests.labs import basic
from tests.labs.museum import queued, visited


def html_of(test: AppTest) -> str:
    return unescape(html(test))


def titles(test: AppTest) -> list[str]:
    return [heading.value.replace("\\", "") for heading in test.subheader]


def test_a_newcomer_sees_every_exhibit_and_one_button_that_runs_all(home: Home, reader: Reader) -> None:
    test = opened("museum")
    assert not test.exception
    assert titles(test) == [found.title for found in SIGNS]
    assert said(test).count("not run yet") == len(SIGNS)
    assert [button.label for button in test.button] == [
        *("Start the runner", "Run all exhibits"),
        *["Run exhibit"] * len(SIGNS),
    ]
    test.session_state["person"] = "Ada"
    test.button(key="once.museum.run.all").click().run()
    assert not test.exception
    assert test.title[0].value == "Museum", "the page stays"
    assert 'href="/docs?page=museum"' in html_of(test)
    assert test.button(key="once.museum.run.all.1").disabled, "another button after each launch"
    run = reader.runs.one(1)
    assert (run.experiment, run.owner, run.config["exhibit"], run.preset, run.demand.cores) == (
        "fault_museum",
        "Ada",
        "all",
        "all",
        2,
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_system_shows_the_cards_of_its_exhibits_in_words(home: Home, system: str) -> None:
    test = opened("museum", {"system": experiment(system).title})
    assert not test.exception
    own = [found for found in SIGNS if found.system == system]
    assert titles(test) == [found.title for found in own]
    shown = html_of(test).replace("<code>", "").replace("</code>", "")
    for found in own:
        assert found.wrong.replace("`", "") in shown and found.right.replace("`", "") in shown
        assert f'href="/museum?exhibit={found.name}"' in shown


def test_a_card_has_the_result_of_the_newest_run_in_a_line_and_leads_to_it(home: Home) -> None:
    visited(home, "all", ["live_reply", "unguarded_counter"], wrong=5.0)
    newest = visited(home, "live_reply", ["live_reply"], wrong=4.0, owner="Grace")
    visited(home, "unguarded_counter", ["unguarded_counter"], wrong=0.0, caught=False)
    test = opened("museum")
    assert "Torn replies: published <strong>4</strong>, corrected <strong>7</strong> fetches" in html_of(test)
    assert f"run {newest}</a> by Grace" in html_of(test)
    assert said(test).count("fault seen") == 1 and said(test).count("fault not seen") == 1
    assert "2 of 24 exhibits have results." in said(test)
    assert [button.key for button in test.button if button.label == "View result"] == [
        "museum.view.live_reply",
        "museum.view.unguarded_counter",
    ]


def test_the_newest_run_of_an_exhibit_is_shown_with_a_switch_between_both_ways(home: Home) -> None:
    visited(home, "all", [found.name for found in SIGNS], wrong=1.0, owner="Grace")
    newest = visited(home, "live_reply", ["live_reply"], wrong=5.0, owner="Ada <b>")
    test = opened("museum", {"exhibit": "live_reply"})
    assert not test.exception
    assert [code.value for code in test.code][:2] == ["TypeError: of the wrong way", "It <must> be 7."]
    assert "<strong>5</strong>" in html_of(test)
    assert f"run {newest}" in html_of(test)
    assert "<b>" not in html(test)
    assert "server.weights" in test.code[2].value
    test.toggle(key="museum.fault.live_reply").set_value(False).run()
    assert "<strong>7</strong>" in html_of(test)
    assert "It holds." in html_of(test)
    assert ["weights.clone()" in code.value for code in test.code] == [True]
    assert "def measure" not in test.code[0].value
    test.toggle(key="museum.whole.live_reply").set_value(True).run()
    assert "def measure" in test.code[0].value


def test_an_exhibit_shows_the_newest_run_of_one_person_and_a_run_has_its_axis(home: Home) -> None:
    mine = visited(home, "unguarded_counter", ["unguarded_counter"], owner="Ada")
    newest = visited(home, "unguarded_counter", ["unguarded_counter"], owner="Ben")
    test = opened("museum", {"exhibit": "unguarded_counter", "by": "Ada"})
    assert f"run {mine}" in html_of(test) and "The newest result of Ada" in said(test)
    assert f"run {newest}" in html_of(opened("museum", {"exhibit": "unguarded_counter"}))
    charts = [
        json.loads(each.proto.json)
        for each in opened("run", {"run": str(mine)}).get("bidi_component")
        if each.proto.json
    ]
    assert {"step": "Steps made"} in [each.get("titles") for each in charts]


def test_a_run_of_the_museum_can_be_cloned(home: Home) -> None:
    run_id = visited(home, "live_reply", ["live_reply"])
    test = opened("run", {"run": str(run_id)})
    assert not test.exception
    form = opened("launch", {"experiment": "fault_museum", "set": ["exhibit:live_reply"]})
    assert not form.exception
    assert not form.warning or "runner" in form.warning[0].value
    assert "Fault museum" in [heading.value for heading in form.header]


def test_a_run_from_before_an_exhibit_changed_is_not_shown_under_its_new_sign(home: Home) -> None:
    visited(home, "live_reply", ["live_reply"], older=True)
    with Reader.open(home) as reader:
        assert museum(reader).visits == {}
    kept = visited(home, "live_reply", ["live_reply"])
    visited(home, "live_reply", ["live_reply"], older=True)
    with Reader.open(home) as reader:
        assert museum(reader).visits["live_reply"].run.id == kept


def test_a_run_that_is_on_is_told_and_what_it_has_shown_is_there_already(home: Home, reader: Reader) -> None:
    visited(home, "all", ["live_reply", "same_seeds"], ended=False)
    queued(home, "mixed_returns")
    found = museum(reader)
    assert set(found.visits) == {"live_reply", "same_seeds"}
    waits = found.shows("mixed_returns"), found.shows("norm_by_micro_batch")
    assert [run.status for run in waits if run] == ["queued", "running"]
    test = opened("museum", {"exhibit": "mixed_returns"})
    assert "queued" in said(test)
    assert test.button(key="once.museum.run.mixed_returns").disabled


def test_one_exhibit_is_run_again_a_fault_not_shown_is_told_and_an_unknown_one_is_a_sentence(
    home: Home, reader: Reader
) -> None:
    test = opened("museum", {"exhibit": "same_seeds"})
    test.session_state["person"] = "Ada"
    test.button(key="once.museum.run.same_seeds").click().run()
    assert reader.runs.one(1).config["exhibit"] == "same_seeds"
    unknown = opened("museum", {"exhibit": "same_seed"})
    assert not unknown.exception
    assert "No exhibit has this name" in said(unknown)
    visited(home, "unguarded_counter", ["unguarded_counter"], wrong=0.0, caught=False)
    test = opened("museum", {"exhibit": "unguarded_counter"})
    assert "fault not seen" in said(test)
    assert test.code[0].value == "The fault did not occur in 1 of 1."


def test_the_way_that_is_switched_on_is_drawn_strong(home: Home, reader: Reader) -> None:
    visited(home, "all", ["sizes_for_counts"])
    outcomes = museum(reader).visits["sizes_for_counts"].outcomes
    drawn = picture(sign("sizes_for_counts"), outcomes, "right")
    assert {trace.name: (list(trace.x), list(trace.y)) for trace in drawn.data} == {
        "published code": ([1, 2, 4], [3.0, 6.0, 12.0]),
        "corrected code": ([1, 2, 4], [7.0, 14.0, 28.0]),
    }
    assert drawn.data[1].line.width > drawn.data[0].line.width
    assert drawn.layout.yaxis.range[0] < 0 < 28 < drawn.layout.yaxis.range[1]


def test_a_run_of_an_experiment_that_is_gone_is_still_shown(home: Home) -> None:
    """Versions before had the experiment `hang_museum`; its runs stay in the store."""
    with Store.open(home) as store:
        config = {"cause": "keep_a_lock", "version": "wrong"}
        launched = store.runs.add(Launch("hang_museum", config, "Ada", "keep_a_lock", demand=Demand(3, 0, 3, 1)))
        basic.drive(store, home, launched, "running")
        store.claims.end(launched, "failed", "trainer2 keeps the lock.")
    test = opened("run", {"run": str(launched)})
    assert not test.exception
    assert "trainer2 keeps the lock." in html_of(test) + said(test)
    assert "Clone" not in [button.label for button in test.button]
    assert not opened("runs").exception and not opened("compare", {"runs": str(launched)}).exception
