"""The search of the command palette: pages, runs, sweeps, duels, experiments, saved views, terms, help."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.auth.middleware import VISITOR
from app.core.assets import at
from app.core.caches import NEVER_STORE
from app.core.formatting import ago
from app.core.visitor import Visitor
from app.ui.documentation import count_of, excerpt, is_most, search, telling
from app.ui.html import TERMS
from app.ui.navigation import TITLES, offered
from app.ui.run_state import outcome
from app.ui.widgets import sweep_name, title_of
from engine.access.rules import PersonStanding
from engine.exercises.catalogue import ExerciseCatalogue
from engine.home import Home
from engine.registry import experiments
from engine.store import Reader
from engine.store.records import RunRow

LONGEST, MOST_RUNS, MOST_HELP, MOST_OTHERS, MOST_LOOKED_AT = 100, 8, 12, 6, 1_000
RECENT = 5
LINKED = {"sweep": "Sweeps", "docs": "Documentation", "docs?page=tour": "Tour"}
"""What the navigation does not show: titles by address."""
ALSO = {
    "home": "start overview dashboard recent",
    "launch": "new start train experiments form",
    "runs": "list history delete archive import mlflow tensorboard",
    "sweep": "grid search hyperparameters seeds",
    "compare": "curves charts plot",
    "scaling": "speed-up efficiency",
    "duel": "contest strategies",
    "museum": "fault exhibits",
    "exercises": "class course teach student predict hand in lab lesson",
    "machine": "runner queue slots load cpu gpu cores memory disk space",
    "figures": "published papers reproduce",
    "people": "accounts users members students create add new password slips roles permissions quota audit log",
    "notifications": "email slack webhook alerts",
    "account": "own password token sign in out",
    "docs": "help guides manual",
}
"""Further words by which a page is found."""


@dataclass(frozen=True)
class PaletteItem:
    """One line of the palette."""

    group: str
    label: str
    detail: str
    href: str


def palette(request: Request) -> Response:
    """Return what this person may open, at most a few items of each group, that contains every word of `q`; of pages,
    experiments and help otherwise what has most of the words.

    Without words, all pages and the newest runs.
    """
    words = re.findall(r"\w+", request.query_params.get("q", "")[:LONGEST].lower())
    with Reader.open(Home.find()) as reader:
        found = list(_found(words, reader, request.scope[VISITOR]))
    return JSONResponse({"found": [vars(item) for item in found]}, headers=NEVER_STORE)


def _found(words: Sequence[str], reader: Reader, visitor: Visitor) -> Iterator[PaletteItem]:
    who = visitor.who
    standing = who.standing if who else PersonStanding("", "admin", open=True)
    pages = offered(standing, has_account=who is not None)
    titles = {page: TITLES[page] for section in pages.values() for page in section} | LINKED
    if not words:
        yield from (_run_item("Recent runs", run) for run in reader.runs.find(archived=False, limit=RECENT))
    known = [
        (
            f"{title} {ALSO.get(page, '')}",
            PaletteItem("Pages", title, "", at("/" if page == "home" else f"/{page}")),
        )
        for page, title in titles.items()
    ]
    yield from (meant := _with_all(words, known))
    if not words:
        return
    partly = [] if meant else _with_most(words, known)
    is_number = any(word.isdigit() for word in words)
    runs = [_run_item("Runs", run) for run in _runs(words, reader)]
    yield from runs if is_number else ()  # else a sweep's name is in those of its runs, and the sweep is meant
    yield from [
        PaletteItem("Sweeps", f"Sweep {each.id}: {sweep_name(each)}", each.owner, at(f"/sweep?sweep={each.id}"))
        for each in reader.sweeps.recent(limit=MOST_LOOKED_AT)
        if _has_all(words, f"sweep {each.id} {sweep_name(each)} {each.owner}")
    ][:MOST_OTHERS]
    yield from [
        PaletteItem("Duels", f"Duel {each.id}: {each.name}".strip(": "), each.owner, at(f"/duel?duel={each.id}"))
        for each in reader.duels.recent(limit=MOST_LOOKED_AT)
        if _has_all(words, f"duel {each.id} {each.name} {each.owner}")
    ][:MOST_OTHERS]
    yield from () if is_number else runs
    if standing.may("launch"):
        forms = [
            (
                f"launch {each.title} {each.name} {each.tagline}",
                PaletteItem("Experiments", f"Launch {each.title}", each.tagline, at(f"/launch?experiment={each.name}")),
            )
            for each in experiments()
        ]
        yield from (exact := _with_all(words, forms)[:MOST_OTHERS])
        partly += [] if exact else _with_most(words, forms)[:MOST_OTHERS]
    yield from [
        PaletteItem("Exercises", file.title, "", at(f"/exercises?exercise={quote(file.name)}"))
        for file in ExerciseCatalogue(Home.find()).listed.values()
        if file.exercise and not is_number and _has_all(words, f"exercise {file.title} {file.exercise.experiment}")
    ][:MOST_OTHERS]
    yield from [
        PaletteItem(
            "Saved views", view.name, f"{TITLES.get(view.page, '')} · {view.owner}", at(f"/{view.page}?{view.query}")
        )
        for view in reader.views.find(limit=MOST_LOOKED_AT)
        if _has_all(words, f"{view.name} {view.owner}")
    ][:MOST_OTHERS]
    yield from [
        PaletteItem("Glossary", term, meaning, f"#term={quote(term)}") for term, meaning in _terms(words).items()
    ][:MOST_OTHERS]
    documents = [
        PaletteItem("Help", ": ".join(filter(None, (part.title, part.heading))), excerpt(part, words), part.address)
        for part in search(words)
    ][:MOST_HELP]
    wants_guide = "guide" in telling(words)  # one guide comes before the page that lists all
    yield from documents if wants_guide else ()
    yield from () if is_number else partly
    yield from () if wants_guide else documents


def _terms(words: Sequence[str]) -> dict[str, str]:
    """Return the terms with matching names, that of the words first; without any, those with matching definitions."""
    named = sorted(TERMS, key=lambda term: re.findall(r"\w+", term) != [*words])
    return {term: TERMS[term] for term in named if _has_all(words, term)} or {
        term: meaning for term, meaning in TERMS.items() if _has_all(words, meaning)
    }


def _with_all(words: Sequence[str], items: Iterable[tuple[str, PaletteItem]]) -> list[PaletteItem]:
    """Return the items whose texts have all words."""
    sought = telling(words)
    return [item for text, item in items if count_of(sought, text) == len(sought)]


def _with_most(words: Sequence[str], items: Iterable[tuple[str, PaletteItem]]) -> list[PaletteItem]:
    """Return the items whose texts have most of the words, best first."""
    sought = telling(words)
    counts = sorted(((count_of(sought, text), item) for text, item in items), key=lambda each: -each[0])
    return [item for count, item in counts if is_most(count, sought)]


def _has_all(words: Sequence[str], text: str) -> bool:
    text = text.lower()
    return all(word in text for word in words)


def _runs(words: Sequence[str], reader: Reader) -> list[RunRow]:
    """Return matching runs, newest first; the one whose id is asked for comes before them."""
    sought = [word for word in words if word != "run"]
    if not sought:
        return reader.runs.find(archived=False, limit=MOST_RUNS)
    exact = reader.runs.some([int(sought[0])]) if len(sought) == 1 and re.fullmatch(r"\d{1,17}", sought[0]) else []
    ids = {run.id for run in exact}
    others = reader.runs.find(search=" ".join(sought), limit=MOST_RUNS)
    return [*exact, *(run for run in others if run.id not in ids)][:MOST_RUNS]


def _run_item(group: str, run: RunRow) -> PaletteItem:
    when = ago(run.ended_at or run.started_at or run.created_at)
    return PaletteItem(
        group, f"Run {run.id}: {title_of(run)}", f"{outcome(run)[1]} · {run.owner} · {when}", at(f"/run?run={run.id}")
    )
