"""The student's way and the teacher's: predict, launch, hand in; open, close, end, export."""

import csv
import io
import os
import signal
import sqlite3
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.access.rules import Program
from engine.errors import ConfigError, Forbidden, StoreError, UnknownName, WrongStatus
from engine.exercises.attempts import (
    close_exercise,
    end_class,
    hand_in,
    launch_attempt,
    open_exercise,
    predict,
    require_teacher,
)
from engine.exercises.export import class_bundle, class_csv, members
from engine.home import Home
from engine.launch import launch
from engine.store import Launch, Store
from engine.store.timestamps import in_seconds
from engine.system.runner_process import ensure_running, runner_process
from tests.exercises.labs import SINGLE, end, exercise, own
from tests.labs import classes
from tests.waiting import wait_until

ONE = exercise(SINGLE)


def done(home: Home, store: Store, person: str, *others: str, value: float = 96.0) -> int:
    """Return an attempt whose run has ended."""
    attempt_id = predict(home, ONE, 50, people=others, by=person)
    for run_id in launch_attempt(home, attempt_id, {}, by=person).runs:
        end(store, run_id, {"test/accuracy": value})
    return attempt_id


def test_an_attempt_goes_from_prediction_to_hand_in(home: Home, store: Store) -> None:
    predict(home, ONE, 50, by="ben")
    attempt_id = predict(home, ONE, 50, by="ada")
    states = [store.read.exercises.attempt(attempt_id).state]
    (run_id,) = launch_attempt(home, attempt_id, {"batch_size": 16}, by="ada").runs
    assert store.read.runs.one(run_id).config["batch_size"] == 16
    assert store.read.runs.one(run_id).name == "Trainers, attempt 1", "the first one of ada"
    states.append(store.read.exercises.attempt(attempt_id).state)
    with pytest.raises(WrongStatus, match="can't be handed in: it has 1 run to end"):
        hand_in(home, attempt_id, ["Because."], by="ada")
    end(store, run_id, {"test/accuracy": 96.0})
    states.append(store.read.exercises.attempt(attempt_id).state)
    with pytest.raises(ConfigError, match="Each of the 1 questions must have an answer, got 0"):
        hand_in(home, attempt_id, [" "], by="ada")
    hand_in(home, attempt_id, ["Because."], by="ada")
    found = store.read.exercises.attempt(attempt_id)
    assert [*states, found.state] == ["predicted", "waiting", "to hand in", "handed in"]
    assert (found.prediction, found.answers) == (50.0, ("Because.",))
    with pytest.raises(WrongStatus, match="was handed in by ada"):
        hand_in(home, attempt_id, ["No."], by="ada")


def test_a_launch_needs_a_prediction_and_is_made_once(home: Home, store: Store) -> None:
    with pytest.raises(StoreError, match="Attempt 7 doesn't exist"):
        launch_attempt(home, 7, {}, by="ada")
    attempt_id = predict(home, ONE, 50, by="ada")
    with pytest.raises(WrongStatus, match="it was not launched"):
        hand_in(home, attempt_id, ["Because."], by="ada")
    first = launch_attempt(home, attempt_id, {}, by="ada")
    assert launch_attempt(home, attempt_id, {"batch_size": 16}, by="ada") == first, "a second press launches nothing"
    asked = ONE.launch("ada", attempt_id, {})
    assert isinstance(asked, Launch)
    with pytest.raises(WrongStatus, match=r"was launched before\. Begin another attempt"):
        launch(home, asked)
    again = predict(home, ONE, 70, by="ada")
    assert launch_attempt(home, again, {}, by="ada").runs.keys() != first.runs.keys()
    assert [each.prediction for each in store.read.exercises.attempts(person="ada")] == [50.0, 70.0], "all are kept"
    with pytest.raises(sqlite3.IntegrityError, match="a prediction never changes"), store.db.change() as connection:
        connection.execute("UPDATE attempts SET prediction = '60'")


def test_a_group_shares_an_attempt_and_others_may_not_touch_it(home: Home, store: Store) -> None:
    attempt_id = done(home, store, "ada", "ben", " ada ")
    assert store.read.exercises.attempt(attempt_id).people == ("ada", "ben")
    assert [each.id for each in store.read.exercises.attempts(person="ben")] == [attempt_id]
    with pytest.raises(Forbidden, match="Attempt 1 is that of ada, ben; only they can"):
        hand_in(home, attempt_id, ["Mine."], by="carl")
    with pytest.raises(Forbidden):
        launch_attempt(home, predict(home, ONE, 1, by="ada"), {}, by="carl")
    hand_in(home, attempt_id, ["Ours."], by="ben")
    assert store.read.exercises.attempt(attempt_id).handed_in_by == "ben"
    with pytest.raises(ConfigError, match="at most 10 people"):
        predict(home, ONE, 1, people=[f"p{number}" for number in range(10)], by="ada")


def test_after_deadline_or_closing_everything_is_refused_with_a_sentence(home: Home, store: Store) -> None:
    own(home, SINGLE)
    ready, open_before = done(home, store, "ada"), predict(home, ONE, 1, by="ada")
    close_exercise(home, "trainers", by="teacher")
    refusals = (
        (lambda: predict(home, ONE, 1, by="ada"), "a new attempt is not accepted any more"),
        (lambda: launch_attempt(home, open_before, {}, by="ada"), "a launch is not accepted any more"),
        (lambda: hand_in(home, ready, ["Because."], by="ada"), "an answer is not accepted any more"),
    )
    for act, words in refusals:
        with pytest.raises(WrongStatus, match=f"This exercise was closed by teacher at .* UTC, so {words}"):
            act()
    open_exercise(home, "trainers", by="teacher", deadline="2099-01-01 12:00")
    assert store.read.exercises.state("trainers").deadline == "2099-01-01T12:00:00.000Z"
    assert launch_attempt(home, open_before, {}, by="ada").state == "waiting"
    store.exercises.open("trainers", by="teacher", deadline=in_seconds(-1))
    for act, words in (refusals[0], refusals[2]):
        with pytest.raises(WrongStatus, match=f"had its deadline at .*, so {words}"):
            act()
    for deadline, sentence in (("tomorrow", "must be a time such as"), ("2001-01-01", "must be later than now")):
        with pytest.raises(ConfigError, match=sentence):
            open_exercise(home, "trainers", by="teacher", deadline=deadline)
    with pytest.raises(UnknownName):
        open_exercise(home, "trainer", by="teacher")


def test_the_token_grows_with_every_change(home: Home, store: Store) -> None:
    own(home, SINGLE)
    tokens = [store.read.exercises.token()]
    for act in (
        lambda: open_exercise(home, "trainers", by="t"),
        lambda: done(home, store, "ada"),
        lambda: hand_in(home, 1, ["Because."], by="ada"),
        lambda: close_exercise(home, "trainers", by="t"),
        lambda: end_class(home, by="t"),
    ):
        act()
        tokens.append(store.read.exercises.token())
    assert tokens == sorted(set(tokens))


def test_in_a_lab_with_accounts_only_an_admin_is_a_teacher(home: Home, store: Store) -> None:
    own(home, SINGLE)
    for name, role in (("tea", "admin"), ("mo", "member"), ("mia", "member"), ("vera", "viewer")):
        store.people.add(name, role, by=Program("first"))
    with pytest.raises(Forbidden, match="Only admins can open an exercise for a class"):
        open_exercise(home, "trainers", by="mo")
    with pytest.raises(Forbidden, match="Only admins"):
        require_teacher(store.read, "mo")
    require_teacher(store.read, "tea")
    with pytest.raises(Forbidden, match="vera is a viewer"):
        predict(home, ONE, 1, by="vera")
    with pytest.raises(ConfigError, match="nobody has no active account"):
        predict(home, ONE, 1, people=["nobody"], by="mo")
    open_exercise(home, "trainers", by="tea")
    done(home, store, "mo")
    launch_attempt(home, predict(home, ONE, 1, by="tea"), {}, by="tea")
    with pytest.raises(Forbidden):
        end_class(home, by="mo")
    with pytest.raises(ConfigError, match="must name members with an active account, got nobody"):
        end_class(home, by="tea", also=["nobody"])
    rows = list(csv.DictReader(class_csv(store.read, store.read.exercises.attempts()).decode("utf-8-sig").splitlines()))
    assert [(row["person"], row["exercise"], row["state"], row["attempts"]) for row in rows] == [
        ("mia", "trainers", "waiting for prediction", "0"),
        ("mo", "trainers", "to hand in", "1"),
        ("tea", "trainers", "waiting", "1"),
    ], "who has not begun has a row too"
    with pytest.raises(ConfigError, match="also must be empty if accounts are kept, got mia"):
        end_class(home, by="tea", also=["mia"], keep_accounts=True)
    ended = end_class(home, by="tea", also=["mia"])
    assert (ended.archived, ended.cancelled, ended.disabled) == (2, 1, ("mo", "mia"))
    assert {each.name: each.active for each in store.read.people.everyone()} == {
        "tea": True,
        "mo": False,
        "mia": False,
        "vera": True,
    }
    assert not store.read.exercises.attempts()
    earlier = store.read.exercises.attempts(earlier_classes=True)
    assert len(earlier) == 2
    after = list(csv.DictReader(class_csv(store.read, earlier).decode("utf-8-sig").splitlines()))
    assert [(row["person"], row["attempts"]) for row in after] == [("mia", "0"), ("mo", "1"), ("tea", "1")]
    store.people.add("new", "member", by=Program("first"))
    assert members(store.read, earlier[0].class_ended_at) == ["mia", "mo"], "new is of the next class"
    assert not store.read.exercises.state("trainers").is_open
    commands = {entry.command for entry in store.read.audit.entries()}
    assert {"open exercise", "predict", "end class", "disable", "archive"} <= commands
    assert "hand in" not in commands


def test_the_end_of_a_class_keeps_accounts_for_the_next_lesson(home: Home, store: Store) -> None:
    own(home, SINGLE)
    for name, role in (("tea", "admin"), ("mo", "member"), ("mia", "member")):
        store.people.add(name, role, by=Program("first"))
    done(home, store, "mo")
    ended = end_class(home, by="tea", keep_accounts=True)
    assert (ended.archived, ended.disabled) == (1, ())
    assert members(store.read) == ["mia", "mo"]
    earlier = store.read.exercises.attempts(earlier_classes=True)
    assert members(store.read, earlier[0].class_ended_at) == ["mia", "mo"], "all of the class are in its table"


def test_the_export_has_a_row_per_person_and_exercise_that_no_spreadsheet_evaluates(home: Home, store: Store) -> None:
    first = done(home, store, "=ada", "ben", value=40.0)
    hand_in(home, first, ["=1+1"], by="ben")
    predict(home, ONE, 10, by="ben")
    done(home, store, "carl", value=100.0)
    attempts = store.read.exercises.attempts()
    rows = list(csv.DictReader(io.StringIO(class_csv(store.read, attempts).decode("utf-8-sig"))))
    assert [row["person"] for row in rows] == ["'=ada", "ben", "carl"]
    assert [row["state"] for row in rows] == ["handed in", "handed in", "to hand in"], "what was handed in counts"
    assert (rows[1]["group"], rows[1]["attempts"], rows[1]["answers"]) == (
        "'=ada, ben",
        "2",
        "1. =1+1",
    )
    assert (rows[1]["prediction"], rows[1]["result"], rows[1]["distance"]) == ("50.0", "40.0", "25 % above")
    assert (rows[2]["distance_share"], rows[2]["runs"], rows[2]["execution_time_s"]) == ("0.5", "2", "2")
    assert '"batch_size": 32' in rows[2]["settings"]
    file = io.BytesIO()
    assert class_bundle(store.read, attempts, file, by="tea") == 2
    assert "runs.jsonl" in zipfile.ZipFile(file).namelist()
    with pytest.raises(ConfigError, match="at least one run"):
        class_bundle(store.read, [], io.BytesIO(), by="tea")


def test_an_answer_with_a_line_break_is_one_answer_in_the_export(home: Home, store: Store) -> None:
    two = exercise(SINGLE.replace("questions:\n", "questions:\n  - How much?\n"))
    attempt_id = predict(home, two, 50, by="ada")
    for run_id in launch_attempt(home, attempt_id, {}, by="ada").runs:
        end(store, run_id, {"test/accuracy": 96.0})
    hand_in(home, attempt_id, ["Little.\nAs expected.", "Because."], by="ada")
    content = class_csv(store.read, store.read.exercises.attempts()).decode("utf-8-sig")
    (row,) = csv.DictReader(io.StringIO(content))
    assert row["answers"] == "1. Little.\nAs expected.\n2. Because."


def test_two_presses_at_the_same_moment_launch_once(home: Home, store: Store) -> None:
    attempt_id = predict(home, ONE, 50, by="ada")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: launch_attempt(home, attempt_id, {}, by="ada").runs, range(4)))
    assert [list(runs) for runs in found] == [[1]] * 4
    assert store.read.queue.count() == 1


@pytest.mark.long
@pytest.mark.processes
def test_nothing_of_a_class_is_lost_when_its_runner_is_killed_in_the_middle(home: Home, store: Store) -> None:
    played = classes.write(home, "accuracy").exercise("accuracy")
    people = [f"student {number}" for number in range(6)]
    attempts = {person: predict(home, played, 90, by=person) for person in people}
    assert ensure_running(home)
    for person, attempt_id in attempts.items():
        launch_attempt(home, attempt_id, {}, by=person)
    wait_until(lambda: sum(each.has_ended for each in store.read.exercises.attempts()) >= 2, "two runs have ended")
    runner = runner_process(home)
    assert runner
    os.kill(runner.pid, signal.SIGKILL)
    wait_until(lambda: ensure_running(home), "the next runner has started")
    wait_until(lambda: all(each.has_ended for each in store.read.exercises.attempts()), "all runs have ended")
    for person, attempt_id in attempts.items():
        hand_in(home, attempt_id, ["Because."], by=person)
    found = store.read.exercises.attempts()
    assert [(each.people, each.prediction, each.state) for each in found] == [
        ((person,), 90.0, "handed in") for person in people
    ]
    assert {status for each in found for status in each.runs.values()} == {"finished"}
