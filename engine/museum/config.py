"""The settings of the museum's runs. Torch-free. The page Museum launches them; the page Launch has no card."""

from typing import TYPE_CHECKING, Literal

from engine.config import Config, setting
from engine.experiment import Experiment, Flow, Preset
from engine.museum.exhibit import SIGNS, WAYS, Sign, sign

ALL = "all"
if TYPE_CHECKING:
    ExhibitName = str
else:
    ExhibitName = Literal[(ALL, *(each.name for each in SIGNS))]


class FaultMuseumConfig(Config):
    """Settings for one exhibit or all, each run the right and the wrong way."""

    exhibit: ExhibitName = setting(ALL, "Fault to demonstrate, or all of them in sequence.")
    repetitions: int = setting(1, low=1, high=100)
    """Repetitions of each version, each with its own seed. Numbers are means; the chart is the first's."""

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
    presets={ALL: Preset("All exhibits in sequence.", {"exhibit": ALL}, takes="Takes about 30 s on two cores.")},
    pattern="one process",
    flows=(
        Flow("the published code", "wrong", "its fault"),
        Flow("wrong", "invariant", "the measurement"),
        Flow("right", "invariant", "the measurement"),
    ),
    source="The tutorials, blog series and note behind the seven systems; docs/museum.md lists them",
    axis="repetitions",
)
