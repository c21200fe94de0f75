"""The pages of documentation: their names and titles, and the search of their text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import streamlit as st
from markupsafe import Markup

from app.core.assets import at
from app.ui.html import link
from app.ui.widgets import page_address
from engine.home import ROOT

DOCS = ROOT / "docs"
GUIDES = "experiments/"
"""Begin of the names of the experiments' guides; the rest is the experiment's name."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Use": (
        *(
            "first-hour",
            "tour",
            "own-script",
            "plugins",
            "home",
            "runs",
            "filter",
            "compare",
            "sweeps",
            "scaling",
            "timeline",
        ),
        *("duel", "figures", "museum", "exercises", "notifications", "api"),
    ),
    "Run a lab": ("deployment", "signing-in", "people", "operations", "cluster", "security", "fault-matrix"),
}
"""The list of pages; the experiments' guides follow, and those that are in no group as "Develop"."""
PAGE_GUIDES = {
    "/": "home",
    "/launch": "tour#launch-a-run",
    "/run": "tour#watch-it",
    "/sweep": "sweeps",
    "/account": "signing-in",
    "/machine": "operations",
    **{
        f"/{name}": name
        for name in ("runs", "compare", "scaling", "duel", "exercises", "figures", "museum", "notifications", "people")
    },
}
"""The page of documentation about each page of the console."""
WORDS = {
    "first-hour": "help start begin tutorial first introduction getting started quick steps teach import",
    "own-script": "my own training script command torchrun accelerate uv hydra trackio paste recipe",
    "plugins": "my own method experiment plugin plug-in algorithm write new extend template entry point",
    "api": "script program own automate curl client token launch log report from python wandb",
    "exercises": "class course teach student teacher lesson predict homework hand in deadline",
    "cluster": "slurm nodes multi-node sbatch ssh own script",
    "signing-in": "password login log in account user sso oidc google forgot",
    "people": "password account user role admin permission quota delete",
    "operations": "backup restore delete disk space upgrade move port slow",
    "fault-matrix": "crash kill died lost power failure restart recover",
    "deployment": "https tls docker container systemd nginx server port install",
    "compare": "export csv download picture pdf paper seed error bar significance",
    "runs": "delete archive tag note csv export rename search wandb own script",
    "tour": "help start begin tutorial first introduction getting started",
    "sweeps": "grid search hyperparameter tuning seed",
    "timeline": "slow hang deadlock stuck trace profile bottleneck",
    "notifications": "email slack mail alert webhook",
    "experiments/hogwild": "why no lock lock-free",
    "experiments/async_sgd": "why stale staleness old gradients",
    "experiments/parameter_server": "why a batch of gradients",
    "experiments/sync_sgd": "why wait average all-reduce",
    "experiments/fsdp": "why zero sharding memory per rank deepspeed ddp all-gather reduce-scatter",
    "experiments/batched_reinforce": "why a batch of observations per call",
    "experiments/dppo": "why a bounded queue ppo",
    "experiments/pipeline": "why micro-batches splits bubble",
}
"""Words under which people look for a page, though its text may say them otherwise."""
PICTURE = re.compile(r"^!\[(?P<alt>[^\]]*)\]\((?P<path>[^)]+)\)$", re.M)
LINK = re.compile(r"\[(?P<words>[^\]]+)\]\((?P<path>(?!https?:)[^)]*)\)")
PORT = re.compile(r"http://127\.0\.0\.1:8501\b")
LONGEST = 160
FILLERS = re.compile("an?|and|are|can|do|does|for|has|have|how|i|in|is|it|my|of|on|or|the|to|with")
"""Words of a question that say nothing about its page."""
ENDINGS = re.compile(r"(?<=\w{4})(?:ings?|ed|es|s)$")
SENTENCE_END = re.compile(r"(?<=[.?!;])\s+|\n\n|\n(?=\s*(?:[-|]|\d+\.) ?)")
"""Also the ends of list items and table rows."""


@dataclass(frozen=True)
class Section:
    """A part of a page below one heading."""

    page: str
    title: str
    """That of the page."""
    heading: str
    """Empty for the beginning of the page."""
    text: str

    @property
    def address(self) -> str:
        """The address of the part."""
        anchor = re.sub(r"[^\w\- ]", "", self.heading.lower()).strip().replace(" ", "-")
        return at(f"/docs?page={self.page}") + (f"#{anchor}" if anchor else "")


@cache
def pages() -> Mapping[str, Path]:
    """Return the file of each page by its name, such as `experiments/hogwild`."""
    return {path.relative_to(DOCS).with_suffix("").as_posix(): path for path in sorted(DOCS.rglob("*.md"))}


def title_of(path: Path) -> str:
    """Return the title of a page, its first line."""
    return path.read_text().partition("\n")[0].removeprefix("# ")


def first_sentence(path: Path) -> str:
    """Return what a page is about, as its first sentence says it."""
    text = _plain(path.read_text().partition("\n")[2]).strip()
    sentence = " ".join(re.split(r"(?<=[.?!])(?<! al\.)\s", text, maxsplit=1)[0].split())
    said = re.sub(r"^This page (explains|describes|shows|states) ", "", sentence)
    return _cut(f"{said[:1].upper()}{said[1:]}")


def linked(text: str, path: Path) -> str:
    """Return the Markdown of the file `path` with links to pages of documentation as addresses of the console; links to
    other files become text.
    """

    def address(found: re.Match[str]) -> str:
        file, _, place = found["path"].partition("#")
        target = (path.parent / file).resolve().with_suffix("") if file else path.with_suffix("")
        name = target.relative_to(DOCS).as_posix() if target.is_relative_to(DOCS) else ""
        there = at(f"/docs?page={name}") + (f"#{place}" if place else "")
        return f"[{found['words']}]({there})" if name in pages() else found["words"]

    return LINK.sub(address, text)


def page_body(path: Path) -> None:
    """Show the text of a page with its pictures. Addresses of the console are those at which it is open here."""

    end = 0
    body = PORT.sub(page_address("").rstrip("/"), path.read_text().partition("\n")[2])
    for picture in PICTURE.finditer(body):
        st.markdown(linked(body[end : picture.start()], path))
        st.image(path.parent / picture["path"], caption=picture["alt"])
        end = picture.end()
    st.markdown(linked(body[end:], path))


def groups() -> dict[str, list[str]]:
    """Return the names of all pages but single decisions, by group."""
    found = {group: [name for name in names if name in pages()] for group, names in GROUPS.items()}
    found["Experiments"] = [name for name in pages() if name.startswith(GUIDES)]
    listed = {name for names in found.values() for name in names}
    found["Develop"] = [name for name in pages() if name not in listed and "/" not in name] + ["decisions/README"]
    return found


def guide(experiment: str, words: str = "Guide", section: str = "") -> Markup:
    """Return a link to an experiment's guide, or to the section with that anchor; empty if it has none."""
    name = f"{GUIDES}{experiment}"
    return link(words, at(f"/docs?page={name}") + (f"#{section}" if section else "")) if name in pages() else Markup("")


def search(words: Sequence[str]) -> list[Section]:
    """Return the parts of pages in which all words occur: those with the words in the page's title, then in the
    heading (first those of pages that the words lead to), then among the page's words, then in one sentence; of each
    page one. If no title or heading has all, then
    the pages whose titles have most of them. One of the words must have three letters.
    """
    words = telling(words)
    if max(map(len, words), default=0) < 3:
        return []
    found: dict[str, tuple[int, Section]] = {}
    partly: list[tuple[int, Section]] = []
    for part in _sections():
        about = f"{part.title} {'' if part.heading else _keywords(part.page)}"
        headed = f"{about} {part.heading}"
        texts = (
            (0, part.title if not part.heading else ""),
            (1, f"{part.title} {part.heading}"),
            (2, headed),
            *((3, f"{headed} {sentence}") for sentence in SENTENCE_END.split(part.text)),
        )
        rank = next((rank for rank, text in texts if count_of(words, text) == len(words)), None)
        if rank is not None and (part.page not in found or rank < found[part.page][0]):
            found[part.page] = rank, part
        if not part.heading and is_most(count := count_of(words, about), words):
            partly.append((-count, part))
    best = sorted(found.values(), key=lambda each: (each[0], -count_of(words, _keywords(each[1].page))))
    if not best or best[0][0] == 3:
        best += sorted((each for each in partly if each[1].page not in found), key=lambda each: each[0])
    return [part for _, part in best]


def telling(words: Sequence[str]) -> list[str]:
    """Return the words without articles and the like, and without the endings of plurals and verbs."""
    return [ENDINGS.sub("", word) for word in words if not FILLERS.fullmatch(word)]


def count_of(words: Sequence[str], text: str) -> int:
    """Return how many of the words begin a word of the text."""
    return sum(re.search(rf"\b{re.escape(word)}", text, re.I) is not None for word in words)


def is_most(count: int, words: Sequence[str]) -> bool:
    """Return whether a text with `count` of the words may be meant."""
    return count > 0 and 2 * count >= len(words)


def _keywords(page: str) -> str:
    return f"{WORDS.get(page, '')} {f'guide {page}' if page.startswith(GUIDES) else ''}"


@cache
def _sections() -> tuple[Section, ...]:
    """Return the parts of all pages but decisions, in the order of the list."""
    return tuple(part for names in groups().values() for name in names for part in _parts(name, pages()[name]))


def _parts(name: str, path: Path) -> Iterator[Section]:
    title, heading = title_of(path), ""
    pieces = re.split(r"^##+ (.+)$", path.read_text().partition("\n")[2], flags=re.M)
    for at_piece, piece in enumerate(pieces):
        if at_piece % 2:
            heading = _plain(piece)
        else:
            yield Section(name, title, heading, piece)


def _plain(text: str) -> str:
    """Return a text without the marks of links, code and emphasis."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)|[`*]", r"\1", text)


def excerpt(part: Section, words: Sequence[str]) -> str:
    """Return the first sentence of a part that has all the words, else its first one, cut if it is long."""
    sought, plain = telling(words), _plain(part.text)
    for sentence in SENTENCE_END.split(plain):
        if count_of(sought, sentence) == len(sought) and "|" not in sentence:
            return _cut(" ".join(sentence.split()).lstrip("- "))
    lines = [line for line in plain.split("\n\n") if line.strip() and not line.lstrip().startswith(("|", "!", "    "))]
    return _cut(" ".join(lines[0].split()) if lines else "")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
