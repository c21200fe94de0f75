"""Values that nobody means well with."""

from typing import Any

from hypothesis import strategies as some

MARKED = (
    *("'", '"', "';--", "' OR 1=1 --", '"; DROP TABLE runs; --', "%", "_", "*", "\\", "\x00", "a\x00b", "\ud800", "\udcff", "\u202e", "\ufeff", "é" * 50),
    *("=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0", "{{7*7}}", "${x}", "%s%n", "{0}", "{title}", "__class__", "None", "null", "nan"),
    *("<script>alert(1)</script>", "</script>", "<img src=x onerror=alert(1)>", "[a](javascript:b)", "![x](http://evil.example/x)", ":red[x]", "$x$", "`x`"),
    *(
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        ".",
        "~",
        "C:\\x",
        "os:CartPole-v1",
        "-",
        "--",
        "-x",
        "--json",
        "",
        " ",
        "\n",
        "1" * 5_000,
        "9" * 400,
        "-1",
        "0",
    ),
    *("1e999", "1e-999", "inf", "Infinity", "-inf", "0x10", "1_000", "١٢", "²", "½", "true", "[]", "{}", "[" * 3_000, "a," * 2_000, "(" * 500, "1..9", "9..1"),
)
WORDS = some.one_of(some.sampled_from(MARKED), some.text(max_size=40), some.integers().map(str), some.floats().map(str))
NUMBERS = some.one_of(some.integers(-(2**70), 2**70), some.floats(), some.just(10**400), some.just(-0.0), some.booleans())
JSON: Any = some.recursive(
    some.one_of(some.none(), NUMBERS, WORDS),
    lambda inner: some.one_of(some.lists(inner, max_size=4), some.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=12,
)
