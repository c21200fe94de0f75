"""A duel's entry in a list."""

from html import escape

import streamlit as st

from app.duel.view import name_of
from app.ui.html import duel_link, when
from engine.duel.outcome import amount_in_words
from engine.duel.spec import from_json
from engine.store import StoredDuel
from engine.store.records import ENDED


def entry(stored: StoredDuel) -> None:
    """Show one duel: its name as a link, the budget, who is in it, whose it is."""
    duel = from_json(stored.plan)
    who = " against ".join(one.name for one in duel.strategies)
    left = sum(count for status, count in stored.statuses.items() if status not in ENDED)
    stage = (
        f"{stored.stage}, {left} {'run' if left == 1 else 'runs'} left"
        if left
        else "tuning has ended"
        if stored.stage == "tuning"
        else "ended"
    )
    facts = (
        *([escape(who)] if stored.name else []),
        escape(amount_in_words(duel.budget.kind, duel.budget.amount)),
        f"by {escape(stored.owner)}",
        f"launched {when(stored.created_at)}",
        stage,
    )
    with st.container(border=True, gap="xsmall"):
        spans = "".join(f"<span>{fact}</span>" for fact in facts)
        st.html(f'{duel_link(f"{stored.id}: {name_of(stored, duel)}", stored.id)}<div class="pl-row">{spans}</div>')
