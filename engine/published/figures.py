"""The published figures; register new ones in FIGURES."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.errors import UnknownName
from engine.registry import experiment
from engine.store import Launch, SweepLaunch

# ---- Published figures: claim, source, published values, and the sweeps that reproduce them. Torch-free ------------

WHOLE, EXECUTION = "perf/whole_time_s", "perf/execution_time_s"
"""Start-up plus execution, as in published timings; and execution only."""
PASSES = "passes"
"""The axis of a learning curve: passes over the data by all ranks."""
PRESET = "published"
"""The preset with the settings of the source, of each experiment that has a figure."""
Size = Literal["full", "reduced"]
SIZES: tuple[Size, ...] = ("full", "reduced")


@dataclass(frozen=True)
class PublishedValue:
    """One published value."""

    metric: str
    x: float
    value: float
    spread: float = 0.0
    """Half the width of the range around the value; 0 where the source states none."""


@dataclass(frozen=True)
class Version:
    """One sweep that reproduces a figure."""

    grid: Mapping[str, tuple[Any, ...]]
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Differences from the preset in every run."""
    seeds: int = 5
    reduced: tuple[str, ...] = ()
    """Reductions from the published work, one sentence each; empty for the full version."""
    tested_every: float = 1.0
    """Passes between two tests of a run, where the axis is PASSES."""


@dataclass(frozen=True)
class Figure:
    """One published result."""

    name: str
    title: str
    claim: str
    """The source's claim, in one sentence."""
    source: str
    experiment: str
    axis: str
    """The config field along x, or PASSES."""
    metric: str
    """The y-axis: WHOLE, or a metric."""
    versions: Mapping[Size, Version]
    line: str = ""
    """The config field that separates lines; empty where there is one line."""
    published: tuple[PublishedValue, ...] = ()
    """Empty where the source shows a picture without numbers."""
    published_label: str = "published"
    assumed: str = ""
    """The part of the set-up that the source leaves out, as we assumed it."""
    timed: bool = False
    """Whether it measures time: its runs are exclusive and must share the same hardware."""
    gpus: int = 0
    """GPUs that the source's timings used."""
    note: str = ""
    """Caveat for readers."""

    def key(self, size: Size) -> str:
        """Return the stored name of a sweep of this size."""
        return f"{self.name}/{size}"

    def sweep(self, size: Size, owner: str = "") -> SweepLaunch:
        """Return the sweep that reproduces it in a size, to launch."""
        version = self.versions[size]
        settings = {**experiment(self.experiment).preset(PRESET).settings, **version.changes}
        base = {name: value for name, value in settings.items() if name not in version.grid}
        runs = Launch(self.experiment, base, owner, PRESET, f"{self.title} ({size})")
        return SweepLaunch(runs, version.grid, version.seeds, exclusive=self.timed, figure=self.key(size))


# ---- The published figures; register new ones in FIGURES -----------------------------------------------------------

ACCURACY, LOSS = "test/accuracy", "test/loss"
_SERIES = "A blog series on parallel SGD in PyTorch"
_TIMES_S = (16.45, 12.33, 10.16, 9.08)
_SMALL = {"model": "small_resnet", "image_size": 64, "mode": "rpc"}
_LESS = ("A small ResNet on 64-pixel images instead of a ResNet-50 on 128-pixel images.",)
_LINES = ("bounded_queue", "reader_writer")
_MODES = ("batched", "per_call")
_TRAINERS = {"trainers": (4,)}

REINFORCE = Figure(
    name="reinforce",
    title="Batched RPC: time by observers",
    claim="Answering all observers of a step in one batch is faster than answering each individually, and the time "
    "grows more slowly with their number.",
    source="PyTorch tutorial on batch RPC processing: a picture without numbers, 1 to 10 observers, one GPU.",
    experiment="batched_reinforce",
    axis="observers",
    metric=WHOLE,
    line="mode",
    versions={
        "full": Version(
            {"observers": tuple(range(1, 11)), "mode": _MODES},
            {"variant": "tutorial", "start_method": "spawn", "device": "cpu"},
        ),
        "reduced": Version(
            {"observers": (1, 2, 4, 8), "mode": _MODES},
            {"episodes": 5},
            reduced=(
                "The engine variant with its warm start, instead of the published code structure.",
                "5 rounds instead of 10.",
                "1, 2, 4 and 8 observers instead of 1 to 10.",
            ),
        ),
    },
    assumed="500 steps per round, one environment per observer",
    timed=True,
    note="No numbers are published: compare the shapes. Start-up is the same in both modes.",
)


def _pipeline(name: str, title: str, claim: str, splits: tuple[int, ...], label: str, note: str) -> Figure:
    grid = {"splits": tuple(sorted(splits))}
    return Figure(
        name=f"pipeline_{name}",
        title=f"Pipeline: time by splits, {title}",
        claim=claim,
        source="A public discussion of the tutorial's example (pytorch/examples#749): 16.45, 12.33, 10.16 and 9.08 s "
        "for 3 batches of 120 images on two GPUs.",
        experiment="pipeline",
        axis="splits",
        metric=WHOLE,
        published=tuple(PublishedValue(WHOLE, *point) for point in zip(splits, _TIMES_S, strict=True)),
        published_label=f"published, {label}",
        versions={"full": Version(grid), "reduced": Version(grid, _SMALL, reduced=_LESS)},
        timed=True,
        gpus=2,
        note=note,
    )


AS_READ = _pipeline(
    "as_read",
    "as the source interpreted it",
    "More splits are faster: the time decreases over 1, 2, 4 and 8 splits.",
    (1, 2, 4, 8),
    "as interpreted",
    "The source's code used the split count as a micro-batch size: 1 split was 120 micro-batches of 1 image. "
    "Here splits are a count, so this sweep is the experiment that the source meant to run.",
)
AS_RUN = _pipeline(
    "as_run",
    "as actually run",
    "Fewer, larger micro-batches are faster: the time decreases over 120, 60, 30 and 15 of 1, 2, 4 and 8 images.",
    (120, 60, 30, 15),
    "at the actual splits",
    "The same four times at the actual splits of the source's code; the source measured no run without a pipeline.",
)

SERVER = Figure(
    name="parameter_server",
    title="Parameter server on MNIST: 96.96 %",
    claim="A server that averages the trainers' gradients reaches 96.96 % test accuracy in 10 epochs.",
    source=f"{_SERIES}, which calls the method asynchronous: 96.96 %.",
    experiment="parameter_server",
    axis=PASSES,
    metric=ACCURACY,
    published=(PublishedValue(ACCURACY, 10, 96.96),),
    versions={
        "full": Version(_TRAINERS, seeds=10),
        "reduced": Version(_TRAINERS, {"epochs": 3}, reduced=("3 passes over the data instead of 10.",)),
    },
    assumed="4 trainers and a batch size of 32",
    note="Each step waits for all gradients, so the method is synchronous. The batch size of 32 is chosen by its "
    "outcome: with 64, runs end about 2 points below the published value.",
)

HOGWILD = Figure(
    name="hogwild",
    title="Hogwild! on MNIST: 98.98 %",
    claim="Four processes with lock-free shared weights reach 98.98 % accuracy, a parameter server 96.96 %.",
    source=f"{_SERIES}: 98.98 % test accuracy and a test loss of 0.0325 with 4 processes and 10 epochs each.",
    experiment="hogwild",
    axis=PASSES,
    metric=ACCURACY,
    published=(PublishedValue(ACCURACY, 40, 98.98), PublishedValue(LOSS, 40, 0.0325)),
    versions={
        "full": Version(_TRAINERS, tested_every=4),
        "reduced": Version(
            _TRAINERS,
            {"epochs": 2},
            reduced=("2 epochs per process instead of 10: 8 passes over the data instead of 40.",),
            tested_every=4,
        ),
    },
    note="The source attributes the difference to 96.96 % to the method, but Hogwild! also makes four times the "
    "passes, twice the gradients and eight times the updates.",
)

SYNC = Figure(
    name="sync_sgd",
    title="Synchronous SGD on MNIST: 97.34, 97.94, 97.96 %",
    claim="Trainers that average weights reach 97.34, 97.94 and 97.96 % accuracy over 3 epochs of the published loop.",
    source=f"{_SERIES}: these accuracies, and test losses of 0.0858, 0.0723 and 0.0732.",
    experiment="sync_sgd",
    axis=PASSES,
    metric=ACCURACY,
    published=(
        *(PublishedValue(ACCURACY, x, value) for x, value in ((4, 97.34), (8, 97.94), (12, 97.96))),
        *(PublishedValue(LOSS, x, value) for x, value in ((4, 0.0858), (8, 0.0723), (12, 0.0732))),
    ),
    versions={
        "full": Version(_TRAINERS, tested_every=4),
        "reduced": Version(
            _TRAINERS,
            {"rounds": 3, "evaluate_every": 1},
            reduced=("3 averaging rounds instead of 12, with a test after each instead of after 4, 8 and 12.",),
        ),
    },
    assumed="learning rate 0.01, momentum 0.5 and a batch size of 64",
    note="In the published code all workers share one storage, so it runs Hogwild!; it also tests before averaging.",
)

DPPO = Figure(
    name="dppo",
    title="DPPO: bounded queue vs. reader-writer",
    claim="A bounded queue discards no steps and collectors rarely wait, so the same number of steps takes less time.",
    source="A note on distributed PPO on why its reader-writer version leaves the CPU idle, without numbers.",
    experiment="dppo",
    axis="collectors",
    metric=WHOLE,
    line="mode",
    versions={
        "full": Version({"collectors": (1, 2, 4), "mode": _LINES}, {"stop_when_solved": False}),
        "reduced": Version(
            {"collectors": (2, 4), "mode": _LINES},
            {"stop_when_solved": False, "total_steps": 20_000, "evaluation_episodes": 5, "render_every_s": 0},
            reduced=(
                "20,000 env steps instead of 200,000.",
                "2 and 4 collectors, without 1.",
                "5 episodes per evaluation instead of 20, none rendered.",
            ),
        ),
    },
    assumed="Pendulum and all settings, taken from the public code that the note is based on",
    timed=True,
    note="No numbers are published: compare the lines. With 1 collector, no steps of another can be lost.",
)

FIGURES: Sequence[Figure] = (REINFORCE, AS_READ, AS_RUN, SERVER, HOGWILD, SYNC, DPPO)


def figure(name: str) -> Figure:
    """Return a figure by name; raises UnknownName, which suggests the closest name."""
    known = {each.name: each for each in FIGURES}
    if name not in known:
        raise UnknownName("figure", name, known, field="figure")
    return known[name]
