"""The animated message flows of the launch page, and its ready-made sweeps."""

import re
from itertools import pairwise

import pytest

from app.launch.message_flow import FlowMessage, in_words, scene
from engine.config_values import read_values
from engine.experiment import Experiment
from engine.home import Home
from engine.registry import experiment, experiments
from engine.store import Launch, Reader, SweepLaunch
from engine.sweep.plan import plan
from tests.app.reading import html, in_form, opened, said

each = pytest.mark.parametrize("one", experiments(), ids=lambda one: one.name)
many = pytest.mark.parametrize("count", [None, 1, 2, 3, 4, 6, 7, 64])


@many
@each
def test_a_scene_stays_in_its_view_and_its_cycle(one: Experiment, count: int | None) -> None:
    drawn = scene(one.pattern, count)
    for node in drawn.nodes:
        assert 0 <= node.at[0] <= 320
        assert 13 <= node.at[1] <= drawn.height - 13
        assert all(0 <= moment <= 0.99 for moment in (*node.flashes, *node.clashes))
    for message in drawn.messages:
        assert 0 <= message.start < message.until <= 0.99


@many
@each
def test_every_message_ends_at_a_node_and_none_is_sent_before_its_cause(one: Experiment, count: int | None) -> None:
    drawn = scene(one.pattern, count)
    places = [node.at for node in drawn.nodes]

    def near(at: tuple[float, float]) -> bool:
        return any(abs(at[0] - x) <= 1 and abs(at[1] - y) <= 10 for x, y in places)

    assert all(near(message.target) for message in drawn.messages)
    forward = [message for message in drawn.messages if message.sort != "reply"]
    replies = [message for message in drawn.messages if message.sort == "reply"]
    if one.pattern in ("batched server", "batched requests", "queue"):
        assert max(message.start for message in forward) < min(message.start for message in replies)


def test_a_batched_server_answers_all_trainers_at_once_and_an_asynchronous_one_each_by_its_own_push() -> None:
    batched, single = scene("batched server"), scene("asynchronous server")
    assert len({message.start for message in _replies(batched.messages)}) == 1
    starts = [message.start for message in _replies(single.messages)]
    assert len(set(starts)) == len(starts) == 6


@pytest.mark.parametrize(
    ("count", "labels"),
    [
        (1, ["trainer 1"]),
        (2, ["trainer 1", "trainer 2"]),
        (6, [f"trainer {number}" for number in range(1, 7)]),
        (64, [*(f"trainer {number}" for number in range(1, 6)), "… trainer 64"]),
    ],
)
def test_as_many_trainers_are_drawn_as_the_form_says_up_to_six(count: int, labels: list[str]) -> None:
    drawn = scene("shared memory", count)
    assert [node.label for node in drawn.nodes if node.kind == "process"] == labels
    heights = [node.at[1] for node in drawn.nodes if node.kind == "process"]
    assert all(after - before >= 42 for before, after in pairwise(heights)), "labels don't overlap"
    assert bool([node for node in drawn.nodes if node.clashes]) == (count > 1)


def test_each_process_has_the_name_of_its_role() -> None:
    for one in experiments():
        config = one.configure(None, {})
        kind = next(iter(one.counts.values()), "")
        roles = {role.rstrip("0123456789") for role in config.roles}
        labels = {node.label.rstrip(" 0123456789") for node in scene(one.pattern, None, kind).nodes}
        assert roles & labels, "the run's pages name the processes by their roles"


def test_two_writes_to_one_cell_of_shared_memory_collide() -> None:
    cells = [node for node in scene("shared memory").nodes if node.clashes]
    targets = [message.target for message in scene("shared memory").messages]
    assert cells
    assert all(targets.count(cell.at) == 2 for cell in cells)


def test_the_last_stage_turns_each_micro_batch_round() -> None:
    drawn = scene("stages").messages
    arrivals = [message.until for message in drawn if message.sort == "forward" and message.target[0] == 250]
    returns = [message.start for message in drawn if message.sort == "reply" and message.origin[0] == 250]
    assert len(arrivals) == len(returns) == 4
    assert max(arrivals) <= min(returns)  # as GPipe does: all forward passes first


@each
def test_the_picture_has_its_flows_as_words(one: Experiment) -> None:
    assert all(flow.what in in_words(one.flows) for flow in one.flows)
    assert len(one.tagline) <= 45


@each
def test_a_ready_made_sweep_breaks_no_rule(one: Experiment) -> None:
    for ready in one.ready_sweeps:
        config = one.configure(ready.preset, ready.changes)
        grid = {name: read_values(one.config, name, text) for name, text in ready.over.items()}
        base = {name: value for name, value in config.model_dump().items() if name not in grid}
        planned = plan(SweepLaunch(Launch(one.name, base), grid, ready.seeds, exclusive=ready.is_timed))
        assert len(planned.cells) >= 2 * ready.seeds


def _replies(messages: tuple[FlowMessage, ...]) -> list[FlowMessage]:
    return [message for message in messages if message.sort == "reply"]


def test_ready_made_sweeps_are_offered_unless_a_link_brought_the_form(home: Home) -> None:
    def offered(**query: str) -> bool:
        return any(str(button.key).startswith("ready.") for button in opened("launch", query).button)

    assert offered()
    assert not offered(experiment="hogwild", preset="quick", set="trainers:4")


def test_each_ready_made_sweep_fills_the_form_and_the_next_one_replaces_it(home: Home) -> None:
    page = opened("launch", {})
    for one in experiments():
        for ready in one.ready_sweeps:
            page.button(key=f"ready.{one.name}.{ready.question}").click().run()
            assert not page.exception
            shown = in_form(page)
            assert shown[f"sweep.purpose.{one.name}"] == ("Timing" if ready.is_timed else "Learning")
            assert {name: shown[f"sweep.values.{one.name}.{name}"] for name in ready.over} == dict(ready.over)


def test_the_contest_has_equal_total_work_and_any_ready_made_sweep_a_lesson_size(home: Home) -> None:
    page = opened("launch")
    (contest,) = experiment("batched_reinforce").ready_sweeps
    page.toggle(key="launch.lesson").set_value(True).run()
    page.button(key=f"ready.batched_reinforce.{contest.question}").click().run()
    assert page.session_state["sweep.equal.batched_reinforce"]
    assert page.session_state["sweep.purpose.batched_reinforce"] == "Learning"
    assert page.number_input(key="sweep.seeds.batched_reinforce").value == 1
    assert "unequal" not in said(page).lower()
    assert "; 4 runs, one of each value: about 2 min on two idle cores." in said(page)
    labels = [button.label for button in page.button if str(button.key).startswith("ready.")]
    assert "Batching against per call :small[(2 min)]" in labels
    assert all(re.search(r":small\[\(\d+ (s|min)\)\]$", label) for label in labels), "each says how long it takes"
    page.toggle(key="launch.lesson").set_value(False).run()
    assert "; at least 25 runs, one at a time: about 12 min on two idle cores." in said(page)


def test_a_ready_made_sweep_has_one_estimate_and_is_named_by_its_question(home: Home, reader: Reader) -> None:
    page = opened("launch")
    page.session_state["person"] = "Ada"
    page.toggle(key="launch.lesson").set_value(True).run()
    page.button(key="ready.pipeline.Where did the bubble go?").click().run()
    assert "; 4 runs, one of each value: about 80 s on two idle cores." in said(page)
    stated = "No similar run has finished on this machine; each is assumed to take 19 s, as on two idle cores."
    assert stated in said(page) and "<span>unknown</span>" not in html(page)
    page.text_input(key="sweep.values.pipeline.mode").set_value("gpipe, 1f1b").run()
    assert "No estimate yet: no similar run has finished on this machine." in said(page)
    page.text_input(key="sweep.values.pipeline.mode").set_value("gpipe, 1f1b, interleaved, zb_h1").run()
    page.button(key="once.launch").click().run()
    assert not page.exception and page.title[0].value.replace("\\", "") == "Sweep 1: Where did the bubble go?"
    assert reader.sweeps.one(1).name == "Where did the bubble go?"
    assert reader.runs.one(1).name == "Where did the bubble go?: mode gpipe, seed 0"


def test_the_lesson_size_says_before_the_launch_which_verdict_needs_more_seeds(home: Home) -> None:
    page = opened("launch")
    page.toggle(key="launch.lesson").set_value(True).run()
    for name, needs in (
        ("fsdp", "3 runs, one of each value; a verdict on test loss needs 3 seeds of each value: about 30 s"),
        ("async_sgd", "6 runs, one of each value; a verdict needs 2 seeds of each value: about"),
    ):
        page.button(key=f"ready.{name}.{experiment(name).ready_sweeps[0].question}").click().run()
        assert needs in said(page)
        page.toggle(key="launch.lesson").set_value(False).run()
        assert "a verdict" not in said(page)
        page.toggle(key="launch.lesson").set_value(True).run()


def test_the_lesson_size_applies_to_the_sweep_in_the_form_and_back(home: Home) -> None:
    page = opened("launch")
    (contest,) = experiment("batched_reinforce").ready_sweeps
    page.button(key=f"ready.batched_reinforce.{contest.question}").click().run()
    for is_lesson, purpose in ((True, "Learning"), (False, "Timing")):
        page.toggle(key="launch.lesson").set_value(is_lesson).run()
        assert in_form(page)["sweep.purpose.batched_reinforce"] == purpose
        assert in_form(page)["sweep.seeds.batched_reinforce"] == (1 if is_lesson else contest.seeds)
        assert in_form(page)["sweep.second.batched_reinforce"] == list(contest.over)[1]


def test_a_sweep_of_the_reference_begins_with_what_it_learns_by() -> None:
    assert experiment("reference").axis == "learning_rate"
