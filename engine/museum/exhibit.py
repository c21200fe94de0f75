"""The exhibits: the sign of each, read from the docstring of its module without importing it, and what they return.
Torch-free.
"""

import ast
import operator
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.errors import UnknownName

Way = Literal["right", "wrong"]
WAYS: tuple[Way, Way] = ("right", "wrong")
Version = Callable[..., Any]
"""The wrong or the right function of an exhibit, as its `measure` gets it."""
SYSTEMS = ("parameter_server", "async_sgd", "sync_sgd", "hogwild", "batched_reinforce", "dppo", "pipeline")
"""Experiments whose sources have a fault, in the order of the page."""
HELD, BROKEN, UNSEEN, ERROR = "invariant held", "invariant broken", "fault not seen", "error raised"
"""Kinds of a run's events, whose details begin with the exhibit's name: the right version holds, the wrong one breaks,
the fault did not occur this time, the wrong version raised an error.
"""
COMPARED = {"=": operator.eq, "<=": operator.le, ">=": operator.ge, ">": operator.gt}


@dataclass(frozen=True)
class Outcome:
    """Values by the sign's keys, the chart's values by x (ascending), and the error that the code raised, if any."""

    numbers: Mapping[str, float]
    series: Mapping[int, float]
    error: str = ""


@dataclass(frozen=True)
class Number:
    """One value that both versions of an exhibit measure."""

    key: str
    label: str
    unit: str = ""


@dataclass(frozen=True)
class Sign:
    """The texts of one exhibit, shown verbatim: where the code was published, the behaviour of the published and of the
    correct code, what the chart shows, its axes, the values (the first one summarises the exhibit).

    `rule` is the invariant, for which the engine is tested too: a value's key, an operator, and another key or a
    number. `broken` is the error where it does not hold, with values in braces, `guard` the engine's test (file, `::`,
    name).
    """

    path: Path
    title: str
    system: str
    """The experiment whose source has the fault."""
    source: str
    wrong: str
    right: str
    seen: str
    x: str
    y: str
    numbers: tuple[Number, ...]
    rule: str
    broken: str
    guard: str
    listens: str = ""
    """Not empty if it opens network listeners."""

    @property
    def name(self) -> str:
        """The name of its module."""
        return self.path.stem

    @property
    def metric(self) -> str:
        """The metric of its chart."""
        return f"museum/{self.name}"

    def metric_of(self, number: Number) -> str:
        """Return the metric of one of its values."""
        return f"{self.metric}.{number.key}"

    def complaint(self, numbers: Mapping[str, float]) -> str:
        """Return the error of the invariant, empty where it holds."""
        key, compared, limit = self.rule.split()
        holds = COMPARED[compared](numbers[key], numbers[limit] if limit in numbers else float(limit))
        return "" if holds else self.broken.format(**numbers)

    def code(self, way: Way) -> str:
        """Return the source of the right or wrong function, after the definitions that only it uses."""
        text = self.path.read_text()
        defined = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}

        def used(name: str) -> set[str]:
            inner = {node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name)} & set(defined)
            return {name}.union(*map(used, inner - {name}))

        own = used(way) - used("wrong" if way == "right" else "right")
        return "\n\n\n".join(ast.get_source_segment(text, defined[name]) or "" for name in defined if name in own)


def _read(path: Path) -> Sign:
    """Read the sign of a module: the title, and fields that begin with a name and a colon."""
    head, text = path.read_text().split('"""')[1].split("\n", 1)
    title, system = head.removesuffix(".").split(": a fault of ")
    _, *parts = re.split(r"^(\w+):", text, flags=re.M)
    fields = {name: " ".join(words.split()) for name, words in zip(parts[::2], parts[1::2], strict=True)}
    y, x = fields.pop("chart").split(" against ")
    values = re.findall(r"(\w+) = (.+?)(?: \(([^()]*)\))?(?:; |$)", fields.pop("values"))
    return Sign(path, title, system, x=x, y=y, numbers=tuple(Number(*each) for each in values), **fields)


_FOUND = map(_read, (Path(__file__).parent / "exhibits").glob("[a-z]*.py"))
SIGNS = tuple(sorted(_FOUND, key=lambda each: (SYSTEMS.index(each.system), each.name)))


def sign(name: str) -> Sign:
    """Return the sign of an exhibit; raises UnknownName, which suggests the closest name."""
    found = {each.name: each for each in SIGNS}
    if name not in found:
        raise UnknownName("exhibit", name, list(found), field="exhibit")
    return found[name]


def crowd(count: int, act: Callable[[int], object]) -> None:
    """Call `act(0)` to `act(count - 1)` in one thread each, started together; raise the first failure."""
    ready = threading.Barrier(count)

    def attempt(place: int) -> None:
        ready.wait()
        act(place)

    with ThreadPoolExecutor(count) as pool:
        for each in [pool.submit(attempt, place) for place in range(count)]:
            each.result()
