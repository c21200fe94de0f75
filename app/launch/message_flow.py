"""The animated message flow of an experiment: which process sends what to which, and when.

A `FlowScene` is data; `app/static/page/flow.js` draws it as SVG and moves the messages. Lengths are units of the
scene's view, 320 wide; times are fractions of one cycle of the animation.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import cos, pi, sin
from typing import Any, Literal

from engine.experiment import Flow, MessagePattern

Kind = Literal["process", "memory", "slot"]
Sort = Literal["forward", "reply", "stale"]
Point = tuple[float, float]
CYCLE_S = 7.0
HEIGHT = 160
MOST = 6
"""Maximum number of processes drawn of one kind; the last one then stands for the others too."""
TRAVEL = 0.14
"""The time of one message between two nodes."""


@dataclass(frozen=True)
class FlowNode:
    """A process, a piece of memory, or a slot that holds one message."""

    at: Point
    label: str = ""
    kind: Kind = "process"
    flashes: tuple[float, ...] = ()
    """When it computes or is updated."""
    clashes: tuple[float, ...] = ()
    """When two processes write to it at the same time."""


@dataclass(frozen=True)
class FlowMessage:
    """A message that leaves `origin` at `start` and is shown at `target` from its arrival until `until`."""

    origin: Point
    target: Point
    start: float
    until: float
    sort: Sort = "forward"


@dataclass(frozen=True)
class FlowScene:
    """All that the browser draws."""

    nodes: tuple[FlowNode, ...]
    messages: tuple[FlowMessage, ...]
    height: int = HEIGHT

    def to_json(self, flows: Sequence[Flow]) -> dict[str, Any]:
        """Return the scene for the browser, with its flows in words as the text alternative."""
        return asdict(self) | {
            "cycle_s": CYCLE_S,
            "travel": TRAVEL,
            "alt": in_words(flows),
            "flows": list(lines(flows)),
        }


def lines(flows: Sequence[Flow]) -> list[tuple[str, str]]:
    """Return a pair for each flow: sender and receiver, and what is sent."""
    return [(f"{flow.source} → {flow.target}", flow.what) for flow in flows]


def in_words(flows: Sequence[Flow]) -> str:
    """Return the flows as one sentence."""
    return "; ".join(f"{flow.source} to {flow.target}: {flow.what}" for flow in flows)


def scene(pattern: MessagePattern, count: int | None = None, kind: str = "") -> FlowScene:
    """Return the scene of a message pattern with `count` of the processes that an experiment may have several of
    (default: a typical number), each called a `kind` (default: as usual in that pattern).
    """
    draw, usual, usual_kind = _SCENES[pattern]
    return draw(_Several(max(1, count or usual), kind or usual_kind))


@dataclass(frozen=True)
class _Several:
    """The processes of one kind: how many there are, and how many of them are drawn."""

    count: int
    kind: str

    @property
    def drawn(self) -> int:
        return min(self.count, MOST)

    @property
    def middle(self) -> float:
        """The middle of their column."""
        return 78.0 if self.drawn <= 3 else 22 + 42 * (self.drawn - 1) / 2

    @property
    def height(self) -> int:
        """The height of the scene, with room for the labels."""
        return max(HEIGHT, round(2 * self.middle) + 4)

    def column(self, x: float) -> list[Point]:
        """Return their places, one below the other."""
        gap = 0.0 if self.drawn == 1 else 2 * (self.middle - 22) / (self.drawn - 1)
        return [(x, self.middle + gap * (place - (self.drawn - 1) / 2)) for place in range(self.drawn)]

    def slots(self, x: float) -> list[Point]:
        """Return the places of a slot for each."""
        return [(x, self.middle + 22 * (place - (self.drawn - 1) / 2)) for place in range(self.drawn)]

    def spread(self, first: float, last: float) -> list[float]:
        """Return a moment for each, from the first to the last one."""
        return [first + (last - first) * place / max(1, self.drawn - 1) for place in range(self.drawn)]

    @property
    def names(self) -> list[str]:
        """Their labels; the last one names the last process."""
        names = [f"{self.kind} {number}" for number in range(1, self.drawn + 1)]
        return [*names[:-1], f"… {self.kind} {self.count}"] if self.count > self.drawn else names


def _send(origin: Point, target: Point, start: float, *, stays: float = 0.0, sort: Sort = "forward") -> FlowMessage:
    return FlowMessage(origin, target, start, start + TRAVEL + stays, sort)


def _batched_server(group: _Several) -> FlowScene:
    """Trainers push when they are ready; the server updates once for all of them, then answers all."""
    trainers, slots, server = group.column(40), group.slots(205), (262.0, group.middle)
    pushes = [
        _send(at, slot, start, stays=0.52 - start - TRAVEL)
        for at, slot, start in zip(trainers, slots, group.spread(0.02, 0.34), strict=True)
    ]
    replies = [_send(server, at, 0.62, sort="reply") for at in trainers]
    nodes = [FlowNode(at, name, flashes=(0.82,)) for at, name in zip(trainers, group.names, strict=True)]
    nodes += [FlowNode(at, kind="slot") for at in slots]
    served = FlowNode(server, "server (ps)", "memory", flashes=(0.55,))
    return FlowScene((*nodes, served), (*pushes, *replies), group.height)


def _asynchronous_server(group: _Several) -> FlowScene:
    """Each gradient is applied when it arrives. The last trainer's, drawn with longer steps, is of old weights."""
    trainers, server = group.column(40), (262.0, group.middle)
    starts: list[tuple[float, ...]] = [(0.0, 0.34, 0.68)]
    starts += [(0.07 + 0.05 * place, 0.45 + 0.05 * place) for place in range(1, group.drawn - 1)]
    starts += [(0.42,)] * (group.drawn > 1)
    messages, flashes = [], []
    for at, begins in zip(trainers, starts, strict=True):
        for start in begins:
            arrival = start + TRAVEL
            flashes.append(arrival)
            messages += [
                _send(at, server, start, sort="stale" if len(begins) == 1 else "forward"),
                _send(server, at, arrival + 0.01, sort="reply"),
            ]
    nodes = [FlowNode(at, name) for at, name in zip(trainers, group.names, strict=True)]
    served = FlowNode(server, "server (ps)", "memory", flashes=tuple(sorted(flashes)))
    return FlowScene((*nodes, served), tuple(messages), group.height)


def _shared_memory(group: _Several) -> FlowScene:
    """Trainers write into one memory whenever they like; two writes to one cell can collide."""
    trainers = group.column(40)
    cells: list[Point] = [(x, group.middle + y) for y in (-22.0, 0.0, 22.0) for x in (236.0, 258.0, 280.0)]
    planned = ((4, 0.02), (4, 0.05), (8, 0.1), (1, 0.3), (6, 0.38), (3, 0.5), (3, 0.53), (7, 0.66), (0, 0.76))
    writes = [(place % group.drawn, *write) for place, write in enumerate(planned)]
    if group.drawn == 1:  # one trainer never collides with itself
        writes = [write for write in writes if write[2] not in (0.05, 0.53)]
    arrivals: dict[int, list[float]] = {}
    for _, cell, start in writes:
        arrivals.setdefault(cell, []).append(start + TRAVEL)
    nodes = [FlowNode(at, name) for at, name in zip(trainers, group.names, strict=True)]
    nodes += [
        FlowNode(
            at,
            "shared weights" if place == 7 else "",
            "slot",
            flashes=tuple(times) if len(times := arrivals.get(place, [])) == 1 else (),
            clashes=(max(times),) if len(times) > 1 else (),
        )
        for place, at in enumerate(cells)
    ]
    sent = tuple(_send(trainers[who], cells[cell], start) for who, cell, start in writes)
    return FlowScene(tuple(nodes), sent, group.height)


def _average(group: _Several) -> FlowScene:
    """Every rank trains, then sums travel round a ring until all hold the same average."""
    turns = [2 * pi * (place / group.drawn - 0.25 - 0.5 / group.drawn) for place in range(group.drawn)]
    ranks: list[Point] = [(160 + 92 * cos(turn), 75 + 58 * sin(turn)) for turn in turns]
    messages = [
        _send(at, ranks[(place + 1) % len(ranks)], start, sort="reply")
        for start in (0.3, 0.46, 0.62)
        for place, at in enumerate(ranks)
        if len(ranks) > 1
    ]
    trained = (0.06, 0.12, 0.09, 0.18, 0.03, 0.15)
    nodes = [
        FlowNode(at, name, flashes=(moment, 0.8)) for at, name, moment in zip(ranks, group.names, trained, strict=False)
    ]
    return FlowScene(tuple(nodes), tuple(messages))


def _batched_requests(group: _Several) -> FlowScene:
    """Observers ask for an action; the agent answers all of a step in one batch."""
    observers, slots, agent = group.column(40), group.slots(178), (272.0, group.middle)
    starts = (0.02, 0.1, 0.06, 0.18, 0.04, 0.14)
    asked = [
        _send(at, slot, start, stays=0.36 - start - TRAVEL)
        for at, slot, start in zip(observers, slots, starts, strict=False)
    ]
    batch = [_send(slot, agent, 0.36) for slot in slots]
    replies = [_send(agent, at, 0.6, sort="reply") for at in observers]
    nodes = [FlowNode(at, name, flashes=(0.76,)) for at, name in zip(observers, group.names, strict=True)]
    nodes += [FlowNode(at, "one batch" if at == slots[-1] else "", "slot") for at in slots]
    answering = FlowNode(agent, "agent", "memory", flashes=(0.52,))
    return FlowScene((*nodes, answering), (*asked, *batch, *replies), group.height)


def _queue(group: _Several) -> FlowScene:
    """Collectors put batches into a bounded queue; the learner takes them when it is full."""
    collectors, learner = group.column(40), (276.0, group.middle)
    size = max(4, group.drawn)
    slots: list[Point] = [(204.0 - 24 * place, group.middle) for place in range(size)]
    filled = [
        _send(
            collectors[place % group.drawn], slot, 0.02 + 0.3 * place / size, stays=0.48 - 0.3 * place / size - TRAVEL
        )
        for place, slot in enumerate(slots)
    ]
    taken = [_send(slot, learner, 0.5) for slot in slots]
    versions = [_send(learner, at, 0.72, sort="reply") for at in collectors]
    nodes = [FlowNode(at, name) for at, name in zip(collectors, group.names, strict=True)]
    nodes += [FlowNode(at, "bounded queue" if place == 1 else "", "slot") for place, at in enumerate(slots)]
    learning = FlowNode(learner, "learner", "memory", flashes=(0.66,))
    return FlowScene((*nodes, learning), (*filled, *taken, *versions), group.height)


def _stages(group: _Several) -> FlowScene:
    """Micro-batches go forward through the stages one behind the other, and their gradients come back."""
    number, count = group.drawn, 4
    left = 160.0 if number == 1 else 70.0 if number <= 4 else 40.0
    stages: list[Point] = [(left + (320 - 2 * left) * place / max(1, number - 1), 75.0) for place in range(number)]
    step = min(0.07, 0.93 / (2 * (count + number) - 3))
    messages: list[FlowMessage] = []
    busy: dict[int, list[float]] = {place: [] for place in range(number)}
    for micro in range(count):
        for place in range(number):
            start = (micro + place) * step
            origin = (0.0 if place == 0 else stages[place - 1][0], 66.0)
            messages.append(FlowMessage(origin, (stages[place][0], 66.0), start, start + step))
            busy[place].append(start + step)
        for place in range(number - 1):
            start = (count + number - 1 + micro + place) * step + 0.02
            origin, target = stages[number - 1 - place], stages[number - 2 - place]
            messages.append(FlowMessage((origin[0], 84.0), (target[0], 84.0), start, start + step, "reply"))
            busy[number - 2 - place].append(start + step)
    nodes = [
        FlowNode(at, name, "memory", flashes=tuple(busy[place]))
        for place, (at, name) in enumerate(zip(stages, group.names, strict=True))
    ]
    return FlowScene(tuple(nodes), tuple(messages))


def _one_process(_: _Several) -> FlowScene:
    """One process reads a mini-batch and updates the weights, again and again."""
    data, trainer, weights = (50.0, 75.0), (160.0, 75.0), (270.0, 75.0)
    starts = (0.0, 0.33, 0.66)
    messages = [
        each for start in starts for each in (_send(data, trainer, start), _send(trainer, weights, start + 0.17))
    ]
    arrivals = tuple(start + 0.17 + TRAVEL for start in starts)
    return FlowScene(
        (
            FlowNode(data, "data", "memory"),
            FlowNode(trainer, "trainer"),
            FlowNode(weights, "weights", "memory", flashes=arrivals),
        ),
        tuple(messages),
    )


_SCENES: dict[MessagePattern, tuple[Callable[[_Several], FlowScene], int, str]] = {
    "batched server": (_batched_server, 3, "trainer"),
    "asynchronous server": (_asynchronous_server, 3, "trainer"),
    "shared memory": (_shared_memory, 3, "trainer"),
    "average": (_average, 4, "rank"),
    "batched requests": (_batched_requests, 4, "observer"),
    "queue": (_queue, 3, "collector"),
    "stages": (_stages, 3, "stage"),
    "one process": (_one_process, 1, "trainer"),
}
"""Each scene; how many processes it has, and of what kind, unless the form says so."""
