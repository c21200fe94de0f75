"""Experiments of the lab's own in duels, and the reference lines of their sweeps: both follow from their code."""

from pathlib import Path

import pytest

from app.duel.header import strategy_written
from engine.duel.evidence import gather
from engine.duel.launch import DuelLaunch, config_of, facts, launch_duel
from engine.duel.outcome import outcome
from engine.duel.spec import Budget, Duel, Strategy, from_json, pace, read_strategy, ready
from engine.errors import MethodFault
from engine.experiment import Baseline, Pace
from engine.home import Home
from engine.own_methods import template
from engine.registry import experiment
from engine.store import Store

pytestmark = pytest.mark.processes

DUEL = """
    duel=Contender(
        length="epochs", data="all of it", momentum=lambda c: f"none of {c.trainers}", tests="by the first",
        pace=lambda c: Pace(c.trainers, steps_of(c.dataset, c.batch_size), None),
        strategies={"swarm": Ready("Swarm"), "swarm_of_3": Ready("Swarm of 3", {"trainers": 3})},
        given=lambda settings: {"batch_size": settings["trainers"] * 8},
    ),
    scaling=Scaling("trainers", 1, explained="Work divided by trainers.",
        references=lambda start, axis: [Reference("ideal", "dash", tuple(start.execution_time_s / n for n in axis))]),
)
"""


@pytest.fixture
def config(home: Home) -> Path:
    """Make an experiment that takes part in duels; return its `config.py`."""
    folder = home.experiments / "swarm"
    folder.mkdir(parents=True)
    (folder / "method.py").write_text(template.METHOD)
    path = folder / "config.py"
    more = "from engine.plugin import Contender, Pace, Ready, Reference, Scaling, steps_of\n\n\nclass Settings"
    text = template.CONFIG.replace("NAME", "swarm").replace("class Settings", more)
    path.write_text(text.rstrip().removesuffix(")") + DUEL)
    return path


def test_one_is_tuned_and_compared_with_ours_all_of_its_runs_with_one_version(
    home: Home, store: Store, config: Path
) -> None:
    one = read_strategy("Mine=swarm_of_3:threads_per_rank=1")
    duel = Duel((one, ready()["hogwild"]), Budget("passes", 12), {"dataset": "digits", "trainers": 2}, rates=(0.1, 0.3))
    mine, ours = facts(duel)
    assert (mine.processes, mine.samples, mine.length, mine.momentum) == (3, 24, "4 epochs", "none of 3")
    assert (ours.processes, ours.length) == (2, "6 epochs")
    first = experiment("swarm").config.model_fields["code"].default
    duel_id = launch_duel(home, DuelLaunch(duel, "Ada"))
    config.write_text(config.read_text() + "# changed\n")
    assert experiment("swarm").config.model_fields["code"].default != first
    stored = from_json(store.read.duels.one(duel_id).plan)
    later = config_of(stored, stored.strategies[0], 0.1, 0)
    runs = store.read.duels.runs(duel_id)
    codes = {run.config["code"] for own in runs.values() for run in own if run.experiment == "swarm"}
    assert codes == {first} == {later.model_dump()["code"]}, "also those that the runner queues later"
    assert pace(stored.strategies[0], later) == Pace(3.0, 60, None)
    found = outcome(gather(store.read, duel_id))
    assert found.evidence.active and found.evidence.duel == stored
    gone = Strategy("Mine", "swarmed", {"trainers": 3})
    assert strategy_written(gone) == "Mine=swarmed:trainers=3", "its folder is not there any more"


def test_the_lines_of_its_sweeps_are_what_its_code_computes(config: Path) -> None:
    scaling = experiment("swarm").scaling
    assert scaling and (scaling.field, scaling.start) == ("trainers", 1)
    (line,) = scaling.references(Baseline({"trainers": 1}, 12.0), [1, 2, 4])
    assert (line.label, line.times_s) == ("ideal", (12.0, 6.0, 3.0))
    config.write_text(config.read_text().replace("for n in axis", "for n in axis[1:]"))
    scaling = experiment("swarm").scaling
    with pytest.raises(MethodFault, match="The line 'ideal' must have a time for each of the 3 values"):
        scaling and scaling.references(Baseline({"trainers": 1}, 12.0), [1, 2, 4])


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ('"swarm_of_3": R', '"hogwild": R', r"must be called swarm or swarm_… .*, got 'hogwild'"),
        ('length="epochs"', 'length="rounds"', "must be one of its settings, got 'rounds'"),
        ("learning_rate: float", "rate: float", "needs the setting learning_rate, which duels set"),
    ],
)
@pytest.mark.long
def test_one_that_can_not_take_part_is_refused_with_its_cure(config: Path, before: str, after: str, why: str) -> None:
    config.write_text(config.read_text().replace(before, after))
    with pytest.raises(MethodFault, match=why):
        experiment("swarm")


def test_a_budget_that_its_code_can_not_answer_is_a_sentence(config: Path) -> None:
    config.write_text(config.read_text().replace("steps_of(c.dataset, c.batch_size)", "1 / 0"))
    with pytest.raises(MethodFault, match=r"'swarm' can't be used. config.py, line 29: ZeroDivisionError"):
        pace("swarm", experiment("swarm").configure())
