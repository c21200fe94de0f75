"""Pages on runs that another program recorded, and whose experiment is unknown here."""

from collections.abc import Mapping

import pytest

from app.compare import session_state
from app.links.compare import ids_text
from app.run.live_series import answer
from engine.home import Home
from engine.recorder import Point
from engine.store import Demand, Launch, Store
from engine.system.processes import me
from tests.app.reading import opened
from tests.app.runs.drawn_table import rows_of

AT = session_state._WIDGETS
SINGLE, CURVE, NOISE = "hparam/accuracy", "val/accuracy", "aux/grad"


def foreign(store: Store, points: Mapping[str, int], experiment: str = "pets", **config: object) -> int:
    """Add a finished run of another program with so many points of each metric; return its id."""
    run_id = store.runs.add(Launch(experiment, config, "Ada", demand=Demand(1, 0, 1, 1)))
    store.claims.claim(run_id, me(), [])
    recorded = [
        Point(name, step, 0.5 + run_id / 100, float(step)) for name, count in points.items() for step in range(count)
    ]
    store.worker.write(run_id, [], run_points=recorded)
    store.claims.end(run_id, "finished", "It ended.", execution_time_s=1.0)
    return run_id


@pytest.fixture
def board(store: Store) -> list[int]:
    """Two runs as PyTorch's `add_hparams` leaves them: two curves, one of them telling, and a single value."""
    return [foreign(store, {SINGLE: 1, NOISE: 8, CURVE: 8}, lr=lr) for lr in (0.1, 0.2)]


def test_a_metric_with_one_point_comes_after_curves_on_every_page(home: Home, board: list[int]) -> None:
    test = opened("runs")
    rows = {row["key"]: row for row in rows_of(test)}
    assert rows[f"run-{board[0]}"]["Result"]["hover"] == f"{CURVE} 0.51 (last)"
    assert len(rows[f"run-{board[0]}"]["Trend"]) > 1
    written = test.multiselect(key="columns").value
    assert f"{CURVE}.last" in written and (SINGLE + ".last" not in written or written.index(f"{CURVE}.last") == 1)
    charts = answer(home, board[0], [], 0)["metrics"]
    assert [chart["name"] for chart in charts] == [CURVE, NOISE, SINGLE]
    assert [bool(chart["section"]) for chart in charts] == [False, False, True]
    test = opened("compare", {"runs": ids_text(board), "tab": "bars"})
    assert test.selectbox(key=f"{AT}number").value == f"{CURVE}.last"
    test = opened("compare", {"runs": ids_text(board)})
    assert test.multiselect(key=f"{AT}metrics").options == [CURVE, NOISE, SINGLE]


def test_default_columns_have_the_result_of_each_other_program(home: Home, store: Store) -> None:
    foreign(store, {"val/accuracy": 8, "val/loss": 8})
    foreign(store, {"zeta/score": 8}, "birds")
    foreign(store, {"imported/test/accuracy": 8}, "fish")
    assert {"val/accuracy.last", "zeta/score.last", "imported/test/accuracy.last"} <= {
        *opened("runs").multiselect(key="columns").value
    }
