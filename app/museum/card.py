"""An exhibit of the museum as a card: the fault, the result in a line, and one button, with the details folded."""

import streamlit as st

from app.core.base_path import at
from app.museum.parts import badges, engine_test, launch_button, marked, results_of
from app.ui.html import as_text, block, joined, labelled, link, number, paragraph, strong
from app.ui.widgets import PAGES
from engine.museum.latest_runs import Visit
from engine.signs.sign import Sign
from engine.store.records import RunRow


def card(sign: Sign, visit: Visit | None, coming: RunRow | None) -> None:
    """Show one exhibit with its newest visit; `coming` is an active run that will show it again."""
    st.subheader(as_text(sign.title), anchor=sign.name.replace("_", "-"))
    with st.container(horizontal=True, gap="small"):
        badges(visit, coming)
    st.html(paragraph(marked(sign.wrong)))
    if visit:
        st.html(result(sign, visit))
        if st.button("View result", key=f"museum.view.{sign.name}"):
            st.switch_page(PAGES["museum"], query_params={"exhibit": sign.name})
    else:
        launch_button(sign, visit, coming)
    with st.expander("Details"):
        st.html(
            joined(
                [
                    labelled("Correct behaviour", marked(sign.right)),
                    labelled("Source", sign.source),
                    engine_test(sign),
                    *([results_of(visit)] if visit else []),
                    paragraph(link("Chart and source code", f"{at('/museum')}?exhibit={sign.name}")),
                ],
                "",
            )
        )


def result(sign: Sign, visit: Visit) -> str:
    """Return the value that summarises an exhibit, of both versions, in a line."""
    first = sign.numbers[0]
    published, corrected = (number(visit.outcomes[way].numbers.get(first.key)) for way in ("wrong", "right"))
    unit = f" {first.unit}" if first.unit and first.unit.lower() not in first.label.lower() else ""
    values = ["published ", strong(published), ", corrected ", strong(corrected), unit]
    return block("pl-result", joined([f"{first.label}: ", *values], ""))
