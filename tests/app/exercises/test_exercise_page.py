"""The page Exercises: what a student can do when, and what a teacher sees and orders."""

from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.exercises import prediction_form
from app.exercises.attempt import marked
from app.exercises.prediction_chart import chart, in_words
from app.exercises.prediction_form import read_number
from app.ui.widgets import WITHHELD
from engine.exercises.attempts import close_exercise, hand_in, open_exercise
from engine.exercises.catalogue import ExerciseCatalogue
from engine.home import Home
from engine.store import Reader, Store
from engine.store.timestamps import now
from tests.app.browsing import Client
from tests.app.reading import all_words, give_name, html, opened, said
from tests.exercises.labs import WORKER
from tests.labs import classes, people, small
from tests.labs.museum import visit
from tests.labs.people import sign_in
from tests.waiting import PATIENCE_S


def page(name: str, monkeypatch: pytest.MonkeyPatch | None = None, who: str = "", **query: str) -> AppTest:
    """Open an exercise, as a person whose name is known."""
    if monkeypatch:
        monkeypatch.setattr("app.ui.current_user._given", lambda: who)
    return opened("exercises", {"exercise": name, **query})


def button(test: AppTest, key: str) -> bool:
    """Return whether a button can be pressed."""
    return not test.button(key=key).disabled


def state(home: Home, exercise: str) -> list[str]:
    with Reader.open(home) as reader:
        return [attempt.state for attempt in reader.exercises.attempts(exercise=exercise)]


def test_a_student_predicts_before_the_launch_and_hands_in_after_the_runs(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes.write(home, "accuracy")
    give_name(monkeypatch, "Ada")
    test = page("accuracy")
    assert not button(test, "exercise.accuracy.launch")
    assert "Predict first: then you can launch." in said(test)
    test.button(key="exercise.accuracy.predict").click().run()
    assert "The prediction is incomplete" in said(test) and not state(home, "accuracy")
    assert not test.text_area, "the questions follow the prediction"
    test.text_input(key="exercise.accuracy.number").set_value("many").run()
    assert "Not a number: many" in said(test)
    test.text_input(key="exercise.accuracy.number").set_value("150").run()
    test.button(key="exercise.accuracy.predict").click().run()
    assert "must be from 0 to 100, got 150" in said(test)
    test.text_input(key="exercise.accuracy.number").set_value("90,5").run()
    assert "You predict 90.50 %." in said(test).replace("\\", "")
    test.button(key="exercise.accuracy.predict").click().run()
    assert state(home, "accuracy") == ["predicted"]
    assert "90.50 %" in said(test) and not test.get("exercise.accuracy.number")
    assert not [each for each in test.button if each.key == "exercise.accuracy.predict"], "it can't be changed"
    test.number_input(key="form.exercise.accuracy.learning_rate").set_value(0.5).run()
    assert "learning_rate must be 0.01 to 0.1 in this exercise, got 0.5." in said(test)
    assert not button(test, "exercise.accuracy.launch")
    test.number_input(key="form.exercise.accuracy.learning_rate").set_value(0.02).run()
    test.button(key="exercise.accuracy.launch").click().run()
    assert "form.exercise.accuracy.learning_rate" not in test.session_state, (
        "another attempt begins with the exercise's"
    )
    with Reader.open(home) as reader:
        (attempt,) = reader.exercises.attempts()
        (run_id,) = attempt.runs
        assert reader.runs.one(run_id).config["learning_rate"] == 0.02
    assert "You can hand in when the runs have ended." in said(test)
    classes.play(home, attempt)
    test.run()
    assert "Measured:" in said(test) and "below" in said(test) and "Attempt 1" not in said(test)
    assert "Why no lock" not in html(test), "it would answer the questions"
    test.button(key="exercise.accuracy.hand_in").click().run()
    assert "Each of the 1 questions must have an answer, got 0" in said(test)
    test.text_area(key=f"exercise.accuracy.answer.{attempt.id}.0").input("Noise.").run()
    with Reader.open(home) as reader:
        kept = reader.exercises.attempt(attempt.id)
        assert (kept.drafts, kept.answers) == (("Noise.",), ()), "a draft is in the store"
    run = opened("run", {"run": str(run_id)})
    assert '/exercises?exercise=accuracy">How accurate is it?</a>' in html(run), "the way back"
    assert "Why no lock" not in html(run)
    test = page("accuracy", monkeypatch, "Ada")
    assert test.text_area(key=f"exercise.accuracy.answer.{attempt.id}.0").value == "Noise.", "and survives a reload"
    test.button(key="exercise.accuracy.hand_in").click().run()
    assert state(home, "accuracy") == ["handed in"] and "Handed in by Ada." in said(test)
    assert "Why no lock" in html(test) and "Why no lock" in html(opened("run", {"run": str(run_id)}))
    assert f'href="/run?run={run_id}"' in html(test) and "/run?run" not in said(test), "in the same tab"
    test.segmented_control(key="exercise.accuracy.attempt").set_value(0).run()
    assert not test.text_input(key="exercise.accuracy.number").value
    test.text_input(key="exercise.accuracy.number").set_value("97").run()
    test.button(key="exercise.accuracy.predict").click().run()
    assert state(home, "accuracy") == ["handed in", "predicted"]


def test_a_list_of_allowed_values_is_a_select_box(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    more = classes.ACCURACY.replace("0.01..0.1", "[0.01, 0.05]")
    exercise = classes.write(home, listed=classes.HEAD.format(title="Listed", more=more)).exercise("listed")
    attempt = classes.attempt(home, exercise, 90, "Ada")
    test = page("listed", monkeypatch, "Ada")
    chosen = test.selectbox(key="form.exercise.listed.learning_rate")
    assert (chosen.options, bool(test.number_input)) == (["0.01", "0.05"], False)
    chosen.set_value(0.05).run()
    test.button(key="exercise.listed.launch").click().run()
    with Reader.open(home) as reader:
        (run_id,) = reader.exercises.attempt(attempt.id).runs
        assert reader.runs.one(run_id).config["learning_rate"] == 0.05


@pytest.mark.parametrize(
    ("typed", "value"),
    [("2,5", 2.5), ("30,000", 30_000), ("1,234,567.8", 1_234_567.8), ("0,900", 0.9), ("30,00", 30), ("3,0,0", None)],
)
def test_a_comma_separates_thousands_as_pages_write_them_else_decimals(typed: str, value: float | None) -> None:
    assert read_number(typed) == value


def test_the_fields_of_a_stroke_are_others_than_those_a_slow_browser_still_sends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held: dict[str, Any] = {"it.value.0": "9", "it.draw": {"values": [2.77, None]}}
    monkeypatch.setattr(prediction_form.st, "session_state", held)
    prediction_form._drawn("it", 2)
    held |= {"it.value.0": "8", "it.draw": {"values": [3.0, 4.0]}}
    assert (held["it.value.0#1"], held["it.value.1#1"]) == ("2.77", "")
    prediction_form._drawn("it", 2)
    assert (held["it.value.0#2"], held["it.value.1#2"]) == ("3", "4")


def test_a_curve_is_typed_and_an_order_is_chosen_whole(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    classes.write(home, "speed", "ranking")
    test = page("speed", monkeypatch, "Ada")
    test.text_input(key="exercise.speed.value.0").set_value("2,5").run()
    assert "1 of 2 values to set." in said(test)
    test.text_input(key="exercise.speed.value.1").set_value("3").run()
    test.multiselect(key="exercise.speed.group").set_value(["Alan"])
    test.button(key="exercise.speed.predict").click().run()
    with Reader.open(home) as reader:
        (attempt,) = reader.exercises.attempts(person="Alan")
    assert (attempt.prediction, attempt.people) == (((1.0, 2.5), (2.0, 3.0)), ("Ada", "Alan"))
    assert "2.5, 3 s at trainers 1, 2" in said(test) and "Predicted with Alan" in said(test)
    test = page("ranking", monkeypatch, "Ada")
    chosen = test.multiselect(key="exercise.ranking.order")
    assert "highest test accuracy" in chosen.label
    chosen.set_value(["trainers 4", "trainers 1"]).run()
    assert "1 of 3 to choose." in said(test)
    chosen.set_value(["trainers 4", "trainers 1", "trainers 2"]).run()
    test.button(key="exercise.ranking.predict").click().run()
    assert "trainers 4, then trainers 1, then trainers 2" in said(test)


def test_a_waiting_attempt_has_its_position_and_a_late_one_is_refused(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = classes.write(home, "speed")
    exercise = found.exercise("speed")
    for name in ("Grace", "Ada"):
        attempt = classes.attempt(home, exercise, [(1, 2), (2, 3)], name, changes={})
    test = page("speed", monkeypatch, "Ada")
    assert "Position" in said(test)
    close_exercise(home, "speed", by="Teacher")
    classes.play(home, attempt)
    test.run()
    assert "This exercise was closed by Teacher" in said(test)
    assert not button(test, "exercise.speed.hand_in")
    late = page("speed", monkeypatch, "Zoe")
    assert "so a new attempt is not accepted" in said(late) and not button(late, "exercise.speed.predict")
    assert all(each.disabled for each in [*late.text_input, *late.multiselect]) and late.text_input and late.multiselect
    for name, kind in (("accuracy", "text_input"), ("ranking", "multiselect")):
        classes.write(home, name)
        close_exercise(home, name, by="Teacher")
        closed = page(name, monkeypatch, "Zoe")
        fields = getattr(closed, kind)
        assert fields and all(each.disabled for each in [*fields, *closed.number_input]), name
    open_exercise(home, "speed", by="Teacher")
    assert button(page("speed", monkeypatch, "Ada"), "exercise.speed.hand_in")


def test_a_result_waits_for_the_repeats(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    text = classes.HEAD.format(title="Twice", more=classes.SPEED.replace("repeats: 1", "repeats: 2"))
    exercise = classes.write(home, twice=text).exercise("twice")
    attempt = classes.attempt(home, exercise, [(1, 2), (2, 3)], "Ada", changes={})
    first = {}
    with Reader.open(home) as reader:
        for run in reader.runs.some([*attempt.runs]):
            first.setdefault(run.config["trainers"], run.id)
    for run_id in first.values():
        classes.play(home, replace(attempt, runs={run_id: "queued"}))
    test = page("twice", monkeypatch, "Ada")
    assert "Measured" not in said(test) and "when the runs have ended" in said(test)
    classes.play(home, replace(attempt, runs={run: "queued" for run in attempt.runs if run not in first.values()}))
    assert "mean of at least 2 runs" in said(test.run())


def test_a_class_is_watched_revealed_and_ended(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    exercise = classes.write(home, "speed").exercise("speed")
    done = classes.attempt(home, exercise, [(1, 2), (2, 4)], "Ada", changes={}, people=["Alan"])
    classes.play(home, done)
    classes.attempt(home, exercise, [(1, 1), (2, 1)], "Grace")
    test = page("speed", monkeypatch, "Teacher", view="Class")
    shown = html(test)
    assert "exercise=speed" in shown and "data:image/svg+xml" in shown
    assert "Whoever opens the exercise is its teacher" in said(test) and "Alan" not in shown
    test.button(key="exercise.open").click().run()
    with Reader.open(home) as reader:
        assert reader.exercises.state("speed").opened_by == "Teacher"
    shown = html(test)
    assert shown.count("<tr>") == 4 and "with Alan" in shown and "on average" in shown
    assert "Reveal results" in [each.label for each in test.toggle]
    student = page("speed", monkeypatch, "Grace", view="Class")
    assert "Students" not in said(student) and not student.get("button_group") and "Alan" not in html(student)
    overview = opened("exercises")
    assert "Alan" not in html(overview) and not [each for each in overview.button if each.key == "exercises.end"]
    test = page("speed", monkeypatch, "Teacher", view="Class")
    test.button(key="exercise.close").click().run()
    assert "was closed by Teacher" in said(test)
    board = opened("exercises")
    assert "handed in" not in html(board) and "Alan" in html(board)
    assert button(board, "exercises.end")

    def script() -> None:
        from app.exercises import teacher

        teacher.ask_end(["speed"])

    AppTest.from_function(script, default_timeout=PATIENCE_S).run().button(key="exercises.end.now").click().run()
    with Reader.open(home) as reader:
        assert not reader.exercises.attempts() and len(reader.exercises.attempts(earlier_classes=True)) == 2
        assert not reader.exercises.state("speed").opened_by, "the next teacher may open it"
    assert "under Earlier classes" in said(page("speed", monkeypatch, "Teacher", view="Class"))
    after = opened("exercises")
    (fold,) = (each for each in after.expander if each.label == "Earlier classes")
    assert "Alan" in str([each.proto for each in fold.get("html")]), "its table stays"
    assert [each.label for each in fold.get("download_button")] == ["Export CSV", "Export runs"]
    assert not [each for each in after.button if each.key == "exercises.end"]
    monkeypatch.setattr("app.ui.current_user._given", lambda: "Grace")
    assert not [each for each in opened("exercises").expander if each.label == "Earlier classes"]


def test_the_end_of_a_class_says_what_there_is_and_keeps_accounts_where_asked(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.people(home)
    exercise = classes.write(home, "speed").exercise("speed")
    classes.play(home, classes.attempt(home, exercise, [(1, 2), (2, 4)], "mo", changes={}))
    sign_in(home, monkeypatch, "ada")

    def script() -> None:
        from app.exercises import teacher

        teacher.ask_end(None)

    def asked() -> AppTest:
        return AppTest.from_function(script, default_timeout=PATIENCE_S).run()

    assert "All exercises are closed. 2 runs of 1 student are archived. Predictions" in said(asked())
    classes.attempt(home, exercise, [(1, 1), (2, 1)], "mia", changes={})
    test = asked()
    assert "2 runs are cancelled; 4 runs of 2 students are archived." in said(test)
    assert test.toggle(key="exercises.end.disable").value and "are disabled: they can't sign in" in said(test)
    test.toggle(key="exercises.end.disable").set_value(False).run()
    assert "can still sign in" in said(test) and not test.multiselect
    test.button(key="exercises.end.now").click().run()
    with Reader.open(home) as reader:
        assert not reader.exercises.attempts() and all(each.active for each in reader.people.everyone())
    assert "cancelled" not in said(asked()) and "archived" not in said(asked()), "no runs are left"


def test_a_deadline_is_there_to_change_and_is_removed_by_its_own_button(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes.write(home, "speed")
    open_exercise(home, "speed", by="Teacher", deadline="2099-01-01 12:00")

    def deadline() -> str | None:
        with Reader.open(home) as reader:
            return reader.exercises.state("speed").deadline

    test = page("speed", monkeypatch, "Teacher", view="Class")
    assert str(test.datetime_input[0].value).startswith("2099-01-01 12:00")
    assert "How fast is it?</a>: Opened by Teacher, until 2099-01-01 12:00 UTC." in html(opened("home"))
    assert "<span>Opened by Teacher, until" in html(test), "presented with the QR code"
    test.button(key="exercise.open").click().run()
    assert deadline() == "2099-01-01T12:00:00.000Z", "a press without a change keeps it"
    assert "until 2099-01-01 12:00 UTC" in said(page("speed", monkeypatch, "Ada")), "its students see it"
    monkeypatch.setattr("app.ui.current_user._given", lambda: "Teacher")
    test.button(key="exercise.endless").click().run()
    assert deadline() is None and test.datetime_input[0].value is None
    test.button(key="exercise.open").click().run()
    assert "Choose a deadline first." in said(test)


def test_whether_the_class_goes_first_is_chosen_with_the_opening_and_later(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes.write(home, "speed")

    def stated() -> tuple[bool, str | None]:
        with Reader.open(home) as reader:
            found = reader.exercises.state("speed")
        return bool(found.class_first), found.deadline

    test = page("speed", monkeypatch, "Teacher", view="Class")
    assert test.toggle[0].label == "Class goes first" and test.toggle[0].value
    assert stated() == (False, None), "nothing before it is opened"
    test.button(key="exercise.open").click().run()
    assert stated() == (True, None)
    open_exercise(home, "speed", by="Teacher", deadline="2099-01-01 12:00")
    for on in (False, True, False):
        test.run().toggle[0].set_value(on).run()
        assert test.toggle[0].value is on and stated() == (on, "2099-01-01T12:00:00.000Z"), "the deadline stays"


def test_home_leaves_out_the_runs_of_an_open_exercise_until_one_has_predicted(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    exercise = classes.write(home, "speed").exercise("speed")
    open_exercise(home, "speed", by="Teacher")
    classes.play(home, classes.attempt(home, exercise, [(1, 2), (2, 4)], "Ben", changes={}))
    (running, _) = classes.attempt(home, exercise, [(1, 1), (2, 1)], "Cleo", changes={}).runs
    with Store.open(home) as store:
        assert store.claims.claim(running, WORKER, ())

    def at(who: str | None) -> str:
        monkeypatch.setattr("app.ui.current_user._given", lambda: who)
        return all_words(opened("home"))

    for who in ("Ada", None):
        shown = at(who)
        assert "Runs of exercises that you have not predicted are left out below." in shown
        assert "Nothing running." in shown and "No finished runs yet." in shown and "No runs ended" in shown
    for who in ("Teacher", "Ben"):
        shown = at(who)
        assert "left out below" not in shown and "2 runs ended" in shown
        assert "Nothing running." not in shown and "No finished runs yet." not in shown
    query = {"since": "2000-01-01T00:00:00.000Z", "without": "speed"}
    news = Client().get("/api/home", params=query).json()["slots"]
    assert "No runs ended" in news["home-news"] and "Nothing running" in news["home-now"]
    classes.attempt(home, exercise, [(1, 2), (2, 4)], "Ada")
    assert "2 runs ended" in at("Ada")
    close_exercise(home, "speed", by="Teacher")
    assert "2 runs ended" in at("Dan")
    assert "2 runs ended" in Client().get("/api/home", params=query).json()["slots"]["home-news"], (
        "only open ones count"
    )


def test_predictions_and_results_are_one_chart(home: Home) -> None:
    found = classes.write(home, "speed", "ranking", "accuracy")
    speed, ranking, accuracy = map(found.exercise, ("speed", "ranking", "accuracy"))
    curves = [("Ada", ((1.0, 2.0), (2.0, 3.0))), ("Grace", ((1.0, 4.0), (2.0, 5.0)))]
    figure, colours = chart(speed, curves, [((1.0, 2.0), (2.0, 2.5)), ((1.0, 4.0), (2.0, 3.5))])
    assert [(trace["name"], trace["y"]) for trace in figure["data"]] == [
        ("Ada", [2.0, 3.0]),
        ("Grace", [4.0, 5.0]),
        ("Measured, mean of 2", [3.0, 3.0]),
    ]
    unnamed = chart(speed, curves, [], named=False)[0]["data"]
    assert "Ada" not in str(unnamed) and [each["y"] for each in unnamed] == [[2.0, 3.0], [4.0, 5.0]]
    order = ("trainers 4", "trainers 1", "trainers 2")
    (same, measured) = chart(ranking, [("Ada", order), ("Grace", order)], [order])[0]["data"]
    assert (same["name"], same["y"], measured["y"]) == ("Ada, Grace", [2.0, 3.0, 1.0], [2.0, 3.0, 1.0])
    points, line = chart(accuracy, [("Ada", 95.0), ("Grace", 90.0)], [96.0], named=False)[0]["data"]
    assert (points["y"], line["y"], colours[-1]) == ([90.0, 95.0], [96.0, 96.0], 0)
    assert in_words(speed, None) == "–" and in_words(accuracy, 90.0) == "90.00 %"


def test_answers_keep_their_lines_in_the_table_of_students(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    exercise = classes.write(home, "speed").exercise("speed")
    open_exercise(home, "speed", by="Teacher")
    done = classes.attempt(home, exercise, [(1, 2), (2, 4)], "Ada", changes={})
    classes.play(home, done)
    hand_in(home, done.id, ["First.\nThen <b>more.\n\nLast."], by="Ada")
    assert "1. First.<br>Then &lt;b&gt;more.<br><br>Last." in html(page("speed", monkeypatch, "Teacher", view="Class"))


def test_the_exhibit_of_a_student_follows_the_hand_in(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    exercise = ExerciseCatalogue(home).exercise("museum_counter")
    attempt = classes.attempt(home, exercise, 30_000, "Ada", changes={})
    for run_id in attempt.runs:
        visit(home, run_id, ["unguarded_counter"])
    assert "/museum?exhibit" not in html(page("museum_counter", monkeypatch, "Ada"))
    hand_in(home, attempt.id, ["One.", "Two."], by="Ada")
    shown = html(page("museum_counter", monkeypatch, "Ada"))
    assert "/museum?exhibit=unguarded_counter&amp;by=Ada" in shown


def test_a_broken_file_is_a_sentence_for_the_teacher_alone(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    classes.write(home, "speed", broken="---\ntitle: Broken\nexperiment: hogwilt\n---\nText\n")
    test = opened("exercises")
    assert "exercises/broken.md can't be used." in said(test).replace("**", "")
    assert "predict is missing." in said(test)
    assert "How fast is it?" in html(test)
    assert "9 runs, about 2 min on two idle cores" in html(test), "what Hogwild! takes"
    people.people(home)
    sign_in(home, monkeypatch, "mo")
    assert "broken" not in all_words(opened("exercises"))
    student = opened("exercises", {"exercise": "speed", "view": "Class"})
    assert "Students" not in said(student) and not student.toggle(key="guide.speed").value
    sign_in(home, monkeypatch, "vera")
    assert not button(opened("exercises", {"exercise": "speed"}), "exercise.speed.predict")
    sign_in(home, monkeypatch, "ada")
    teacher = opened("exercises", {"exercise": "speed", "view": "Class"})
    assert html(teacher).count("waiting for prediction") == 2, "the members of the lab"
    assert "Unknown exercise" in said(opened("exercises", {"exercise": "sped"}))


def test_terms_are_marked_once_and_links_open_the_documentation(home: Home) -> None:
    text = marked("A trainer and a trainer.\n\n`gradient`, [gradient](x), staleness, mini-batches")
    assert text.count("#term=trainer") == 1 and "`gradient`" in text and "[gradient](x)" in text
    assert "[staleness](#term=staleness)" in text and "[mini-batches](#term=mini-batch)" in text
    classes.write(home, "speed")
    assert "(/docs?page=experiments/hogwild)" in said(page("speed"))


def test_pages_of_runs_and_sweeps_explain_nothing_before_the_hand_in(home: Home) -> None:
    lab, catalogue = small.fill(home), classes.write(home, "accuracy")
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("DELETE FROM histograms WHERE bucket > 1")  # the mean is below its bound
    explained = {
        ("run", f"run={lab.stale}&section=Overview"): "Why stale:",
        ("run", f"run={lab.stale}&section=Histograms"): "lower, because",
        ("run", f"run={lab.pipeline}&section=Pipeline"): "Recommendation:",
        ("sweep", f"sweep={lab.sweep}&view=Time breakdown"): "Every added rank pays off",
        ("sweep", f"sweep={lab.sweep}&number=Execution time"): "Waiting and communication took",
        ("sweep", f"sweep={lab.sweep}&view=Scaling"): "ranks of 8 trainers waited and communicated",
    }

    def shown(page: str, query: str) -> str:
        return all_words(opened(page, dict(part.split("=") for part in query.split("&"))))

    for place, words in explained.items():
        assert words in shown(*place), place
    attempt = classes.attempt(home, catalogue.exercise("accuracy"), 90.0, "Ada")
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("INSERT INTO attempt_runs SELECT id, ? FROM runs", [attempt.id])
    for place, words in explained.items():
        words_now = shown(*place)
        assert words not in words_now, place
        assert words_now.count(WITHHELD) == 1, place
    assert "With 2 trainers, mean staleness is" in shown("run", f"run={lab.stale}&section=Histograms")
    assert "Fastest" in shown("sweep", f"sweep={lab.sweep}&number=Execution time")
    ids = [lab.stale]
    with Store.open(home) as store:
        store.exercises.close("accuracy", by="Lin")
        assert not store.read.exercises.withholds(ids), "it can't be handed in any more"
        store.exercises.open("accuracy", by="Lin")
        assert store.read.exercises.withholds(ids)
        newer = classes.attempt(home, catalogue.exercise("accuracy"), 91.0, "Ada").id
        assert store.read.exercises.withholds(ids)
        with store.db.change() as connection:
            connection.execute("UPDATE attempts SET handed_in_at = ? WHERE id = ?", [now(), newer])
        assert not store.read.exercises.withholds(ids), "the older attempt was given up"
    for place, words in explained.items():
        assert words in shown(*place), place
