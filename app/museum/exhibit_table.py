"""All exhibits in one table, by system: what each measures, both ways, and who showed it last."""

from collections.abc import Iterator
from html import escape

import streamlit as st

from app.core.base_path import at
from app.ui.html import number, run_link, table, when
from engine.museum.latest_runs import Museum
from engine.registry import experiment
from engine.signs.catalogue import SIGNS, systems
from engine.signs.sign import Sign

HEADERS = ("Exhibit", "Measured", "Published code", "Right way", "Invariant", "Shown by")


def exhibits(found: Museum) -> None:
    """Show the table."""
    st.html(f'<div class="pl-museum">{table(HEADERS, _rows(found), caption="All exhibits")}</div>')


def _rows(found: Museum) -> Iterator[list[str]]:
    for system in systems():
        yield [f"<strong>{escape(experiment(system).title)}</strong>", *[""] * (len(HEADERS) - 1)]
        yield from (_row(found, sign) for sign in SIGNS if sign.system == system)


def _row(found: Museum, sign: Sign) -> list[str]:
    visit, coming, first = found.visits.get(sign.name), found.shows(sign.name), sign.numbers[0]
    link = f'<a href="{at("/museum")}?exhibit={sign.name}">{escape(sign.title)}</a>'
    measured = f"{escape(first.label)}{f' ({escape(first.unit)})' if first.unit else ''}"
    by = f"{coming.status}: {run_link(f'run {coming.id}', coming.id)}" if coming else "nobody yet"
    if visit is None:
        return [link, measured, "–", "–", "–", by]
    if not coming:
        by = (
            f"{run_link(f'run {visit.run.id}', visit.run.id)} by {escape(visit.run.owner)}, "
            f"{when(visit.run.created_at)}"
        )
    ways = [number(visit.outcomes[way].numbers.get(first.key)) for way in ("wrong", "right")]
    return [link, measured, *ways, "catches it" if visit.caught else "fault not seen", by]
