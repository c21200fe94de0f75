"""Settings and card of a sample: workers move a number towards 1, beside a hub that waits."""

from engine.plugin import Clock, Config, Experiment, Flow, Preset, Rules, Work, interval, setting


class GossipConfig(Config):
    """Settings of workers and their hub."""

    server_roles = ("hub",)
    work_fields = ("steps",)

    workers: int = setting(2, "Workers beside the hub.", low=1, high=8)
    steps: int = setting(20, "Steps of each worker.", low=1, high=10_000)
    rate: float = setting(0.5, "Share of the way to 1 that a step goes.", above=0, high=1, unit="")
    sleep_s: float = setting(0.0, "Sleep in each step.", low=0, high=10, unit="s")
    checkpoint_every_s: float = interval(0.0, "s", "it keeps no checkpoint", "Between checkpoints.", high=100)

    @property
    def roles(self) -> tuple[str, ...]:
        """The hub, and the workers."""
        return ("hub", *(f"worker{number}" for number in range(1, self.workers + 1)))

    def rules(self) -> Rules:
        """Workers have a step each."""
        yield self.at_most("workers", "steps", "each has one")


EXPERIMENT = Experiment(
    name="gossip",
    title="Gossip",
    tagline="Workers beside a hub",
    sentence="Workers move a number towards 1.",
    pattern="average",
    flows=(Flow("worker", "hub", "nothing, yet"),),
    source="None",
    config=GossipConfig,
    presets={"quick": Preset("Two workers.", {"workers": 2})},
    work=lambda config: Work("steps", config.steps * config.workers, unit="steps", updates=config.steps),
    goals=lambda config: {"train/loss": config.rate / 10},
    update_clock=Clock("train/loss"),
    resumable=True,
    axis="workers",
    counts={"workers": "worker"},
)
