"""The verdict of each published figure, as HTML for the Home page."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from app.core.base_path import at
from app.core.caches import VersionedCache
from app.ui.html import as_cell, entry, joined, link, sweep_link, when
from app.ui.run_state import NO_RUN
from engine.published import FIGURES, SIZES, Figure
from engine.published.judgement import Judgement, best_judgement
from engine.published.verdict import Verdict
from engine.store import Reader, Sweep

SHADES: dict[Verdict, str] = {
    "reproduced": "finished",
    "set-up assumed": "running",
    "trend only": "running",
    "not reproduced": "failed",
    "too few seeds": "stopping",
    "not comparable": "queued",
}
"""The status whose colour each verdict has on its own page."""
_judged: VersionedCache[Judgement | None] = VersionedCache()


def published_html(reader: Reader) -> Markup:
    """Return an entry for each published figure: its title, its verdict, and the sweep behind it."""
    sweeps = reader.sweeps.of_figures([figure.key(size) for figure in FIGURES for size in SIZES])
    return joined(
        (
            _entry(figure, [sweep for sweep in sweeps if sweep.figure.partition("/")[0] == figure.name], reader)
            for figure in FIGURES
        ),
        "",
    )


def _entry(figure: Figure, sweeps: Sequence[Sweep], reader: Reader) -> Markup:
    judged = _judgement(figure, sweeps, reader)
    called = link(figure.title, f"{at('/figures')}?figure={figure.name}")
    if judged is None or judged.verdict is None:
        return entry(called, ["no verdict yet" if sweeps else NO_RUN, *_active(sweeps)])
    measured = sweep_link(f"sweep {judged.sweep.id}", judged.sweep.id) + f", {judged.size}"
    words = [as_cell(judged.verdict, SHADES[judged.verdict]), measured, f"by {judged.sweep.owner}"]
    return entry(called, [*words, when(judged.sweep.created_at), *_active(sweeps)])


def _active(sweeps: Sequence[Sweep]) -> list[str]:
    """Return the progress of the newest active sweep, if any."""
    active = [sweep for sweep in sweeps if sweep.active][:1]
    return [
        sweep_link(f"sweep {sweep.id}", sweep.id)
        + f" {'paused' if sweep.paused else 'running'}, {sweep.ended} of {sweep.total} runs ended"
        for sweep in active
    ]


def _judgement(figure: Figure, sweeps: Sequence[Sweep], reader: Reader) -> Judgement | None:
    """Return the judgement of a figure by its newest sweeps, computed again only when one of their runs has ended or
    was deleted.
    """
    where: Path = reader.db.home.database
    stamp = tuple((sweep.id, sweep.statuses.get("finished", 0), sweep.ended, sweep.total) for sweep in sweeps)
    return _judged.get((where, figure.name), stamp, lambda: best_judgement(reader, figure)) if sweeps else None
