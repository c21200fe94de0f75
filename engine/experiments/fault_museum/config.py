"""The fault museum's settings and card. Torch-free. Its runs are launched from the page Museum, so it is no card on the
page Launch.
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
    """One exhibit or all, each done the right way and the wrong way."""

    exhibit: ExhibitName = Field("all", description="The fault to show, or all of them one after another.")
    repetitions: int = Field(
        1,
        ge=1,
        le=100,
        description=(
            "Times that each way is done, each with a seed of its own; numbers are means, the picture is the first."
        ),
    )

    @property
    def roles(self) -> tuple[str, ...]:
        """One rank for each way."""
        return WAYS

    @property
    def signs(self) -> tuple[Sign, ...]:
        """The exhibits to show."""
        return SIGNS if self.exhibit == ALL else (sign(self.exhibit),)

    def listens(self, gpus: int) -> bool:
        """Return whether one of the exhibits opens network listeners."""
        return any(each.listens for each in self.signs)

    @property
    def max_gpus(self) -> int:
        """None: every exhibit is small."""
        return 0

    def threads(self, cores: int | None = None) -> int:
        """Return 1 unless asked for more: exhibits are small, however many cores there are."""
        return self.threads_per_rank or 1


EXPERIMENT = Experiment(
    name="fault_museum",
    title="Fault museum",
    sentence="Each fault of the published code beside the right way, both of which really run.",
    config=FaultMuseumConfig,
    presets={
        "all": Preset("Every exhibit, one after another.", {"exhibit": ALL}, takes="Takes about 30 s on two cores.")
    },
    flows=(
        Flow("the published code", "wrong", "its fault"),
        Flow("wrong", "invariant", "what it measured"),
        Flow("right", "invariant", "what it measured"),
    ),
    source="The tutorials, blog series and note behind the seven systems, as docs/museum.md lists them",
    axis="repetitions",
)
