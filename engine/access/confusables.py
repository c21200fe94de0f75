"""Names that look alike, whatever letters they are made of.

After the skeletons of Unicode Technical Standard 39, for the letters of Latin, Greek and Cyrillic that are drawn alike.
"""

import re
import unicodedata
from functools import lru_cache

from engine.errors import ConfigError

_DRAWN_ALIKE = {
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0455\u0456\u0458\u0501\u04bb\u051b\u051d\u043a": "aeopcyxsijdhqwk",
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0405\u0406\u0408": "ABEKMHOPCTYXSIJ",
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7": "ABEZHIKMNOPTYX",
    "\u03bf\u03bd\u03b1\u03b9\u03c1\u03c5\u03ba\u03b3": "ovaipuky",
    "01|": "OII",
}
_AS_LATIN = str.maketrans(
    {letter: latin for letters, latins in _DRAWN_ALIKE.items() for letter, latin in zip(letters, latins, strict=True)}
)
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Invisible characters that Unicode classes as letters or symbols."""


_HIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that reverse the order of the text after them, also outside of a name."""


def visible(field: str, text: str) -> str:
    """Return the text; raises ConfigError if it has a character that would hide or reorder what is shown."""
    if found := _HIDDEN.search(text):
        called = unicodedata.name(found[0], "control character").lower()
        sentence = (
            f"{field} has an invisible character, U+{ord(found[0]):04X} ({called}), at position {found.start() + 1}."
        )
        raise ConfigError.of(field, f"{sentence} Remove it.")
    return text


def without_hidden(text: str) -> str:
    """Return a text that was recorded elsewhere without the characters that `visible` refuses."""
    return _HIDDEN.sub("", text)


def plain(name: str) -> str:
    """Return a name in Unicode's NFKC form, with blanks trimmed and collapsed."""
    return " ".join(unicodedata.normalize("NFKC", name).split())


def is_shown(name: str) -> bool:
    """Return whether all characters of a name are visible."""
    return name.isprintable() and not _BLANK & set(name)


@lru_cache(maxsize=10_000)
def sort_key(name: str) -> str:
    """Return the key that sorts names of any language alike everywhere: by their letters, without accents and case."""
    parts = unicodedata.normalize("NFKD", name)
    return "".join(part for part in parts if not unicodedata.combining(part)).casefold() + f"\x01{name}"


def looks(name: str) -> str:
    """Return the skeleton of a name; names that look alike have the same one."""
    parts = unicodedata.normalize("NFD", plain(name).translate(_AS_LATIN))
    bare = "".join(part for part in parts if not unicodedata.combining(part))
    return bare.translate(_AS_LATIN).replace("l", "I").casefold()
