"""Syntax tree of a filter's text, from Python's own parser, as the language is a subset of Python's expressions.

Three extensions: the operator `contains` and AND, OR, NOT in capitals, replaced by Python words of the same length, and
`=` for `==`. The positions of the tree are those in the text.
"""

import ast
import re

from engine.errors import FilterError
from engine.filter.tree import TEXT

LONGEST = 1_000
"""Maximum characters of a filter."""
_CONTAINS, _NOT_CONTAINS = "is", "is not"
_PIECES = re.compile(
    rf"""(?P<quoted>{TEXT})
    |(?P<bad>\\|\#|\bis\b)
    |(?P<unit>(?<![\w./])\d[\d.]*(?!e[+-]?\d)[a-z_]\w*)
    |(?P<without>\b(?:not|NOT)\s+(?:contains|CONTAINS)\b)
    |(?P<has>\b(?:contains|CONTAINS)\b)
    |(?P<loud>\b(?:AND|OR|NOT|IN)\b)
    |(?P<single>(?<![=<>!:])=(?![=<>]))""",
    re.VERBOSE,
)
QUOTED = re.compile(TEXT)
_WORD = re.compile(r"\w+|[=<>!]+|\S")
_BACKSLASH = "\x01"
"""Stands for a backslash, which Python would read as an escape; the text of a filter has no such character."""
_DOUBLED = {'"': "\x02\x02", "'": "\x03\x03"}
"""Stand for a doubled quote within a text in such quotes, which is one quote."""
_EXAMPLE = 'Write comparisons such as trainers >= 4 or owner == "ada", and combine them with and, or, not.'
_UNITS = (
    'Times and durations with a unit must be in quotes: created > "7d ago", created > "2026-11-01", duration > "5 min".'
)
_CURES = {
    "never closed": "It is never closed: add the closing bracket.",
    "unmatched": "It has no opening bracket: remove it, or add one.",
    "does not match": "It doesn't match the opening bracket.",
    "unterminated": "The closing quote is missing: add it after the text.",
    "literal": _UNITS,
    "f-string": "A text must not have a letter before its quotes.",
    "too many nested": "It is nested too deep: remove brackets.",
    "Exceeds the limit": "The number has too many digits.",
}
_BAD = {
    "\\": "A backslash must be within a text in quotes.",
    "#": "Comments aren't supported: put the text in quotes.",
    "is": "Use == for equality.",
}


def syntax_tree(text: str) -> ast.expr:
    """Parse a text that is not blank; positions refer to `text`. Raises FilterError."""
    if len(text) > LONGEST:
        raise FilterError(
            f"A filter must have at most {LONGEST:,} characters; got {len(text):,}. Shorten it.",
            0,
            len(text),
        )
    prepared, added = _prepared(text)
    line = prepared.lstrip()

    def place(at: int) -> int:
        """Return the position in the text of a character of the line that Python reads."""
        at += len(prepared) - len(line)
        return at - sum(each < at for each in added)

    try:
        tree = ast.parse(line, mode="eval").body
    except SyntaxError as error:
        raise _unread(text, error, place((error.offset or 0) - 1)) from None
    except (RecursionError, MemoryError):
        raise FilterError("The filter is nested too deep. Remove brackets and nots.", 0, len(text)) from None
    except ValueError as error:
        raise FilterError(f"The filter can't be read: {error}. {_EXAMPLE}", 0, len(text)) from None
    in_bytes = line.encode()
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            ends = (node.col_offset, node.end_col_offset or 0)
            node.col_offset, node.end_col_offset = (place(len(in_bytes[:at].decode(errors="ignore"))) for at in ends)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = node.value.replace(_BACKSLASH, "\\")
            for quote, doubled in _DOUBLED.items():
                node.value = node.value.replace(doubled, quote)
    return tree


def _prepared(text: str) -> tuple[str, list[int]]:
    """Return the text as Python, and the positions of the equals signs that were added to it."""
    if (
        not text.isprintable()
        and (
            bad := next(
                (at for at, letter in enumerate(text) if not letter.isprintable() and not letter.isspace()), None
            )
        )
        is not None
    ):
        raise FilterError(f"The filter has an invisible character at position {bad + 1}. Remove it.", bad, bad + 1)

    added: list[int] = []

    def as_python(found: re.Match[str]) -> str:
        piece = found[0]
        if found["bad"]:
            raise error_at(text, found.start(), found.end(), _BAD[piece])
        if found["unit"]:
            raise error_at(text, found.start(), found.end(), _UNITS)
        if found["single"]:
            added.append(found.start() + len(added))
            return "=="
        if found["loud"]:
            return piece.lower()
        if found["quoted"]:
            quote = piece[0]
            return quote + piece[1:-1].replace(2 * quote, _DOUBLED[quote]).replace("\\", _BACKSLASH) + quote
        word = _CONTAINS if found["has"] else _NOT_CONTAINS if found["without"] else piece
        return word.ljust(len(piece))

    return _PIECES.sub(as_python, re.sub(r"\s", " ", text)), added


def error_at(text: str, start: int, end: int, rule: str) -> FilterError:
    """Return the error for a word of a filter: the word, its position, the rule and the cure."""
    word = text[start:end]
    word = word if len(word) <= 40 else f"{word[:39]}…"
    return FilterError(f"The filter's '{word}' at character {start + 1}: {rule}", start, end)


def _unread(text: str, error: SyntaxError, start: int) -> FilterError:
    """Translate an error of Python's parser, which is at `start`."""
    found = _WORD.search(text, max(0, start))
    cure = next((cure for words, cure in _CURES.items() if words in error.msg), None)
    if (error.offset or 0) < 1 or found is None:
        return FilterError(f"The filter is incomplete. {cure or _EXAMPLE}", len(text), len(text))
    return error_at(text, found.start(), found.end(), cure or f"Unexpected here. {_EXAMPLE}")
