"""The shipped exercises: every one is launched as it stands, and its text has what a student needs."""

import re

import pytest

from engine.exercises.attempts import rehearse_exercise
from engine.exercises.catalogue import SHIPPED, ExerciseCatalogue
from engine.home import ROOT, Home
from engine.store import Store

NAMES = sorted(path.stem for path in SHIPPED.glob("*.md"))


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_exercise_would_be_launched(home: Home, store: Store, name: str) -> None:
    exercise = ExerciseCatalogue(home).exercise(name)
    assert rehearse_exercise(home, exercise, by="ada") == max(1, len(exercise.cells)) * exercise.repeats
    for field, change in exercise.change.items():
        for value in change.bounds:
            rehearse_exercise(home, exercise, by="ada", changes={field: value})
    asked = " ".join((exercise.predict.text, *exercise.questions)).lower()
    assert not [field for field in exercise.change if field.split("_")[0] in asked], "a question fixes it"
    assert 100 <= len(exercise.text.split()) <= 250
    assert 1 <= len(exercise.questions) <= 3 and exercise.minutes
    pages = re.findall(r"\]\((docs/[^)]+)\)", exercise.text)
    assert pages
    assert all((ROOT / page).is_file() for page in pages)
    assert exercise.predict.text


def test_each_system_has_one() -> None:
    text = "".join((SHIPPED / f"{name}.md").read_text() for name in NAMES)
    systems = ("hogwild", "async_sgd", "sync_sgd", "parameter_server", "pipeline", "dppo", "batched_reinforce")
    assert all(f"experiment: {system}\n" in text for system in systems)
