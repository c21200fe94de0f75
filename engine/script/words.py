"""The words of a script's command line as fields: from the words alone, or with the options that a script declares."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from engine.script.field import CommandField, Kind, Span, Style

Action = Literal["store", "on", "off", "pair", "append", "extend", "count", "constant", "command", "help"]
ASSIGNED = re.compile(r"(\+{0,2}[A-Za-z_][\w.@/-]*)=(.*)", re.DOTALL)
"""Hydra's `a.b=v`, `+a.b=v`."""
_OPTION = re.compile(r"--?[A-Za-z_?][^\s=]*(=.*)?", re.DOTALL)
_INTEGER = re.compile(r"[+-]?(0|[1-9]\d*)")
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_ATTACHED = re.compile(r"(-[A-Za-z])(\d+(?:\.\d*)?)")
_LITERALS = {
    "True": ("False", "True"),
    "False": ("False", "True"),
    "true": ("false", "true"),
    "false": ("false", "true"),
}
_TRUTHS = {
    **dict.fromkeys(("true", "yes", "on", "1", "t", "y"), True),
    **dict.fromkeys(("false", "no", "off", "0", "f", "n"), False),
}
_MOST_DIGITS = 300


@dataclass(frozen=True)
class Option:
    """An option or argument that a script declares."""

    name: str
    flags: tuple[str, ...] = ()
    """Empty for a positional argument."""
    type: Kind = "str"
    action: Action = "store"
    nargs: str = ""
    """As argparse's: a number, `?`, `*`, `+` or `...` for the rest; "" for one value."""
    default: Any = None
    help: str = ""
    choices: tuple[Any, ...] = ()
    group: str = ""
    required: bool = False
    off_flags: tuple[str, ...] = ()
    """What writes False, of a pair of flags."""
    no_flags: tuple[str, ...] = ()
    """Further flags without a value that write False."""
    constant: Any = None
    """The value of the option without a word."""
    command: tuple[str, ...] = ()
    """The subcommand that it belongs to."""
    style: Style = "separate"
    literals: tuple[str, str] = ("False", "True")
    subcommands: tuple[str, ...] = ()
    """Of an argument that chooses a subcommand."""

    @property
    def is_list(self) -> bool:
        """Return whether it holds several values."""
        return self.nargs not in ("", "?") or self.action in ("append", "extend")

    @property
    def is_switch(self) -> bool:
        """Return whether it takes no value."""
        return self.action in ("on", "off", "pair", "count", "constant", "help")


def value_of(text: str, kind: Kind | None = None) -> Any:
    """Return the value that a word writes: of a type if one is given and the word is one, else of the type it looks
    like.
    """
    if kind == "str":
        return text
    if _INTEGER.fullmatch(text) and len(text) < _MOST_DIGITS:
        return float(text) if kind == "float" else int(text) if kind or abs(int(text)) < 2**63 else text
    if _FLOAT.fullmatch(text) and kind != "int" and abs(float(text)) < float("inf"):
        leading_zero = re.match(r"[+-]?0\d", text)
        return text if leading_zero and kind is None else float(text)
    if text in _LITERALS and kind in (None, "bool"):
        return _LITERALS[text][1] == text
    return text


def kind_of(value: Any) -> Kind:
    """Return the type of a value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, list | tuple):
        return "list"
    return "int" if isinstance(value, int) else "float" if isinstance(value, float) else "str"


def name_of(flag: str) -> str:
    """Return the name of an option's field, as argparse names its attribute."""
    return flag.lstrip("-").replace("-", "_")


def looks_like_option(word: str) -> bool:
    """Return whether a word is an option rather than a value; negative numbers are values."""
    return bool(_OPTION.fullmatch(word)) and not _FLOAT.fullmatch(word)


@dataclass(frozen=True)
class _Given:
    """An option of the pasted words, with its value."""

    option: Option | None
    flag: str
    style: Style
    values: tuple[str, ...]
    span: Span


def read_words(argv: Sequence[str], start: int, options: Sequence[Option] = ()) -> tuple[CommandField, ...]:
    """Return the fields of the words from `start`: those pasted in their order, then the options that weren't."""
    given = list(_Words(argv, start, options).read())
    fields: dict[str, CommandField] = {}
    for each in given:
        field = _pasted(each)
        if field.name in fields:
            field = _repeated(fields[field.name], field, each)
        fields[field.name] = field
    return (*fields.values(), *_missing(argv, start, options, fields))


class _Words:
    """One pass over the words."""

    def __init__(self, argv: Sequence[str], start: int, options: Sequence[Option]) -> None:
        self.argv, self.at = argv, start
        self.options = options
        self.command: tuple[str, ...] = ()
        self.taken = 0
        """Number of positional arguments that have their words."""

    def read(self) -> Iterator[_Given]:
        while self.at < len(self.argv):
            word = self.argv[self.at]
            if word == "--":
                self.at += 1
                while self.at < len(self.argv):
                    yield from self._positional()
            elif looks_like_option(word):
                yield self._option(word)
            else:
                yield from self._positional()

    def _option(self, word: str) -> _Given:
        first = self.at
        self.at += 1
        flag, equals, text = word.partition("=")
        option = self._declared(flag)
        if equals:
            return self._given(option, flag, "joined", first, text)
        if option is None:
            return self._guessed(flag, first)
        if option.is_switch or flag in option.no_flags:
            count = len(flag) - 1 if flag not in option.flags else 1
            return self._given(option, flag, "switch", first, str(count))
        if not flag.startswith("--") and flag not in option.flags and len(flag) > 2:
            return self._given(option, flag[:2], "attached", first, flag[2:])
        values = self._values(option)
        return self._given(option, flag, "separate", first, *values)

    def _given(self, option: Option | None, flag: str, style: Style, first: int, *values: str) -> _Given:
        return _Given(option, flag, style, values, (first, self.at))

    def _declared(self, flag: str) -> Option | None:
        """Return the option of a flag: by its name, with - for _, by the only beginning, or as `-j4`."""
        usable = [each for each in self.options if each.flags and each.command == self.command[: len(each.command)]]
        by_flag = {flag: each for each in usable for flag in (*each.no_flags, *each.flags, *each.off_flags)}
        if flag in by_flag:
            return by_flag[flag]
        same = [each for name, each in by_flag.items() if name.replace("_", "-") == flag.replace("_", "-")]
        if not same and flag.startswith("--"):
            same = [each for name, each in by_flag.items() if name.startswith(flag)]
        if not same and not flag.startswith("--"):
            short = by_flag.get(flag[:2])
            is_count = short is not None and short.action == "count" and set(flag[2:]) == {flag[1]}
            same = [short] if short is not None and (is_count or not short.is_switch) else []
        return same[0] if len({each.name for each in same}) == 1 else None

    def _values(self, option: Option) -> list[str]:
        """Take the words that belong to a declared option."""
        if option.nargs == "...":
            most = len(self.argv)
        elif option.nargs.isdecimal():
            most = int(option.nargs)
        else:
            most = 1 if option.nargs in ("", "?") else len(self.argv)
        taken: list[str] = []
        while len(taken) < most and self.at < len(self.argv):
            word = self.argv[self.at]
            forced = option.nargs == "..." or (option.nargs == "" and not taken and not self._declared(word))
            if word == "--" or (looks_like_option(word) and not forced):
                break
            taken.append(word)
            self.at += 1
        return taken

    def _guessed(self, flag: str, first: int) -> _Given:
        """Read an option that nothing is known of. Numbers in a row are a list; of other words the first is its
        value.
        """
        if flag.startswith("--no-"):
            return self._given(None, flag, "switch", first)
        if attached := _ATTACHED.fullmatch(flag):
            return self._given(None, attached[1], "attached", first, attached[2])
        end = self.at
        while end < len(self.argv) and self._is_value(self.argv[end]):
            end += 1
        values = self.argv[self.at : end]
        if len(values) > 1 and not all(_FLOAT.fullmatch(each) for each in values):
            values = values[:1]
        self.at += len(values)
        return self._given(None, flag, "separate" if values else "switch", first, *values)

    def _is_value(self, word: str) -> bool:
        return word != "--" and not looks_like_option(word) and not ASSIGNED.fullmatch(word)

    def _positional(self) -> Iterator[_Given]:
        word, first = self.argv[self.at], self.at
        places = [each for each in self.options if not each.flags and each.command == self.command[: len(each.command)]]
        if assigned := ASSIGNED.fullmatch(word):
            named = {each.name: each for each in self.options if each.style == "assigned"}
            if named or self.taken >= len(places):
                self.at += 1
                option = named.get(assigned[1].lstrip("+"))
                yield self._given(option, assigned[1], "assigned", first, assigned[2])
                return
        if self.taken >= len(places):
            self.at += 1
            return
        option = places[self.taken]
        self.taken += 1
        if option.action == "command":
            self.at += 1
            self.command = (*self.command, word)
            return
        if option.is_list:
            left = sum(max(1, int(each.nargs or 1)) for each in places[self.taken :] if (each.nargs or "1").isdecimal())
            values = self._values(option)
            while left and len(values) > 1:
                values.pop()
                self.at -= 1
                left -= 1
        else:
            self.at += 1
            values = [word]
        yield self._given(option, "", "positional", first, *values)


def _pasted(given: _Given) -> CommandField:
    """Return the field of an option that was pasted."""
    option, values = given.option, given.values
    if option is None:
        return _inferred(given)
    base = declared_field(option)
    if given.flag in option.no_flags:
        return replace(base, pasted=True, spans=(given.span,), default=False, flag="", off=given.flag, style="switch")
    if option.is_switch:
        chosen = replace(base, pasted=True, spans=(given.span,))
        if option.action == "count":
            return replace(chosen, default=int(given.values[0]), flag=_first_long(option.flags[:1]))
        if given.style == "joined":  # --flag=True of a pair
            return replace(_inferred(given), name=option.name, help=option.help, group=option.group)
        if given.flag in option.off_flags or option.action == "off":
            return replace(chosen, default=False, off=given.flag)
        return replace(chosen, default=True, flag=given.flag)
    style: Style = "repeated" if option.action == "append" else given.style
    field = replace(base, pasted=True, spans=(given.span,), flag=given.flag, style=style)
    if option.is_list and style == "assigned":
        inner = values[0].strip("[]()").split(",")
        return replace(field, default=[value_of(each.strip(), base.element) for each in inner if each.strip()])
    if option.is_list:
        return replace(field, default=[value_of(each, base.element) for each in values])
    if not values:
        return replace(field, default=option.constant if option.type != "str" else str(option.constant))
    return _with_value(field, values[0])


def _with_value(field: CommandField, text: str) -> CommandField:
    """Return a declared field with a pasted word; a word that isn't of its type makes it text."""
    if field.type == "bool":
        if field.literals[0] == "":  # type=bool: any text but the empty one is True
            return replace(field, default=bool(text))
        if text.lower() in _TRUTHS:
            return replace(field, default=_TRUTHS[text.lower()], literals=_LITERALS.get(text, field.literals))
    value = value_of(text, field.type)
    fits = kind_of(value) == field.type or (field.type == "str" and isinstance(value, str))
    return replace(field, default=value, type=field.type if fits else "str")


def _inferred(given: _Given) -> CommandField:
    """Return the field of an option of which only the pasted words are known."""
    name = given.flag.lstrip("+") if given.style == "assigned" else name_of(given.flag)
    base = CommandField(name, "bool", True, pasted=True, flag=given.flag, style=given.style, spans=(given.span,))
    if given.style == "switch":
        off = given.flag.startswith("--no-")
        return replace(base, name=name_of(given.flag[5:]), default=False, flag="", off=given.flag) if off else base
    found = [value_of(each) for each in given.values]
    if len(found) > 1:
        element: Kind = "int" if all(isinstance(each, int) for each in found) else "float"
        return replace(base, type="list", default=found, element=element)
    literals = _LITERALS.get(given.values[0], base.literals)
    return replace(base, type=kind_of(found[0]), default=found[0], literals=literals)


def _repeated(before: CommandField, again: CommandField, given: _Given) -> CommandField:
    """Return the field of an option that stands twice: a list of all its values; of a declared single one the last."""
    spans = (*before.spans, *again.spans)
    if again.style == "switch":
        counted = before.default + again.default if again.type == "int" else again.default
        return replace(again, default=counted, spans=spans)
    if given.option is not None and given.option.action not in ("append", "extend"):
        return replace(again, spans=spans)
    values = [*_as_list(before.default), *_as_list(again.default)]
    kinds = {kind_of(each) for each in values}
    element = kinds.pop() if len(kinds) == 1 else "float" if kinds == {"int", "float"} else "str"
    return replace(again, type="list", default=values, style="repeated", element=element, spans=spans)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def declared_field(option: Option) -> CommandField:
    """Return the field of an option that a script declares, with the script's default."""
    kind: Kind = "list" if option.is_list else option.type
    style: Style = option.style
    flag, off = _first_long(option.flags), _first_long(option.off_flags)
    if option.is_switch:
        style = "switch"
        flag, off = ("", flag) if option.action == "off" else (flag, off)
    elif not option.flags:
        style = "positional"
    elif option.action == "append":
        style = "repeated"
    default = option.default
    if kind == "list" and isinstance(default, tuple):
        default = list(default)
    return CommandField(
        option.name,
        kind,
        default,
        option.help,
        option.choices,
        option.group,
        flag=flag,
        off=off,
        style=style,
        element=option.type,
        literals=option.literals,
        certain=True,
        required=option.required,
    )


def _first_long(flags: Sequence[str]) -> str:
    return next((each for each in flags if each.startswith("--")), flags[0] if flags else "")


def _missing(
    argv: Sequence[str], start: int, options: Sequence[Option], pasted: dict[str, CommandField]
) -> Iterator[CommandField]:
    """Yield the declared options that weren't pasted, of the subcommand that was."""
    words = _Words(argv, start, options)
    list(words.read())
    end = next((at for at in range(start, len(argv)) if argv[at] == "--"), -1)
    commands = [at for at in range(start, len(argv)) if argv[at] in words.command]
    seen = set(pasted)
    for option in options:
        if option.name in seen or option.action in ("command", "help") or option.group == "hidden":
            continue
        if option.command != words.command[: len(option.command)]:
            continue
        seen.add(option.name)
        at = commands[len(option.command)] if len(option.command) < len(commands) else end
        yield replace(declared_field(option), at=at)
