"""What became of each published figure here, as HTML for the Home page."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from app.core.base_path import at
from app.core.caches import VersionedCache
from app.ui.html import as_cell, sweep_link, table, when, wide
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
"""Each verdict in the colour that it has on its own page, by the status that has that colour."""
_judged: VersionedCache[Judgement | None] = VersionedCache()


def published_html(reader: Reader) -> str:
    """Return a row for each published figure: what it is, its verdict, and what it was measured by."""
    sweeps = reader.sweeps.of_figures([figure.key(size) for figure in FIGURES for size in SIZES])
    rows = [
        _row(figure, [sweep for sweep in sweeps if sweep.figure.partition("/")[0] == figure.name], reader)
        for figure in FIGURES
    ]
    return table(["Figure", "Verdict", "Measured by"], rows, caption="Published figures and their verdicts")


def _row(figure: Figure, sweeps: Sequence[Sweep], reader: Reader) -> list[str]:
    judged = _judgement(figure, sweeps, reader)
    link = wide(f'<a href="{at("/figures")}?figure={escape(figure.name)}">{escape(figure.title)}</a>')
    if judged and judged.verdict:
        words = (
            f"{sweep_link(f'sweep {judged.sweep.id}', judged.sweep.id)} of {escape(judged.sweep.owner)}, "
            f"{judged.size}, {when(judged.sweep.created_at)}"
        )
        return [link, as_cell(judged.verdict, SHADES[judged.verdict]), wide(", ".join([words, *_under_way(sweeps)]))]
    return [
        link,
        f'<span class="pl-nowrap">{"no verdict yet" if sweeps else "not launched yet"}</span>',
        ", ".join(_under_way(sweeps)) or "–",
    ]


def _under_way(sweeps: Sequence[Sweep]) -> list[str]:
    """Return how far the newest sweep is that goes on, if one does."""
    on = [sweep for sweep in sweeps if sweep.active][:1]
    return [
        (
            f"{sweep_link(f'sweep {sweep.id}', sweep.id)} {'paused' if sweep.paused else 'under way'}, "
            f"{sweep.ended} of {sweep.total} runs ended"
        )
        for sweep in on
    ]


def _judgement(figure: Figure, sweeps: Sequence[Sweep], reader: Reader) -> Judgement | None:
    """Return what the newest sweeps make of a figure, reckoned anew only when a run of theirs has ended or gone."""
    where: Path = reader.db.home.database
    stamp = tuple((sweep.id, sweep.statuses.get("finished", 0), sweep.ended, sweep.total) for sweep in sweeps)
    return _judged.get((where, figure.name), stamp, lambda: best_judgement(reader, figure)) if sweeps else None
