"""One field of a command's form: its value, and how that is written back into the command."""

from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, Literal, Self

Kind = Literal["int", "float", "bool", "str", "list"]
Style = Literal["separate", "joined", "attached", "switch", "repeated", "assigned", "environment", "positional"]
"""`--x v`, `--x=v`, `-xv`, `--x`, `--x a --x b`, `x=v` (Hydra), a leading `X=v`, `v`."""
Span = tuple[int, int]
"""Words of the pasted command, from the first to before the last."""


@dataclass(frozen=True)
class CommandField:
    """A setting of a command that a person may change."""

    name: str
    type: Kind
    default: Any = field(hash=False)
    """The pasted value, else the script's; None if the script's isn't known or is None."""
    help: str = ""
    choices: tuple[Any, ...] = ()
    group: str = ""
    """The group of the script's parser, or its subcommand."""
    pasted: bool = False
    flag: str = ""
    """What is written before the value; of a switch, what is written for True ("" if nothing is)."""
    off: str = ""
    """What a switch writes for False, "" if nothing is."""
    style: Style = "separate"
    element: Kind = "str"
    """Type of the elements of a list."""
    literals: tuple[str, str] = ("False", "True")
    """The words for False and True, as pasted."""
    certain: bool = False
    """Whether the type is the script's; otherwise it was inferred from the pasted value, and 1 may stand for 1.0."""
    required: bool = False
    spans: tuple[Span, ...] = ()
    """Where it stands in the pasted command; of a leading assignment, nowhere."""
    at: int = -1
    """The word of the pasted command before which it is written if it wasn't pasted; -1 for the end."""

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """Return the field of its JSON."""
        known = {each.name: plain[each.name] for each in fields(cls) if each.name in plain}
        known["choices"] = tuple(known.get("choices", ()))
        known["literals"] = tuple(known.get("literals", ("False", "True")))
        known["spans"] = tuple((first, end) for first, end in known.get("spans", ()))
        return cls(**known)

    def is_default(self, value: Any) -> bool:
        """Return whether a value is this field's default; 1 and True are two values, 1 and 1.0 are one."""
        return value == self.default and isinstance(value, bool) == isinstance(self.default, bool)

    def written(self, value: Any) -> list[list[str]]:
        """Return the words for a value, one list for each time that the option is repeated. None writes nothing."""
        if value is None:
            return []
        match self.style:
            case "switch":
                word = self.flag if value else self.off
                return [[word] * (value if type(value) is int else 1)] if word and value is not None else []
            case "repeated":
                return [self._option(self.text_of(each), joined=False) for each in _listed(value)]
            case "assigned":
                return [[f"{self.flag}={self.text_of(value)}"]]
            case "positional":
                return [[self.text_of(each) for each in _listed(value)]]
        if isinstance(value, list) and self.type == "list":
            return [[self.flag, *map(self.text_of, value)]]
        return [self._option(self.text_of(value), joined=self.style == "joined")]

    def text_of(self, value: Any) -> str:
        """Return a value as the word that a script reads."""
        if isinstance(value, bool):
            return self.literals[value]
        if isinstance(value, float) and value < 0 and self.style not in ("joined", "assigned", "environment"):
            return format(Decimal(repr(value)), "f") if value > -1e300 else repr(value)  # argparse: -1e-05 is an option
        if isinstance(value, list):
            return f"[{','.join(map(self.text_of, value))}]"
        return str(value)

    def _option(self, text: str, *, joined: bool) -> list[str]:
        """Return an option's words; a value that looks like an option is joined to its flag."""
        if self.style == "attached":
            return [f"{self.flag}{text}"]
        if joined or (text.startswith("-") and len(text) > 1):
            return [f"{self.flag}{text}" if len(self.flag) == 2 and not joined else f"{self.flag}={text}"]
        return [self.flag, text]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
