"""The hang museum's settings. Torch-free. Its runs are launched from the page Museum; the page Launch has no card."""

from typing import Literal

from pydantic import Field

from engine.config import Config
from engine.experiment.definition import Experiment, Flow, Preset
from engine.museum.hang_catalogue import HANGS, HangExhibit, hang

HangName = Literal[
    "never_join",
    "try_a_wrong_port",
    "return_early",
    "stop_before_an_average",
    "wait_for_a_disk",
    "run_out_of_memory",
    "mix_up_collectives",
    "give_another_shape",
    "give_another_type",
    "have_unequal_batches",
    "call_within_a_call",
    "keep_a_lock",
    "fill_a_queue",
]


class HangMuseumConfig(Config):
    """Settings for one cause of a hang, the wrong or the right way."""

    cause: HangName = Field("stop_before_an_average", description="What makes the ranks hang.")
    version: Literal["wrong", "right"] = Field("wrong", description="With the fault, or without it.")

    @property
    def roles(self) -> tuple[str, ...]:
        """Three ranks: one is at fault, two wait."""
        return "trainer1", "trainer2", "trainer3"

    @property
    def exhibit(self) -> HangExhibit:
        """The chosen exhibit."""
        return hang(self.cause)

    def listens(self, gpus: int) -> bool:
        """Return whether the ranks open network listeners."""
        return self.exhibit.listens

    @property
    def max_gpus(self) -> int:
        """None: the ranks compute nothing."""
        return 0

    def threads(self, cores: int | None = None) -> int:
        """Return 1 unless configured otherwise, whatever the number of cores."""
        return self.threads_per_rank or 1


EXPERIMENT = Experiment(
    name="hang_museum",
    title="Hang museum",
    tagline="Why runs hang, reproduced",
    sentence="Three ranks, one of which makes the others wait forever; the hang doctor names it and ends the run.",
    config=HangMuseumConfig,
    presets={each.name: Preset(each.wrong, {"cause": each.name}) for each in HANGS},
    pattern="average",
    flows=(Flow("trainer1", "trainer2", "waits"), Flow("trainer3", "trainer2", "waits")),
    source="Causes of hangs that the documentation of torch.distributed and its issues describe",
    axis="version",
)
