import plotly.graph_objects as go

from app import figures
from engine.metrics import PHASES
from engine.store.records import MachineSample


def test_a_ranks_bar_is_as_long_as_its_time() -> None:
    figure = go.Figure(figures.phases({0: {"compute": 3.0, "wait": 1.0}, 1: {"compute": 2.0}}, {0: "trainer1", 1: "trainer2"}))
    lengths = {role: sum(trace.x[list(trace.y).index(role)] for trace in figure.data) for role in ("trainer1", "trainer2")}
    assert lengths == {"trainer1": 4.0, "trainer2": 2.0}


def test_a_phase_keeps_its_colour_whatever_else_was_recorded() -> None:
    alone, together = figures.phases_shown({0: {"wait": 1.0}}), figures.phases_shown({0: {"wait": 1.0, "compute": 1.0, "mystery": 1.0}})
    assert figures.phase_colours(alone)[0] == figures.phase_colours(together)[together.index("wait")]
    assert together == ["compute", "wait", "mystery"]
    assert len(figures.PATTERNS) >= len(PHASES)


def test_machine_samples_are_drawn_by_source_against_the_runs_seconds() -> None:
    samples = [MachineSample(f"2026-01-01T00:00:0{second}.000Z", source, "cpu_percent", 50.0 + second) for source in ("host", "gpu0") for second in (1, 2)]
    figure = go.Figure(figures.machine(samples, "2026-01-01T00:00:00.000Z", "cpu_percent"))
    assert [(trace.name, list(trace.x)) for trace in figure.data] == [("gpu0", [1.0, 2.0]), ("host", [1.0, 2.0])]
    assert len({trace.line.dash for trace in figure.data}) == 2


def test_a_long_record_of_the_machine_is_thinned() -> None:
    samples = [MachineSample(f"2026-01-01T{n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d}.000Z", "host", "cpu_percent", 1.0) for n in range(5_000)]
    assert len(figures.machine(samples, None, "cpu_percent")["data"][0]["x"]) <= figures.MOST_SAMPLES
