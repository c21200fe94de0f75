"""Recognised numbers on the page of a command's run: sources, and settings for all runs of the script."""

import pytest

from app.run import live_series
from engine.access.rules import Program
from engine.home import Home
from engine.recorder import Point
from engine.script.command import read_command
from engine.store import Demand, Launch, Store
from engine.store.records import RankRow
from tests.app.reading import all_words, give_name, opened
from tests.stand_in import worker

NOTED = {
    "loss": {"source": "printed", "example": "step 1: loss 0.5", "unit": "", "count": 2, "same_as": ""},
    "val/acc": {"source": "TensorBoard", "example": "runs/events", "unit": "", "count": 2, "same_as": ""},
    "acc (printed)": {"source": "printed", "example": "", "unit": "", "count": 0, "same_as": "val/acc"},
}


@pytest.fixture
def runs(home: Home) -> list[int]:
    """Return two finished runs of a script with curves."""
    ids = []
    with Store.open(home) as store:
        for lr in (0.1, 0.2):
            command = read_command(f"python train.py --lr {lr}")
            run_id = store.runs.add(
                Launch("train.py", {"lr": lr}, Program("ada"), demand=Demand(1, 0, 1, 1), command=command)
            )
            store.claims.claim(run_id, worker(), [])
            store.worker.begin(run_id, worker(), {"recognised": NOTED})
            store.worker.add_ranks(run_id, [RankRow(0, "script", 4000, "cpu", "running", 1, None, None)])
            store.worker.mark_running(run_id, 0.1)
            points = [Point(name, 0.5, step, 1.0 * step) for name in ("loss", "val/acc") for step in (1, 2)]
            store.worker.write(run_id, [], points)
            store.claims.end(run_id, "finished", "Completed successfully", execution_time_s=2.0)
            ids.append(run_id)
    return ids


def test_a_number_is_switched_off_and_on_again_for_all_runs_of_its_script(
    home: Home, runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    give_name(monkeypatch, "ada")
    first, second = runs

    def charts() -> dict[str, tuple[str, str]]:
        return {
            each["name"]: (each["unit"], each["better"]) for each in live_series.answer(home, second, [], 0)["metrics"]
        }

    def compared() -> set[str]:
        headings = {
            each.value.strip("*").replace("\\", "")
            for each in opened("compare", {"runs": f"{first}-{second}"}).markdown
        }
        return headings & set(NOTED)

    test = opened("run", {"run": str(first)})
    test.session_state["recognised"] = True
    words = all_words(test.run())
    for said in ("step 1: loss 0.5", "TensorBoard", "Same values as val/acc"):
        assert said in words
    assert [each.label.replace("\\", "") for each in test.toggle] == ["Show loss", "Show val/acc"]
    assert (set(charts()), compared()) == ({"loss", "val/acc"}, {"loss", "val/acc"})

    test.toggle[0].set_value(False).run()
    assert (set(charts()), compared()) == ({"val/acc"}, {"val/acc"})
    assert {each["metric"] for each in live_series.answer(home, second, [], 0)["series"]} == {"loss", "val/acc"}

    next(each for each in test.text_input if each.label == "Unit of loss").set_value("nats").run()
    next(each for each in test.selectbox if each.label == "Better values of loss").set_value("min").run()
    test.toggle[0].set_value(True).run()
    assert not test.exception
    assert charts() == {"loss": ("nats", "min"), "val/acc": ("", "max")}
    assert compared() == {"loss", "val/acc"}
