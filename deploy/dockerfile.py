"""Reads a Dockerfile as far as ours goes: stages of instructions, with arguments and variables filled in."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
KNOWN = frozenset(
    [
        "ARG",
        "FROM",
        "ENV",
        "WORKDIR",
        "COPY",
        "RUN",
        "LABEL",
        "USER",
        "VOLUME",
        "EXPOSE",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    ]
)


@dataclass(frozen=True)
class Instruction:
    """One instruction: its word, and the rest as it is written."""

    word: str
    rest: str

    @property
    def words(self) -> list[str]:
        """The rest as words: a JSON list, or as a shell reads it."""
        return list(json.loads(self.rest)) if self.rest.startswith("[") else shlex.split(self.rest)


@dataclass
class BuildStage:
    """What makes one root: the base it begins with, its name (may be empty), and what is done to it."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def last(self, word: str) -> Instruction | None:
        """Return the last instruction of a kind: the one that counts for CMD, USER and their like."""
        return next((each for each in reversed(self.instructions) if each.word == word), None)


def read(path: Path, arguments: Mapping[str, str] = {}) -> list[BuildStage]:
    """Return the stages of a Dockerfile; raises ValueError for an instruction that is not known here."""
    known: dict[str, str] = {}
    stages: list[BuildStage] = []
    for each in instructions(path.read_text()):
        if each.word not in KNOWN:
            raise ValueError(f"{path.name}: {each.word} is not carried out here.")
        if each.word == "ARG" and not stages:
            name, _, default = each.rest.partition("=")
            known[name] = arguments.get(name, default)
        elif each.word == "FROM":
            base, *name_of = re.split(r"\s+[Aa][Ss]\s+", filled(each.rest, known))
            stages.append(BuildStage(base, name_of[0] if name_of else ""))
        else:
            stages[-1].instructions.append(each)
    return stages


def instructions(text: str) -> list[Instruction]:
    """Return the instructions of a Dockerfile's text, continued lines joined, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [
        Instruction(word.upper(), rest.strip())
        for word, _, rest in (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    ]


def filled(text: str, variables: Mapping[str, str]) -> str:
    """Return text with `$NAME` and `${NAME}` as the variables have them; unknown ones are empty, as Docker
    takes them.
    """
    return _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], ""), text)


def pairs(rest: str) -> dict[str, str]:
    """Return what an ENV or LABEL sets."""
    return dict(word.partition("=")[::2] for word in shlex.split(rest))


def sources(instruction: Instruction) -> tuple[str, Sequence[str], str]:
    """Return whom a COPY copies from (empty: the checkout), what, and to where."""
    words = instruction.words
    origin = next((word.removeprefix("--from=") for word in words if word.startswith("--from=")), "")
    *what, where = [word for word in words if not word.startswith("--")]
    return origin, what, where
