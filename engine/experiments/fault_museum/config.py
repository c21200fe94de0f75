"""The fault museum's settings and card. Torch-free. Its runs are launched from the page Museum, so the page Launch has
no card for it.
"""

from typing import Literal

from pydantic import Field

from engine.config import Config
from engine.experiment.definition import Experiment, Flow, Preset
from engine.museum.outcome import WAYS
from engine.signs.catalogue import SIGNS, sign
from engine.signs.sign import Sign

ALL = "all"
ExhibitName = Literal[
    "all",
    "adds_outside_lock",
    "gradients_set_to_none",
    "live_reply",
    "module_as_reply",
    "buffers_left_behind",
    "waits_for_the_gone",
    "called_asynchronous",
    "aliased_weights",
    "tested_before_average",
    "epochs_repeated",
    "unequal_comparison",
    "images_one_by_one",
    "mixed_returns",
    "states_overwritten",
    "same_seeds",
    "unguarded_counter",
    "half_published_policy",
    "steps_thrown_away",
    "queue_holds_process",
    "update_waits_forever",
    "optimizer_trains_nothing",
    "sizes_for_counts",
    "norm_by_micro_batch",
    "half_initialized",
]


class FaultMuseumConfig(Config):
    """Settings for one exhibit or all, each run the right and the wrong way."""

    exhibit: ExhibitName = Field("all", description="Fault to demonstrate, or all of them in sequence.")
    repetitions: int = Field(
        1,
        ge=1,
        le=100,
        description=(
            "Repetitions of each version, each with its own seed. Numbers are means; the picture is from the first."
        ),
    )

    @property
    def roles(self) -> tuple[str, ...]:
        """One rank per version."""
        return WAYS

    @property
    def signs(self) -> tuple[Sign, ...]:
        """The exhibits to run."""
        return SIGNS if self.exhibit == ALL else (sign(self.exhibit),)

    def listens(self, gpus: int) -> bool:
        """Return whether one of the exhibits opens network listeners."""
        return any(each.listens for each in self.signs)

    @property
    def max_gpus(self) -> int:
        """None: every exhibit is small."""
        return 0

    def threads(self, cores: int | None = None) -> int:
        """Return 1 unless configured otherwise: exhibits are small, whatever the number of cores."""
        return self.threads_per_rank or 1


EXPERIMENT = Experiment(
    name="fault_museum",
    title="Fault museum",
    tagline="Faults of published code, reproduced",
    sentence="Each fault of the published code next to the correct version; both really run.",
    config=FaultMuseumConfig,
    presets={"all": Preset("All exhibits in sequence.", {"exhibit": ALL}, takes="Takes about 30 s on two cores.")},
    pattern="one process",
    flows=(
        Flow("the published code", "wrong", "its fault"),
        Flow("wrong", "invariant", "the measurement"),
        Flow("right", "invariant", "the measurement"),
    ),
    source="The tutorials, blog series and note behind the seven systems; docs/museum.md lists them",
    axis="repetitions",
)
