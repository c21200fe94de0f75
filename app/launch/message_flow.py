"""The animated message flow of an experiment: which process sends what to which, and when.

A `FlowScene` is data; `app/static/page/flow.js` draws it as SVG and moves the messages. Lengths are units of the
scene's 320 x 160 view; times are fractions of one cycle of the animation.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from engine.experiment.definition import Flow, MessagePattern

Kind = Literal["process", "memory", "slot"]
Sort = Literal["forward", "reply", "stale"]
Point = tuple[float, float]
CYCLE_S = 7.0
HEIGHT = 160
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

    def to_json(self, flows: Sequence[Flow]) -> dict[str, Any]:
        """Return the scene for the browser, with its flows in words as the text alternative."""
        return asdict(self) | {
            "cycle_s": CYCLE_S,
            "travel": TRAVEL,
            "height": HEIGHT,
            "alt": in_words(flows),
            "flows": list(lines(flows)),
        }


def lines(flows: Sequence[Flow]) -> list[tuple[str, str]]:
    """Return a pair for each flow: sender and receiver, and what is sent."""
    return [(f"{flow.source} → {flow.target}", flow.what) for flow in flows]


def in_words(flows: Sequence[Flow]) -> str:
    """Return the flows as one sentence."""
    return "; ".join(f"{flow.source} to {flow.target}: {flow.what}" for flow in flows)


def scene(pattern: MessagePattern) -> FlowScene:
    """Return the scene of a message pattern."""
    return _SCENES[pattern]()


def _column(x: float, count: int) -> list[Point]:
    return [(x, 22 + 112 * place / max(1, count - 1)) for place in range(count)]


def _send(origin: Point, target: Point, start: float, *, stays: float = 0.0, sort: Sort = "forward") -> FlowMessage:
    return FlowMessage(origin, target, start, start + TRAVEL + stays, sort)


def _batched_server() -> FlowScene:
    """Trainers push when they are ready; the server updates once for all of them, then answers all."""
    trainers, server = _column(40, 3), (262.0, 75.0)
    slots = [(205.0, y) for y in (53.0, 75.0, 97.0)]
    pushes = [
        _send(at, slot, start, stays=0.52 - start - TRAVEL)
        for at, slot, start in zip(trainers, slots, (0.02, 0.2, 0.34), strict=True)
    ]
    replies = [_send(server, at, 0.62, sort="reply") for at in trainers]
    nodes = [FlowNode(at, f"trainer {number}", flashes=(0.82,)) for number, at in enumerate(trainers, 1)]
    nodes += [FlowNode(at, kind="slot") for at in slots]
    return FlowScene((*nodes, FlowNode(server, "server", "memory", flashes=(0.55,))), (*pushes, *replies))


def _asynchronous_server() -> FlowScene:
    """Each gradient is applied when it arrives; the slow trainer's was computed from old weights."""
    trainers, server = _column(40, 3), (262.0, 75.0)
    starts: tuple[tuple[float, ...], ...] = ((0.0, 0.34, 0.68), (0.12, 0.5), (0.42,))
    messages, flashes = [], []
    for at, begins in zip(trainers, starts, strict=True):
        for start in begins:
            arrival = start + TRAVEL
            flashes.append(arrival)
            messages += [
                _send(at, server, start, sort="stale" if len(begins) == 1 else "forward"),
                _send(server, at, arrival + 0.01, sort="reply"),
            ]
    names = ("trainer 1", "trainer 2", "slow trainer")
    nodes = [FlowNode(at, name) for at, name in zip(trainers, names, strict=True)]
    return FlowScene((*nodes, FlowNode(server, "server", "memory", flashes=tuple(sorted(flashes)))), tuple(messages))


def _shared_memory() -> FlowScene:
    """Trainers write into one memory whenever they like; two writes to one cell can collide."""
    trainers = _column(40, 3)
    cells: list[Point] = [(x, y) for y in (53.0, 75.0, 97.0) for x in (236.0, 258.0, 280.0)]
    writes = (
        (0, 4, 0.02),
        (1, 4, 0.05),
        (2, 8, 0.1),
        (0, 1, 0.3),
        (2, 6, 0.38),
        (1, 3, 0.5),
        (2, 3, 0.53),
        (0, 7, 0.66),
        (1, 0, 0.76),
    )
    arrivals: dict[int, list[float]] = {}
    for _, cell, start in writes:
        arrivals.setdefault(cell, []).append(start + TRAVEL)
    nodes = [FlowNode(at, f"trainer {number}") for number, at in enumerate(trainers, 1)]
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
    return FlowScene(tuple(nodes), tuple(_send(trainers[who], cells[cell], start) for who, cell, start in writes))


def _average() -> FlowScene:
    """Every rank trains, then sums travel round a ring until all hold the same average."""
    ranks: list[Point] = [(95.0, 34.0), (225.0, 34.0), (225.0, 116.0), (95.0, 116.0)]
    rounds = (0.3, 0.46, 0.62)
    messages = [
        _send(at, ranks[(place + 1) % 4], start, sort="reply") for start in rounds for place, at in enumerate(ranks)
    ]
    trained = (0.06, 0.12, 0.09, 0.18)
    nodes = [FlowNode(at, f"rank {place}", flashes=(trained[place], 0.8)) for place, at in enumerate(ranks)]
    return FlowScene(tuple(nodes), tuple(messages))


def _batched_requests() -> FlowScene:
    """Observers ask for an action; the agent answers all of a step in one batch."""
    observers, agent = _column(40, 4), (272.0, 75.0)
    slots: list[Point] = [(178.0, y) for y in (42.0, 64.0, 86.0, 108.0)]
    starts = (0.02, 0.1, 0.06, 0.18)
    asked = [
        _send(at, slot, start, stays=0.36 - start - TRAVEL)
        for at, slot, start in zip(observers, slots, starts, strict=True)
    ]
    batch = [_send(slot, agent, 0.36) for slot in slots]
    replies = [_send(agent, at, 0.6, sort="reply") for at in observers]
    nodes = [FlowNode(at, f"observer {number}", flashes=(0.76,)) for number, at in enumerate(observers, 1)]
    nodes += [FlowNode(at, "one batch" if place == 3 else "", "slot") for place, at in enumerate(slots)]
    return FlowScene((*nodes, FlowNode(agent, "agent", "memory", flashes=(0.52,))), (*asked, *batch, *replies))


def _queue() -> FlowScene:
    """Collectors put batches into a bounded queue; the learner takes them when it is full."""
    collectors, learner = _column(40, 3), (276.0, 75.0)
    slots: list[Point] = [(x, 75.0) for x in (204.0, 180.0, 156.0, 132.0)]
    puts = ((0, 0.02), (2, 0.08), (1, 0.2), (0, 0.28))
    filled = [
        _send(collectors[who], slot, start, stays=0.5 - start - TRAVEL)
        for (who, start), slot in zip(puts, slots, strict=True)
    ]
    taken = [_send(slot, learner, 0.5) for slot in slots]
    versions = [_send(learner, at, 0.72, sort="reply") for at in collectors]
    nodes = [FlowNode(at, f"collector {number}") for number, at in enumerate(collectors, 1)]
    nodes += [FlowNode(at, "bounded queue" if place == 1 else "", "slot") for place, at in enumerate(slots)]
    return FlowScene((*nodes, FlowNode(learner, "learner", "memory", flashes=(0.66,))), (*filled, *taken, *versions))


def _stages() -> FlowScene:
    """Micro-batches go forward through the stages one behind the other, and their gradients come back."""
    stages: list[Point] = [(70.0, 75.0), (160.0, 75.0), (250.0, 75.0)]
    step, count = 0.07, 4
    messages: list[FlowMessage] = []
    busy: dict[int, list[float]] = {place: [] for place in range(3)}
    for micro in range(count):
        for place in range(3):
            start = (micro + place) * step
            origin = (stages[place][0] - 70 if place == 0 else stages[place - 1][0], 66.0)
            messages.append(FlowMessage(origin, (stages[place][0], 66.0), start, start + step))
            busy[place].append(start + step)
        for place in range(2):
            start = (count + 2 + micro + place) * step + 0.02
            messages.append(
                FlowMessage((stages[2 - place][0], 84.0), (stages[1 - place][0], 84.0), start, start + step, "reply")
            )
            busy[1 - place].append(start + step)
    nodes = [
        FlowNode(at, f"stage {place + 1}", "memory", flashes=tuple(busy[place])) for place, at in enumerate(stages)
    ]
    return FlowScene(tuple(nodes), tuple(messages))


def _one_process() -> FlowScene:
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


_SCENES = {
    "batched server": _batched_server,
    "asynchronous server": _asynchronous_server,
    "shared memory": _shared_memory,
    "average": _average,
    "batched requests": _batched_requests,
    "queue": _queue,
    "stages": _stages,
    "one process": _one_process,
}
