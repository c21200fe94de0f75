"""Parse our Dockerfile: stages of instructions, with arguments and variables substituted."""

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
    """One instruction: its keyword and the rest of the line."""

    word: str
    rest: str

    @property
    def words(self) -> list[str]:
        """Return the rest as words: a JSON list, or split like a shell."""
        return list(json.loads(self.rest)) if self.rest.startswith("[") else shlex.split(self.rest)


@dataclass
class BuildStage:
    """One build stage: base, name (may be empty), instructions."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def last(self, word: str) -> Instruction | None:
        """Return the last instruction of a kind, which is the effective one for CMD, USER and others."""
        return next((each for each in reversed(self.instructions) if each.word == word), None)


def read(path: Path, arguments: Mapping[str, str] = {}) -> list[BuildStage]:
    """Return the stages of a Dockerfile; raises ValueError for an unsupported instruction."""
    known: dict[str, str] = {}
    stages: list[BuildStage] = []
    for each in instructions(path.read_text()):
        if each.word not in KNOWN:
            raise ValueError(f"{path.name}: instruction {each.word} is not supported.")
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
    """Return the instructions of a Dockerfile's text, with continued lines joined and comments removed."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [
        Instruction(word.upper(), rest.strip())
        for word, _, rest in (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    ]


def filled(text: str, variables: Mapping[str, str]) -> str:
    """Return text with `$NAME` and `${NAME}` substituted; unknown variables are empty, as in Docker."""
    return _VARIABLE.sub(lambda found: variables.get(found[1] or found[2], ""), text)


def pairs(rest: str) -> dict[str, str]:
    """Return the variables that an ENV or LABEL sets."""
    return dict(word.partition("=")[::2] for word in shlex.split(rest))


def sources(instruction: Instruction) -> tuple[str, Sequence[str], str]:
    """Return the stage that a COPY copies from (empty: the checkout), the sources and the destination."""
    words = instruction.words
    origin = next((word.removeprefix("--from=") for word in words if word.startswith("--from=")), "")
    *what, where = [word for word in words if not word.startswith("--")]
    return origin, what, where
