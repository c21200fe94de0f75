"""The file of an exercise: what it says, and a sentence with line, rule and cure for each error."""

import pytest

from engine.errors import ConfigError, UnknownName
from engine.exercises.catalogue import ExerciseCatalogue
from engine.exercises.files import MOST_BYTES, exercise_of, read
from engine.home import Home
from engine.store import Launch, SweepLaunch
from tests.exercises.labs import SINGLE, SWEEP, exercise, own


def problems(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text if isinstance(text, bytes) else text.encode(), "broken")
    return [problem.sentence for problem in caught.value.problems]


def test_a_file_says_what_is_launched_predicted_and_asked() -> None:
    found = exercise()
    assert (found.title, found.experiment, found.preset, found.text) == ("Trainers", "hogwild", "quick", "Think.")
    assert (found.cells, found.axis) == (("trainers 1", "trainers 2", "trainers 4"), "trainers")
    assert (found.predict.label, found.predict.unit) == ("Test accuracy, last (%)", "%")
    assert (found.change["batch_size"].words, found.change["learning_rate"].words) == ("16 to 64", "0.01, 0.05")
    assert len(found.digest) == 64
    assert exercise_of("trainers", found.head, found.text, found.digest) == found, "an attempt keeps the head"


def test_what_is_launched_has_the_changes_that_are_allowed() -> None:
    asked = exercise().launch("ada", 7, {"batch_size": "32"})
    assert isinstance(asked, SweepLaunch)
    assert (asked.shared.attempt_id, asked.shared.config["batch_size"], asked.is_exclusive) == (7, 32, False)
    assert isinstance(exercise(SINGLE).launch("ada", 7, {}), Launch)
    for changes, sentence in (
        ({"batch_size": 8}, "batch_size must be 16 to 64 in this exercise, got 8."),
        ({"learning_rate": 0.02}, "learning_rate must be 0.01, 0.05 in this exercise, got 0.02."),
        ({"epochs": 3}, "epochs is fixed in this exercise, got 3: change only batch_size, learning_rate."),
        ({"batch_size": "many"}, "batch_size must be a whole number (allowed: 1 to 60000), got 'many'."),
    ):
        with pytest.raises(ConfigError) as caught:
            exercise().launch("ada", 7, changes)
        assert str(caught.value) == sentence


def test_a_figure_that_depends_on_time_is_repeated_alone_on_the_machine() -> None:
    timed = SWEEP.replace("test/accuracy.last", "perf/execution_time_s.last")
    (sentence,) = problems(timed)
    assert sentence.startswith("Line 12: perf/execution_time_s.last depends on time. Add time_counts: yes")
    asked = exercise(timed.replace("change:", "time_counts: yes\nchange:")).launch("ada", 7, {})
    assert isinstance(asked, SweepLaunch)
    assert (asked.exclusive, asked.seeds) == (True, 3)
    target = SWEEP.replace("test/accuracy.last", "test/accuracy\n  reaches: 90")
    assert "depends on time" in problems(target)[0]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("hogwild", "hogwidl", "Line 3: Unknown experiment 'hogwidl'. Did you mean 'hogwild'?"),
        ("quick", "quik", "Line 4: Unknown preset 'quik'. Did you mean 'quick'?"),
        ("title", "tilte", "Line 2: Unknown key 'tilte'. Did you mean 'title'?"),
        ("title: Trainers\n", "", "Line 16: title is missing. docs/exercises.md has a table of all keys."),
        ("[1, 2, 4]", "[1, 400]", "Line 6: sweep: trainers must be at most 64"),
        ("  trainers:", "  trainer:", "Line 6: sweep: Unknown setting 'trainer'. Did you mean 'trainers'?"),
        ("preset: quick", "settings: {epochs: 0}", "Line 4: settings: epochs must be at least 1"),
        ("16..64", "64..16", "Line 8: batch_size must be an ascending range such as 0.01..0.1, got 64 to 16."),
        ("16..64", "0..64", "Line 8: change: batch_size must be at least 1"),
        ("  batch_size", "  batch_sizes", "Line 8: Unknown setting 'batch_sizes'. Did you mean 'batch_size'?"),
        ("  batch_size: 16", "  trainers: 1", "Line 8: trainers is varied by the sweep"),
        ("kind: curve", "kind: line", "Line 11: predict.kind must be 'number', 'order' or 'curve', got line."),
        (
            "  trainers: [1, 2, 4]",
            "  trainers: [1]\n  epochs: [1, 2]",
            "Line 12: A curve is drawn over one field of a sweep, got trainers, epochs.",
        ),
        ("  low: 0\n", "", "Line 10: A curve is drawn on a chart from low to high. Add both, low below high."),
        ("kind: curve", "kind: number", "Line 11: A number is that of a single run, or relative: yes of a sweep."),
        ("test/accuracy.last", "test/acuracy.last", "Line 12: Unknown metric 'test/acuracy'. Did you mean 'test/acc"),
        ("accuracy.last", "accuracy.most", "Line 12: Unknown metric"),
        ("accuracy.last", "accuracy", "Line 12: predict.of must be one of test/accuracy.last, test/accuracy.best"),
        ("- Why?", "- Why: so?", "Line 15: questions.0 must be a valid string, got {'Why': 'so?'}. Put quotes"),
        ("Trainers", "Trainers: a", "Line 2: The head must be YAML, got an error: mapping values are not allowed here"),
        ("Trainers", "&a Trainers\nb: *a", "Line 3: The head must not refer to other parts by *"),
        ("Think.\n", "", "Line 17: The text for students is missing. Write it below the second line of ---."),
        ("---\ntitle", "title", "Line 1: The file must begin with a head between two lines of ---"),
    ],
)
def test_each_error_is_a_sentence_with_line_rule_and_cure(before: str, after: str, expected: str) -> None:
    assert before in SWEEP
    found = problems(SWEEP.replace(before, after))
    assert any(sentence.startswith(expected) for sentence in found), found


def test_all_errors_are_told_by_line() -> None:
    text = SWEEP.replace("title", "tilte").replace("curve", "line").replace("questions", "question")
    assert [sentence.split(":")[0] for sentence in problems(text)] == [
        *("Line 2", "Line 11", "Line 15", "Line 17", "Line 17"),
    ]
    bad = SWEEP.replace("16..64", "0..64").replace("[0.01, 0.05]", "[-1]").replace("[1, 2, 4]", "[1, 400]")
    assert [sentence.split(":")[0] for sentence in problems(bad)] == ["Line 6", "Line 8", "Line 9"]


def test_a_file_that_is_no_text_or_too_long_is_refused() -> None:
    assert problems(b"---\n\xff\n---\n")[0].startswith("Line 2: The file must be text in UTF-8")
    assert problems(b"-" * (MOST_BYTES + 1))[0].startswith("Line 1: The file must have at most 100,000 bytes")
    assert problems("---\n- a\n---\nx")[0].startswith("Line 2: The head must have keys with values")
    assert problems("---\ntitle: " + "[" * 5_000 + "\n---\nx")[0].startswith("Line 2: The head must not")


def test_a_file_of_the_home_replaces_a_shipped_one_and_a_broken_one_is_listed(home: Home) -> None:
    shipped = ExerciseCatalogue(home)
    assert len(shipped.listed) >= 10
    assert not any(each.problems for each in shipped.listed.values())
    own(home, SWEEP, "hogwild_trainers")
    own(home, SWEEP, "mine")
    (home.exercises / "broken.md").write_text("nothing")
    found = ExerciseCatalogue(home)
    assert found.exercise("hogwild_trainers").title == "Trainers"
    assert found.listed.keys() - shipped.listed.keys() == {"broken", "mine"}
    assert found.listed["broken"].title == "broken"
    with pytest.raises(ConfigError, match=r"Exercise 'broken' can't be used\. Line 1: The file must begin"):
        found.exercise("broken")
    with pytest.raises(UnknownName, match="mine"):
        found.exercise("mien")
