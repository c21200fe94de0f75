"""The museum's runs: the ranks `right` and `wrong` run the same exhibits, and one invariant is checked on both."""

from importlib import import_module

from engine.errors import RunFailed
from engine.museum.config import FaultMuseumConfig
from engine.museum.exhibit import BROKEN, ERROR, HELD, UNSEEN, Outcome, Sign
from engine.runtime.worker.ranks import Rank, Ranks
from engine.seeding import WEIGHTS, seed_of


def run(config: FaultMuseumConfig, ranks: Ranks) -> None:
    """Run each exhibit in one rank per version; return when both have finished. Raises RankFailed if the right version
    breaks an invariant.
    """
    ranks.run(_show, config)


def _show(rank: Rank, config: FaultMuseumConfig) -> None:
    rank.ready()
    for place, sign in enumerate(config.signs, 1):
        exhibit = import_module(f"engine.museum.exhibits.{sign.name}")
        seeds = [seed_of(config.seed, WEIGHTS, number) for number in range(config.repetitions)]
        with rank.recorder.phase("compute"):
            outcomes: list[Outcome] = [exhibit.measure(seed, getattr(exhibit, rank.role)) for seed in seeds]
        for number, outcome in enumerate(outcomes, 1):
            rank.recorder.log({sign.metric_of(each): outcome.numbers[each.key] for each in sign.numbers}, step=number)
        for x, value in outcomes[0].series.items():
            rank.recorder.log({sign.metric: value}, step=x)
        _report(rank, sign, outcomes)
        rank.recorder.progress(place, len(config.signs), "exhibits")
        rank.recorder.summarize(f"exhibit {sign.name}", place, len(config.signs))


def _report(rank: Rank, sign: Sign, outcomes: list[Outcome]) -> None:
    """Check the invariant on every repetition; report the result and any error that ended the code."""
    broken = [complaint for outcome in outcomes if (complaint := sign.complaint(outcome.numbers))]
    if rank.role == "right" and broken:
        raise RunFailed(
            f"The right version of {sign.name} breaks its own invariant: {broken[0]} Please report "
            "it: this is a bug in Parallab."
        )
    if errors := [outcome.error for outcome in outcomes if outcome.error]:
        rank.say(ERROR, f"{sign.name}: {errors[0]}")
    count = f"in {len(outcomes)} of {len(outcomes)}"
    if rank.role == "right":
        rank.say(HELD, f"{sign.name}: The invariant held {count}.")
    elif broken:
        rank.say(BROKEN, f"{sign.name}: {broken[0]}")
    else:
        rank.say(UNSEEN, f"{sign.name}: The fault did not occur {count}; more repetitions may show it.")
