"""Plain technical English: phrases that no label, message or page of the docs may hold, with better ones."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from engine.errors import amount, counted
from tests.test_architecture import ROOT, modules

EVERYWHERE = {
    r"all ranks ended their work": "completed successfully",
    r"no like run": "first run of this kind",
    r"when not known": "Estimated finish: unknown",
    r"what you want to find out": "an example of a name",
    r"asked to stop by": "stop requested by",
    r"begins it anew": "starts over",
    r"more of them still help": "still speeding up",
    r"costs as much as it saves": "brings no gain",
    r"tell their error by": "at least N runs are needed for this fit",
    r"tell of this machine more": "timings limited by this machine",
    r"what no budget evens out": "the budget cannot equalise these",
    r"say who you are": "enter your name",
    r"a filter does not compute": "arithmetic isn't supported",
    r"timeout s \(s\)": "Timeout (s)",
    r"threads a rank": "threads per rank",
    r"curves against": "X-axis",
    r"step of each rank": "Step (per rank)",
    r"each run by itself": "no grouping",
    r"one row for all seeds": "group by seed",
    r"seeds of its config": "seeds",
    r"no run is on": "nothing running",
    r"least to most": "range",
    r"seconds to it": "time to target (s)",
    r"how it is spread": "distribution",
    r"(are|is) killed by (themselves|itself)": "killed automatically",
    r"let it go on": "keep running",
    r"takes? (the |a )?stars? off": "unstar",
    r"is taken back": "token revoked",
    r"stands? beside (it|them)": "see the marked fields",
    r"what is unlike": "uncontrolled differences",
    r"runs that tune": "tuning runs",
    r"apart by commas": "comma-separated",
    r"logarithmic (along|upwards)": "log x-axis, log y-axis",
    r"nothing beside it": "exclusive (for timing)",
    r"told of once": "one notification per sweep",
    r"an admin's to give": "only admins can",
    r"nobody is let in": "access denied",
    r"does not do\b": "invalid",
    r"with little added": "too similar to",
    r"present password": "current password",
    r"must be as many": "the counts must match",
    r"what is otherwise for": "unknown limit for",
    r"did not come to send": "timed out sending",
    r"is to be told": "a plain verb",
    r"see(s|ing)? off": "reap",
    r"the way of a run": "run lifecycle",
    r"is it well\?": "health checks",
    r"who holds what": "usage by person",
    r"\bleft over\b": "leftovers",
    r"execution alone": "exclude start-up",
    r"read with care": "caveat",
    r"as it was read": "as the source interpreted it",
    r"told last": "reported accuracy",
    r"furthest off": "largest error",
    r"\banew\b": "again",
    r"what no option says": "options override environment variables",
    r"who uses the cores": "CPU usage",
    r"what ranks do": "rank activity",
    r"what the published code (does|got wrong)": "published code, or its faults",
    r"what to (expect|look for)": "expected results",
    r"until within": "precision (± %)",
    r"\byou hold\b": "quota",
    r"\breckon": "compute",
    r"\blest\b": "so that … not",
}
"""In code, docs and templates, whatever the case of its letters; a phrase with a capital only as it is."""
IN_LABELS = {
    r"^on now$": "running",
    r"^and also\b": "second parameter",
    r"^where to listen": "port, address",
    r"^what to listen": "port, address",
    r"beyond loopback only": "other than loopback requires accounts",
    r"^tell (a|one)\b": "get a",
    r"not asked": "not requested",
    r"not told": "did not report",
    r"^what it means": "description",
    r"^how to avoid": "prevention",
    r"^(Who|What|Where) [^.?]{0,40}$": "a label is a noun",
    r"the first few": "default metrics",
    r"shut(s|ting)? out": "disable account",
    r"gives out": "capacity",
    r"what stands behind": "error details",
    r"\bnobody\b": "no one, or name the role",
    r"\bgoes on\b": "continues",
    r"\bis told\b": "is shown, or is notified",
    r"\bare told\b": "are shown, or are notified",
    r"\bstands (in|on|beside|behind|there|under)\b": "is",
    r"\blike runs\b": "similar runs",
    r"\bso often\b": "N times",
    r"\bso long as\b": "while",
    r"\bas many as\b": "up to",
    r"\bby itself\b": "automatically",
    r"\bcarried out\b": "run",
}
"""In texts that a person meets: strings of the code that are no docstrings."""


STORED = {"nobody", "shut out", "a password that nobody has", "Where the time went"}
"""Names that stores, logs and addresses of earlier versions hold."""
SHIPPED = re.compile(r"engine/store/schema/\w+_tables\.py|docs/schema\.md")
"""Migrations, which never change once shipped, and the page that is generated from them."""


SEAM = re.compile(r"""(["'])\s+f?\1""")
"""Between the parts of a string that goes over several lines."""


def found(text: str, banned: dict[str, str]) -> list[str]:
    """Return each banned phrase of a text, with the words to use instead."""
    words = " ".join(text.split())
    lower = words.lower()  # re.IGNORECASE takes several times as long
    return [
        f"{match[0]!r}: {better}"
        for phrase, better in banned.items()
        if certain(phrase) in (searched := lower if phrase.islower() else words)
        for match in re.finditer(phrase, searched)
    ]


@cache
def certain(phrase: str) -> str:
    """Return the longest text that whatever matches a phrase holds: it is looked for much faster."""
    nodes = re._parser.parse(phrase)  # type: ignore[attr-defined]
    return max("".join(chr(of) if str(kind) == "LITERAL" else "\0" for kind, of in nodes).split("\0"), key=len)


def pages_of_docs() -> Iterator[Path]:
    yield from (ROOT / "docs").rglob("*.md")
    yield from ROOT.glob("*.md")
    yield ROOT / "bench" / "README.md"


def browser_files() -> Iterator[Path]:
    for folder in ("static", "templates"):
        yield from (path for path in (ROOT / "app" / folder).rglob("*") if path.suffix in (".js", ".html", ".css"))


def may_change(path: Path) -> bool:
    return not SHIPPED.fullmatch(str(path.relative_to(ROOT)))


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Return each string of a module that is no docstring, with its line."""
    tree = ast.parse(path.read_text())
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in bare
            and node.value not in STORED
        ):
            yield node.lineno, node.value


def test_no_text_holds_a_banned_phrase() -> None:
    texts = filter(may_change, [*modules().values(), *pages_of_docs(), *browser_files()])
    wrong = {str(path.relative_to(ROOT)): phrases for path in texts if (phrases := found(path.read_text(), EVERYWHERE))}
    assert not wrong


def test_no_string_is_worded_in_a_dialect() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {phrase}"
        for path in filter(may_change, modules().values())
        if found(SEAM.sub("", path.read_text()), IN_LABELS)  # few have one, in a comment, so few are parsed
        for line, text in strings(path)
        for phrase in found(text, IN_LABELS)
    ]
    assert not wrong


def test_no_label_is_the_name_of_a_class() -> None:
    like_a_class = re.compile(r"[A-Z][a-z]+[A-Z]")
    classes, given = set(), []
    for path in modules().values():
        classes.update(re.findall(r"^\s*class ([A-Z][a-z]+[A-Z]\w*)", text := path.read_text(), re.M))
        if not re.search(r"""["'][A-Z][a-z]+[A-Z]""", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):
                given += [
                    (text.value, f"{path.relative_to(ROOT)}:{text.lineno}")
                    for argument in (*node.args, *(each.value for each in node.keywords))
                    for text in ast.walk(argument)
                    if isinstance(text, ast.Constant) and isinstance(text.value, str) and like_a_class.match(text.value)
                ]
    assert not [(text, place) for text, place in given if text in classes]


def test_a_plural_is_formed_by_one_function() -> None:
    own = re.compile(r"""\{''[ ]if[ ][^{}]*==[ ]1[ ]else[ ]'(?:s|es)'\}|\+[ ]\("s"[ ]if""", re.X)
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for top in ("app", "engine", "pages")
        for path in sorted((ROOT / top).rglob("*.py"))
        for match in own.finditer(path.read_text())
    ]
    assert found == [], "use counted() or plural() of engine/errors.py"
    assert counted(1, "update") == "1 update"
    assert counted("1", "update") == "1 update"
    assert counted(0.5, "update") == "0.5 updates"
    assert counted(1200, "tuning batch") == "1,200 tuning batches"
    assert counted(2, "entry") == "2 entries"
    assert counted(2, "day") == "2 days"
    assert [amount("1", unit) for unit in ("updates", "pushes", "entries", "MB", "%", "s", "")] == [
        *("1 update", "1 push", "1 entry", "1 MB", "1 %", "1 s", "1")
    ]
    assert amount("1.0", "updates") == "1.0 updates"


def test_pages_count_things_in_the_singular_too() -> None:
    """A number that the code knows only at run time stands before a plural only where 1 has its own words."""
    things = (
        "runs|updates|batches|steps|points|ranks|seeds|cells|rows|accounts|combinations|samples|splits|files|values"
    )
    bare = re.compile(
        rf"(?<!of )(?<!all )\{{(?:len\([\w.]+\)|number\([\w., ]+\)|[\w.]*(?:total|count))(?::,)?\}} (?:{things})\b(?!/)"
    )
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for top in ("app", "pages", "engine/cli", "engine/transfer", "engine/upkeep", "engine/store")
        for path in sorted((ROOT / top).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for match in bare.finditer(line)
        if not re.search(r"> 1\b|== 1\b", line)
    ]
    assert found == []
