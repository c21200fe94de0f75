"""The results of each published figure, as HTML for the Home page."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from app.core.base_path import at
from app.core.caches import VersionedCache
from app.ui.html import as_cell, entry, joined, link, sweep_link, when
from app.ui.run_state import NO_RUN
from engine.published import FIGURES, SIZES, Figure
from engine.published.comparison import FigureComparison, Result, best_comparison
from engine.store import Reader, Sweep

SHADES: dict[Result, str] = {
    "inside": "finished",
    "outside": "failed",
    "set-up assumed": "running",
    "not comparable": "queued",
}
"""The status whose colour each result has on its own page."""
_compared: VersionedCache[FigureComparison | None] = VersionedCache()


def published_html(reader: Reader) -> Markup:
    """Return an entry for each published figure: its title, its results, and the sweep behind them."""
    sweeps = reader.sweeps.of_figures([figure.key(size) for figure in FIGURES for size in SIZES])
    return joined(
        (
            _entry(figure, [sweep for sweep in sweeps if sweep.figure.partition("/")[0] == figure.name], reader)
            for figure in FIGURES
        ),
        "",
    )


def _entry(figure: Figure, sweeps: Sequence[Sweep], reader: Reader) -> Markup:
    ours = _comparison(figure, sweeps, reader)
    called = link(figure.title, f"{at('/figures')}?figure={figure.name}")
    if ours is None:
        return entry(called, ["no finished runs" if sweeps else NO_RUN, *_active(sweeps)])
    results: list[str] = [as_cell(f"{count} {result}", SHADES[result]) for result, count in ours.counts.items()]
    measured = sweep_link(f"sweep {ours.sweep.id}", ours.sweep.id) + f", {ours.size}"
    words = [*(results or [ours.summary]), measured, f"by {ours.sweep.owner}", when(ours.sweep.created_at)]
    return entry(called, [*words, *_active(sweeps)])


def _active(sweeps: Sequence[Sweep]) -> list[str]:
    """Return the progress of the newest active sweep, if any."""
    active = [sweep for sweep in sweeps if sweep.active][:1]
    return [
        sweep_link(f"sweep {sweep.id}", sweep.id)
        + f" {'paused' if sweep.paused else 'running'}, {sweep.ended} of {sweep.total} runs ended"
        for sweep in active
    ]


def _comparison(figure: Figure, sweeps: Sequence[Sweep], reader: Reader) -> FigureComparison | None:
    """Return the comparison of a figure with its newest sweeps, computed again only when one of their runs has ended or
    was deleted.
    """
    where: Path = reader.db.home.database
    stamp = tuple((sweep.id, sweep.statuses.get("finished", 0), sweep.ended, sweep.total) for sweep in sweeps)
    return _compared.get((where, figure.name), stamp, lambda: best_comparison(reader, figure)) if sweeps else None
