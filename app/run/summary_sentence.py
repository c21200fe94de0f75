"""What a run showed, in one computed sentence: its result, how long it took, waiting, and staleness."""

from collections.abc import Mapping, Sequence

from app.core.formatting import duration
from app.ui.html import number
from engine.analysis.result import not_learned, ranked
from engine.metrics import metric
from engine.registry import known_experiment
from engine.store.records import RankRow, Run, RunRow, Summary

LITTLE = 0.005
"""A share of the time below this is not worth a word."""


def summary_sentence(
    run: Run,
    entry: RunRow,
    summaries: Sequence[Summary],
    phases: Mapping[int, Mapping[str, float]],
    ranks: Sequence[RankRow],
) -> str:
    """Return the sentence, such as `Test accuracy 97.4 % in 1 min 25 s; trainers waited 2 %; gradients were 2.9 updates
    old on average.`; empty before the first result.

    Shares are of the measured seconds of all ranks but servers; staleness is the mean over all gradients recorded.
    """
    result = ranked(entry)
    if result is None:
        return ""
    known = metric(result.result.metric)
    value = " ".join(filter(None, (known.label, number(result.value, unit=known.unit), known.unit)))
    took = (
        f" in {duration(run.execution_time_s)}" if run.execution_time_s is not None else " so far" if run.active else ""
    )
    parts = [value + took, _waiting(run, phases, ranks), _staleness(summaries)]
    bad = not_learned(entry)
    return " ".join(filter(None, (bad.sentence if bad else "", "; ".join(filter(None, parts)) + ".")))


def _waiting(run: Run, phases: Mapping[int, Mapping[str, float]], ranks: Sequence[RankRow]) -> str:
    """Return which share of their time the ranks that are no servers waited and communicated."""
    experiment = known_experiment(run.experiment)
    servers = experiment.server_roles if experiment else ()
    kinds = {row.rank: row.role.rstrip("0123456789") for row in ranks if row.role not in servers}
    measured = [phases[rank] for rank in kinds if rank in phases]
    total = sum(sum(spent.values()) for spent in measured)
    if len(measured) < 2 or not total:
        return ""
    who = f"{next(iter(kinds.values()))}s" if len(set(kinds.values())) == 1 else "ranks"
    words = {**_WORDS, **_WORDS_OF.get(run.experiment, {})}
    shares = {word: sum(spent.get(phase, 0.0) for spent in measured) / total for phase, word in words.items()}
    said = [f"{word} {share:.0%}".replace("%", " %") for word, share in shares.items() if share >= LITTLE]
    return f"{who} {' and '.join(said)} of the time" if said else f"{who} never waited"


_WORDS = {"wait": "waited", "communicate": "communicated", "lock": "were blocked by locks"}
_WORDS_OF: Mapping[str, Mapping[str, str]] = {"hogwild": {"wait": "waited for the end of the others"}}
"""Words of systems whose ranks wait only for one thing."""


def _staleness(summaries: Sequence[Summary]) -> str:
    """Return how old gradients were when they were applied, in updates."""
    recorded = [each for each in summaries if each.metric == "perf/staleness" and each.mean is not None]
    count = sum(each.count - each.nonfinite for each in recorded)
    if not count:
        return ""
    mean = sum((each.mean or 0.0) * (each.count - each.nonfinite) for each in recorded) / count
    return f"gradients were {number(mean, 2)} updates old on average"
