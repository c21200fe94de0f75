"""A run's result is one number of one definition, wherever it stands, and says which of its values it is."""

import re

import pytest

from app.board_columns import usual
from app.home_best import best_html
from app.home_news import news_html
from app.vitals import tiles
from engine.analysis.ranked import ranked
from engine.cli.show import summary, summary_text
from engine.home import Home
from engine.notices.notice import notice_of
from engine.recorder import Point
from engine.registry import experiment
from engine.store import Demand, RankBatch, Reader, RunRow, Store
from engine.store.sending import Due
from tests.stand_in import worker

REWARD = "charts/episodic_return"
MOMENT = "2020-01-01T00:00:00+00:00"


def add(home: Home, name: str, points: dict[str, list[float]]) -> RunRow:
    """Add a finished run of two ranks that both recorded these values."""
    config = experiment(name).configure("quick").model_dump(mode="json")
    with Store.open(home) as store, Reader.open(home) as reader:
        run_id = store.add_run(name, config, owner="ada", demand=Demand(2, 0, 1, 1), preset="quick")
        store.claim(run_id, worker(), ())
        store.begin(run_id, worker(), {})
        store.mark_running(run_id, 0.5)
        batches = [[Point(metric, step, value, float(step)) for metric, values in points.items() for step, value in enumerate(values, 1)]] * 2
        store.write(run_id, [RankBatch(rank, batch) for rank, batch in enumerate(batches)])
        store.end(run_id, "finished", "It finished.", execution_time_s=200.0)
        return reader.entry(run_id)


def plain(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", html))


@pytest.mark.parametrize(
    ("name", "points", "said", "number"),
    [
        ("batched_reinforce", {REWARD: [20.0, 100.0, 500.0, 480.0]}, "episode reward 275 (mean over the run)", 275.0),
        ("dppo", {REWARD: [20.0, 500.0], "test/episodic_return": [480.0, 500.0, 470.0]}, "evaluation reward 470 (last)", 470.0),
        ("hogwild", {"test/accuracy": [90.0, 97.25, 95.0]}, "test accuracy 95 % (last)", 95.0),
    ],
)
def test_a_result_is_the_same_number_everywhere_and_says_which_it_is(home: Home, name: str, points: dict[str, list[float]], said: str, number: float) -> None:
    run = add(home, name, points)
    found = ranked(run)
    assert found is not None
    assert (found.value, found.words) == (number, said)
    label, _, statistic = said.partition(f" {number:g}")
    statistic = statistic.rpartition("(")[2].rstrip(")")
    with Reader.open(home) as reader:
        top = plain(tiles(reader.summaries(run.id), run))
        assert top.strip().startswith(f"Result: {label} {number:g}") and statistic in top
        best = plain(best_html(reader))
        assert f"{number:g}" in best and f"{label}, {statistic}" in best
        assert said in plain(news_html(reader, MOMENT))
        assert f"Result: {said}." in summary_text(summary(reader, run.id))
        notice = notice_of(reader, Due(1, "k", "run", run.id, None, None, MOMENT, 1, 1, "json", "ada", ""))
    assert dict(notice.facts)["Result"] == said
    assert notice.data["run"]["result"] == {"metric": found.result.metric, "statistic": found.result.of, "value": number}


def test_what_scatters_episode_by_episode_is_told_by_its_mean(home: Home) -> None:
    run = add(home, "dppo", {REWARD: [20.0, 100.0, 500.0], "test/episodic_return": [480.0]})
    with Reader.open(home) as reader:
        assert "Episode reward 206.7 mean over the run; best 500" in plain(tiles(reader.summaries(run.id), run))
    assert [name for name in usual([REWARD, "test/accuracy"]) if "/" in name] == [
        "test/accuracy.last",
        "test/accuracy.best",
        f"{REWARD}.mean",
        f"{REWARD}.best",
    ]


def test_a_run_of_an_unknown_experiment_has_no_result(home: Home) -> None:
    run = add(home, "hogwild", {"test/accuracy": [90.0]})
    with Store.open(home) as store, store.change() as connection:
        connection.execute("UPDATE runs SET experiment = 'gone'")
    with Reader.open(home) as reader:
        assert ranked(reader.entry(run.id)) is None
        assert "Test accuracy 90 % last; best 90" in plain(tiles(reader.summaries(run.id), reader.entry(run.id)))
