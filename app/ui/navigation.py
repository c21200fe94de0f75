"""The pages of the navigation, and the title of each page of the console."""

from collections.abc import Mapping

from engine.access.rules import PersonStanding

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "": ("home", "launch", "runs"),
    "Analyse": ("sweep", "compare", "scaling", "duel", "figures", "museum"),
    "Lab": ("exercises", "machine", "people", "notifications", "account"),
}
TITLES = {
    "home": "Home",
    "launch": "Launch",
    "runs": "Runs",
    "run": "Run",
    "sweep": "Sweeps",
    "compare": "Compare",
    "scaling": "Scaling",
    "duel": "Duels",
    "figures": "Figures",
    "museum": "Museum",
    "exercises": "Exercises",
    "machine": "Machine",
    "people": "People",
    "notifications": "Notifications",
    "account": "Account",
    "docs": "Documentation",
    "not_found": "Page not found",
}


def offered(standing: PersonStanding, *, has_account: bool) -> dict[str, list[str]]:
    """Return the pages that the navigation shows to this person, by section. *People* also explains how to create the
    first account.
    """
    hidden = set() if has_account else {"account"}
    if not standing.may("add person"):
        hidden.add("people")
    return {section: [page for page in pages if page not in hidden] for section, pages in SECTIONS.items()}
