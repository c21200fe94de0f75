"""Generate the table of roles in docs/people.md; run `python -m engine.access.docs` after each change of the rules."""

from engine.access.rules import ROLES, abilities
from engine.home import ROOT

PAGE = ROOT / "docs" / "people.md"
BEGIN, END = "<!-- the rules begin -->", "<!-- the rules end -->"


def written(text: str) -> str:
    """Return the page's text with an updated table; raises ValueError if the marks round the table are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no '{BEGIN}' … '{END}' for its table.")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def table() -> str:
    """Return the rules as a Markdown table, one row per command."""
    head = [f"| command | permission to | {' | '.join(ROLES)} |", f"|---|---|{'---|' * len(ROLES)}"]
    return "\n".join(
        [
            *head,
            *(
                f"| {each.command} | {each.words} | {' | '.join(each.reach[role] or '–' for role in ROLES)} |"
                for each in abilities()
            ),
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
