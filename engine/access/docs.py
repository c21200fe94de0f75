"""The table of roles in docs/people.md, written from the rules: `python -m engine.access.docs` after each change of
them.
"""

from engine.access.permission_table import abilities
from engine.access.rules import ROLES
from engine.home import ROOT

PAGE = ROOT / "docs" / "people.md"
BEGIN, END = "<!-- the rules begin -->", "<!-- the rules end -->"


def written(text: str) -> str:
    """Return the page's text with its table as the rules have it; raises ValueError where the marks round the table are
    gone.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no '{BEGIN}' … '{END}' for its table.")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def table() -> str:
    """Return the rules as a table in Markdown, a line a command."""
    head = [f"| command | what it is to | {' | '.join(ROLES)} |", f"|---|---|{'---|' * len(ROLES)}"]
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
