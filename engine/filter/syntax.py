"""A filter's text as a syntax tree: Python's own parser reads it, since the language is a part of Python's expressions.

Two things are ours: `contains` is an operator, and AND, OR, NOT may be shouted. Both are put in Python's words of the
same length, so places stay.
"""

import ast
import re

from engine.errors import FilterError

LONGEST = 1_000
"""Characters of a filter."""
_CONTAINS, _NOT_CONTAINS = "is", "is not"
_PIECES = re.compile(
    r"""(?P<quoted>"[^"]*"|'[^']*')
    |(?P<bad>\\|\#|\bis\b)
    |(?P<unit>(?<![\w./])\d[\d.]*(?!e[+-]?\d)[a-z_]\w*)
    |(?P<without>\b(?:not|NOT)\s+(?:contains|CONTAINS)\b)
    |(?P<has>\b(?:contains|CONTAINS)\b)
    |(?P<loud>\b(?:AND|OR|NOT|IN)\b)""",
    re.VERBOSE,
)
_WORD = re.compile(r"\w+|[=<>!]+|\S")
_EXAMPLE = 'A comparison is written such as trainers >= 4 or owner == "ada"; and, or, not join comparisons.'
_UNITS = (
    'Times and lengths with a unit stand in quotes: created > "7d ago", created > "2026-11-01", duration > "5 min".'
)
_CURES = {
    "never closed": "It is never closed: put its partner behind what it holds.",
    "unmatched": "It closes nothing: take it away, or open it before.",
    "does not match": "It closes another kind of bracket than was opened.",
    "unterminated": "It begins a text that has no end: put the same quote behind the text.",
    "literal": _UNITS,
    "f-string": "A text is put in quotes without a letter before them.",
    "too many nested": "It is nested too deep: take brackets away.",
    "Exceeds the limit": "The number is too long.",
}
_BAD = {
    "\\": "A filter knows no backslash: take it away, or look for what stands beside it with contains.",
    "#": "A filter knows no comments: put the text into quotes.",
    "is": "Equality is written ==.",
}


def syntax_tree(text: str) -> ast.expr:
    """Return the tree of a text that is not blank; its places are those of `text`. Raises FilterError."""
    if len(text) > LONGEST:
        raise FilterError(
            f"A filter has at most {LONGEST:,} characters, this one has {len(text):,}. Ask for less at a time.",
            0,
            len(text),
        )
    prepared = _prepared(text)
    indent = len(prepared) - len(prepared.lstrip())
    try:
        return ast.parse(prepared.lstrip(), mode="eval").body
    except SyntaxError as error:
        raise _unread(text, error, indent) from None
    except (RecursionError, MemoryError):
        raise FilterError("The filter is nested too deep. Take brackets and nots away.", 0, len(text)) from None
    except ValueError as error:
        raise FilterError(f"The filter can't be read: {error}. {_EXAMPLE}", 0, len(text)) from None


def place(text: str, node: ast.expr) -> tuple[int, int]:
    """Return where a part of the tree begins and ends in the text, in characters."""
    indent = len(text) - len(text.lstrip())
    line = text.lstrip().encode()
    return tuple(indent + len(line[:at].decode(errors="ignore")) for at in (node.col_offset, node.end_col_offset or 0))  # type: ignore[return-value]


def _prepared(text: str) -> str:
    """Return the text in Python's words, each character at its place."""
    if (
        not text.isprintable()
        and (
            bad := next(
                (at for at, letter in enumerate(text) if not letter.isprintable() and not letter.isspace()), None
            )
        )
        is not None
    ):
        raise FilterError(
            f"The filter has a character that can't be shown at place {bad + 1}. Take it away.", bad, bad + 1
        )

    def as_python(found: re.Match[str]) -> str:
        piece = found[0]
        if found["bad"]:
            raise error_at(text, found.start(), found.end(), _BAD[piece])
        if "\\" in piece:  # within a text Python would read it as the begin of an escape
            at = found.start() + piece.index("\\")
            raise error_at(text, at, at + 1, _BAD["\\"])
        if found["unit"]:
            raise error_at(text, found.start(), found.end(), _UNITS)
        if found["loud"]:
            return piece.lower()
        word = _CONTAINS if found["has"] else _NOT_CONTAINS if found["without"] else piece
        return word.ljust(len(piece))

    return _PIECES.sub(as_python, re.sub(r"\s", " ", text))


def error_at(text: str, start: int, end: int, rule: str) -> FilterError:
    """Return the error for a word of a filter: the word, its place, then the rule with its cure."""
    word = text[start:end]
    word = word if len(word) <= 40 else f"{word[:39]}…"
    return FilterError(f"The filter's '{word}' at character {start + 1}: {rule}", start, end)


def _unread(text: str, error: SyntaxError, indent: int) -> FilterError:
    """Return our error for one of Python's parser."""
    start = indent + (error.offset or 0) - 1
    found = _WORD.search(text, max(0, start))
    cure = next((cure for words, cure in _CURES.items() if words in error.msg), None)
    if (error.offset or 0) < 1 or found is None:
        return FilterError(f"The filter breaks off at its end. {cure or _EXAMPLE}", len(text), len(text))
    if found[0] == "=":
        cure = "Equality is written ==."
    return error_at(text, found.start(), found.end(), cure or f"It is not expected there. {_EXAMPLE}")
