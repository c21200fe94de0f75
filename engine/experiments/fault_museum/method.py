"""The fault museum: the ranks `right` and `wrong` run the same exhibits and check one invariant on their
measurements.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import cast

from engine.errors import RunFailed
from engine.experiments.fault_museum.config import FaultMuseumConfig
from engine.museum.events import BROKEN, ERROR, HELD, UNSEEN, told
from engine.museum.outcome import Broken, Exhibit, ExhibitOutcome
from engine.runtime.worker.ranks import Rank, Ranks
from engine.seeding import WEIGHTS, seed_of
from engine.signs.sign import Sign


def run(config: FaultMuseumConfig, ranks: Ranks) -> None:
    """Run each exhibit in one rank per version; return when both have finished. Raises RankFailed if the right version
    breaks an invariant.
    """
    ranks.run(_show, config)


def _show(rank: Rank, config: FaultMuseumConfig) -> None:
    rank.ready()
    for place, sign in enumerate(config.signs, 1):
        exhibit = cast(Exhibit, import_module(sign.module))
        with rank.recorder.phase("compute"):
            outcomes = [
                getattr(exhibit, rank.role)(seed_of(config.seed, WEIGHTS, number))
                for number in range(config.repetitions)
            ]
        for number, outcome in enumerate(outcomes, 1):
            _record(rank, sign, outcome, number)
        _judge(rank, sign, exhibit, outcomes)
        rank.recorder.progress(place, len(config.signs), "exhibits")
        rank.recorder.summarize(f"exhibit {sign.name}", place, len(config.signs))


def _record(rank: Rank, sign: Sign, outcome: ExhibitOutcome, number: int) -> None:
    """Record the numbers of one repetition (counted from 1), and the picture of the first."""
    rank.recorder.log({sign.metric_of(each): outcome.numbers[each.key] for each in sign.numbers}, step=number)
    if number == 1:
        for x, value in outcome.series.items():
            rank.recorder.log({sign.metric: value}, step=x)


def _judge(rank: Rank, sign: Sign, exhibit: Exhibit, outcomes: Sequence[ExhibitOutcome]) -> None:
    """Check the invariant on every repetition; report the result and any error that ended the code."""
    broken = [sentence for outcome in outcomes if (sentence := _complaint(exhibit, outcome))]
    if rank.role == "right" and broken:
        raise RunFailed(
            f"The right version of {sign.name} breaks its own invariant: {broken[0]} Please report "
            "it: this is a bug in Parallab."
        )
    if errors := [outcome.error for outcome in outcomes if outcome.error]:
        rank.say(ERROR, told(sign, errors[0]))
    if rank.role == "right":
        rank.say(HELD, told(sign, f"The invariant held in {len(outcomes)} of {len(outcomes)}."))
    elif broken:
        rank.say(BROKEN, told(sign, broken[0]))
    else:
        rank.say(
            UNSEEN,
            told(
                sign, (f"The fault did not occur in {len(outcomes)} of {len(outcomes)}; more repetitions may show it.")
            ),
        )


def _complaint(exhibit: Exhibit, outcome: ExhibitOutcome) -> str:
    """Return the violation of the invariant by an outcome, or an empty string."""
    try:
        exhibit.invariant(outcome)
    except Broken as broken:
        return str(broken)
    return ""
