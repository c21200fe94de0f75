"""The answer of a ready-made sweep to its own question, from recorded times, phases, bubbles and staleness, or why
there is none. Torch-free.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from statistics import fmean
from typing import Any

from engine.analysis.result import metric_in_words, not_learned, reached_most
from engine.analysis.run_values import lower_title, measured, split
from engine.analysis.scaling.scaling_data import (
    WITH_DISTURBED,
    NoAnswer,
    by_values,
    count_in_words,
    study,
    words_of,
)
from engine.analysis.scaling.speedup import REFERENCE, in_words, is_unclear, why_no_fit
from engine.analysis.scaling.speedup import sizes as sizes_of
from engine.analysis.scaling.staleness import HISTOGRAM, NoPrice, Price, price, rounded, sizes, stale_runs
from engine.analysis.scaling.targets import time_text
from engine.analysis.scaling.time_difference import (
    COMMUNICATED,
    COMPUTED,
    WAITED,
    TimeSpent,
    explaining,
    is_work_unequal,
    not_comparable,
    ratio,
    time_spent,
)
from engine.analysis.scaling.trade_off import needed, weigh
from engine.analysis.statistics.intervals import Interval
from engine.analysis.total_work import unequal_work_of
from engine.config_values import value_in_words
from engine.data.catalogue import DATA_SETS
from engine.errors import enumeration
from engine.experiment import ReadySweep, TradeOff
from engine.metrics import metric, unit_of_difference
from engine.registry import known_experiment
from engine.store import Reader, Sweep
from engine.store.records import ENDED, RunRow, is_complete
from engine.sweep.extend import missing

BUBBLES = "perf/bubble_share"
NEAR = 0.05
"""Share of the time below which waiting and communication are not mentioned."""


LEAST_GROUPS = 2
"""Combinations with complete runs from which on there is an answer."""
LEAST_SEEDS = 2
"""Runs of a value from which on a verdict on accuracy is given."""
COARSE = 0.1
"""Percentage points that one test sample counts, from which on the answer names it."""


def question(sweep: Sweep) -> ReadySweep | None:
    """Return the ready-made sweep whose settings a sweep varies, with any values; None without one."""
    known = known_experiment(sweep.experiment)
    ready = known.ready_sweeps if known and not sweep.draw else ()
    return next((one for one in ready if set(one.over) == set(sweep.fields)), None)


def verdict_needs(ready: ReadySweep) -> str:
    """Return how many seeds of each value the verdict of a ready-made sweep needs, within a sentence; empty where one
    run of each value answers its question.
    """
    if isinstance(ready.answer, TradeOff):
        return needed(ready.answer)
    return f"a verdict needs {LEAST_SEEDS} seeds of each value" if ready.answer == "staleness" else ""


def charted(sweep: Sweep) -> tuple[str, str]:
    """Return the view of a sweep's page with the chart that its answer speaks of, and what that shows; empty for
    Results.
    """
    ready = question(sweep)
    return _CHARTS.get(ready.answer, ("", "")) if ready and isinstance(ready.answer, str) else ("", "")


def answer(sweep: Sweep, runs: Sequence[RunRow], reader: Reader, *, with_disturbed: bool = False) -> str:
    """Return the answer as a sentence, or that there is none and why; empty for a sweep without a question. While runs
    are queued or running, the answer is a preliminary one. Disturbed runs count only `with_disturbed`, where the
    answer does not depend on time, or where the others will never answer it. A sweep that was not for timing also says
    what it reached: first where its times have no answer.
    """
    ready = question(sweep)
    if ready is None:
        return ""
    every = measured(sweep, runs)
    done = [run for run in every if is_complete(run)]
    goes_on, left = sweep.active or bool(missing(sweep, runs)), _left(sweep, runs)
    calm = [run for run in done if not run.disturbed]
    is_whole = with_disturbed or not ready.is_timed or len(by_values(sweep.fields, calm)) + left < LEAST_GROUPS
    counted = done if is_whole else calm
    wanted, groups = (by_values(sweep.fields, some) for some in (every, counted))
    lacking, left_out = [name for name in wanted if name not in groups], len(done) - len(counted)
    undisturbed = " undisturbed" if left_out else ""
    is_for_times = sweep.timing or sweep.exclusive or not ready.is_timed
    reached = "" if goes_on or is_for_times else reached_most(by_values(sweep.fields, every))
    try:
        if len(groups) < LEAST_GROUPS:
            has = "has" if len(groups) == 1 else "have"
            why = f"{len(groups)} of {len(wanted)} combinations {has} a complete{undisturbed} run"
            raise NoAnswer(why, needs=LEAST_GROUPS - len(groups))
        about = _trade_off if isinstance(ready.answer, TradeOff) else _ANSWERS[ready.answer]
        said = about(ready, sweep, counted, reader)
    except NoAnswer as why:
        if goes_on:
            beside = f" {left_out} disturbed ones are left out: include them to see an answer now." if left_out else ""
            if why.needs > left:  # of what is left: a run that ends now may still be repeated
                return f"No answer yet: {why}.{beside}"
            more = f"{why.needs} more run{' has' if why.needs == 1 else 's of different values have'}"
            return f"No answer yet: at least {more} to end{' undisturbed' if left_out else ''}.{beside}"
        none = f"Times have no answer: {why}." if reached else f'No answer to "{ready.question}": {why}.'
        return f"{reached} {none}".strip()
    if ready.is_timed and (busy := [run.disturbance or 0.0 for run in counted if run.disturbed]):
        took = "{} %".format(" to ".join(dict.fromkeys(f"{100 * share:.0f}" for share in (min(busy), max(busy)))))
        whose = f"the CPU time of {len(busy)} of {len(counted)} runs"
        said = f"{WITH_DISTURBED}{said} Other programs took {took} of {whose}: repeat them on an idle machine."
    if goes_on:
        said = f"So far: {said}"
    if lacking:
        comma = "; " if any("," in name for name in lacking) else ", "
        said += f" Without a complete{undisturbed} run{' yet' if goes_on else ''}: {comma.join(lacking)}."
    if max(map(len, groups.values())) == 1 and "One run each" not in reached:
        said += " One run each: their spread is unknown."
    return f"{said} {reached}".strip()


def _left(sweep: Sweep, runs: Sequence[RunRow]) -> int:
    """Return how many runs have not ended, or are about to be queued."""
    return sum(run.status not in ENDED for run in runs) + len(missing(sweep, runs))


def _times(sweep: Sweep, runs: Sequence[RunRow], reader: Reader) -> dict[str, TimeSpent]:
    """Return what the runs of each combination did; raises NoAnswer where times do not compare."""
    ids = [run.id for run in runs]
    around, phases = reader.studies.surroundings(ids), reader.studies.phases_of(ids)
    if obstacle := not_comparable(runs, around):
        raise NoAnswer(obstacle.removesuffix("."))
    groups = by_values(sweep.fields, runs)
    return {each.name: each for each in time_spent(groups, around, phases, by_median=sweep.timing is not None)}


def _sweet_spot(ready: ReadySweep, sweep: Sweep, runs: Sequence[RunRow], reader: Reader) -> str:
    """Return the value with the shortest time, those without a clear difference from it, and why the next lower and
    higher value are slower.
    """
    field, spent = sweep.fields[0], _times(sweep, runs, reader)
    ordered = sorted(by_values([field], runs).items(), key=lambda each: each[1][0].config[field])
    found = [spent[name] for name, _ in ordered if name in spent]
    if len(found) < 2 or is_work_unequal(found):
        raise NoAnswer("the runs did unequal work" if len(found) > 1 else "their times are unknown")
    bubbles = _bubbles(dict(ordered))
    fast = min(found, key=lambda each: each.time_s)
    level = [place for place, each in enumerate(found) if each is fast or is_unclear(ratio(fast, each, ""))]
    times = [f"{found[place].name} ({time_text(found[place].time_s)})" for place in level]
    if len(level) == len(found):
        return f"No sweet spot: no clear difference between {enumeration(times)}."
    near = [each for each, place in zip(times, level, strict=True) if found[place] is not fast]
    unclear = f", without a clear difference from {enumeration(near)}" if near else ""
    said = f"Sweet spot: {fast.name}, {time_text(fast.time_s)}{unclear}"
    slower = [found[place] for place in (level[0] - 1, level[-1] + 1) if 0 <= place < len(found)]
    whys = [_because(fast, slow, bubbles=bubbles) for slow in slower]
    if len(slower) > 1 and len(set(whys)) == 1:
        named = [f"{slow.name} ({time_text(slow.time_s)})" for slow in slower]
        said += f"; {enumeration(named)} are slower {whys[0]}"
    else:
        for slow, why in zip(slower, whys, strict=True):
            said += f"; {_are(slow.name)} slower ({time_text(slow.time_s)}) {why}"
    highest = max(run.config[field] for run in runs)
    if level[-1] == len(found) - 1 and highest >= max(sweep.grid.get(field) or (highest,)):  # no higher one is to come
        said += f"; more than {found[-1].name} were not tried"
    return f"{said}."


def _scaling(ready: ReadySweep, sweep: Sweep, runs: Sequence[RunRow], reader: Reader) -> str:
    """Return how work per second grows with the count, and what its largest value lost time with."""
    field, spent = sweep.fields[0], _times(sweep, runs, reader)
    around = reader.studies.surroundings([run.id for run in runs])
    timings = study(
        runs, around, field, with_disturbed=True, statistic="mean" if sweep.timing is None else "median"
    ).timings
    found = sizes_of(timings, statistic="mean" if sweep.timing is None else "median")
    said = in_words(found, *words_of(field))
    if not said:
        raise NoAnswer((why_no_fit(timings, field) or "their times are unknown").removesuffix("."))
    last = spent[count_in_words(field, found[-1].count)]
    best = max(found, key=lambda size: size.speed_up.mean if size.speed_up else 0.0)
    fast = spent[count_in_words(field, best.count)]
    unit = _unit((fast, last))
    if fast is not last and not is_unclear(ratio(fast, last, unit)):
        return f"{said.removesuffix('.')}: slower with {last.name} {_because(fast, last, unit)}."
    lost = _share(last, WAITED) + _share(last, COMMUNICATED)
    if found[-1].count > REFERENCE and lost >= NEAR:
        said = f"{said.removesuffix('.')}; ranks of {last.name} waited and communicated {100 * lost:.0f} % of the time."
    return said if not last.crowded else f"{said} {last.name} oversubscribe the machine: {last.crowded}."


def _contest(ready: ReadySweep, sweep: Sweep, runs: Sequence[RunRow], reader: Reader) -> str:
    """Return which value of the question's first setting does most work per second, for each value of the others."""
    rival = next(iter(ready.over))
    others = [name for name in sweep.fields if name != rival]
    spent, parts = _times(sweep, runs, reader), list[str]()
    bubbles = _bubbles(by_values(sweep.fields, runs))
    for name, own in by_values(others, runs).items() if others else [("", runs)]:
        found = {
            value_in_words(some[0].config[rival]): spent[title]
            for title, some in by_values(sweep.fields, own).items()
            if title in spent
        }
        if len(found) < 2:
            continue
        unit = _unit(found.values())
        order = sorted(found, key=lambda title: _cost(found[title], unit))
        fast, slow = found[order[0]], found[order[-1]]
        times = ratio(fast, slow, unit)
        said = (
            "no clear difference"
            if is_unclear(times)
            else f"{order[0]} is {_number(times)} times as fast as {order[-1]} {_because(fast, slow, unit, bubbles)}"
        )
        parts.append(f"with {name}, {said}" if name else said)
    if not parts:
        raise NoAnswer(f"nowhere have two values of {lower_title(rival)} a complete run")
    return _sentence("; ".join(parts))


def _staleness(ready: ReadySweep, sweep: Sweep, runs: Sequence[RunRow], reader: Reader) -> str:
    """Return how the result changes per update of mean staleness, for each value of the other settings; where values
    have single runs, the numbers without a verdict.
    """
    known = known_experiment(sweep.experiment)
    assert known is not None
    result, lines = metric(known.result.metric), [name for name in sweep.fields if name not in known.counts]
    learned = [run for run in runs if not not_learned(run)]
    counts = reader.studies.histograms_of([run.id for run in learned], HISTOGRAM)
    stale = stale_runs(learned, counts, result.name, lines)
    if not stale:
        raise NoAnswer("no complete run that learned has recorded staleness")
    by_line = {line: [each for each in stale if each.line == line] for line in dict.fromkeys(one.line for one in stale)}
    prices = {
        line: price(own)
        for line, own in by_line.items()
        if sum(size.runs >= LEAST_SEEDS for size in sizes(own)) >= LEAST_SEEDS
    }
    found = {line: each for line, each in prices.items() if isinstance(each, Price)}
    whys = {line: each for line, each in prices.items() if isinstance(each, NoPrice)}
    if len(whys) == len(by_line):
        reasons = {_why(each, sweep) for each in whys.values()}
        raise NoAnswer(
            reasons.pop()
            if len(reasons) == 1
            else "; ".join(f"{_with(line)}: {_why(whys[line], sweep)}" for line in whys)
        )
    unit, hurts, parts = unit_of_difference(result.name), False, list[str]()
    width = min((each.change.high - each.change.low for each in found.values()), default=0.0)
    for line, own in by_line.items():
        name = f" {_with(line)}" if line else ""
        if line in found:
            change = found[line].change
            harm = found[line].direction == (-1 if result.better == "max" else 1)
            mean, low, high = (rounded(each, width) for each in (change.mean, change.low, change.high))
            interval = f"{mean}{unit} per update of staleness, 95 % interval {low} to {high}"
            hurts |= harm
            effect = "yes" if harm else "no, it helps" if found[line].direction else "not measurably"
            parts.append(f"{effect}{name} ({result.label.lower()} {interval}, {found[line].basis})")
        elif line in whys:
            parts.append(f"unknown{name}: {_why(whys[line], sweep)}")
        else:
            values = [
                f"{metric_in_words(result, one.result.mean)} at {one.mean.mean:.2f}" for one in sizes(own) if one.result
            ]
            parts.append(f"no verdict{name}: {result.label.lower()} {enumeration(values)} updates of mean staleness")
    said = f"{ready.question} {' '.join(map(_sentence, parts))}"
    if len(prices) < len(by_line):
        have = sum(min(LEAST_SEEDS, len(own)) for own in by_values(sweep.fields, runs).values())
        lacking = LEAST_SEEDS * prod(len(sweep.grid[name]) for name in sweep.fields) - have
        said += f" A verdict needs {LEAST_SEEDS} seeds of each value: {lacking} more runs."
    if hurts:
        said += " Staleness grows with the trainers, so this is an association."
    return said + _effects(ready, sweep, learned) + _resolution(result.name, learned)


def _trade_off(ready: ReadySweep, sweep: Sweep, runs: Sequence[RunRow], reader: Reader) -> str:
    """Return which values cost least at the same quality."""
    assert isinstance(ready.answer, TradeOff)
    if ready.is_timed:
        _times(sweep, runs, reader)
    if unequal_work_of(by_values(sweep.fields, runs), reader):
        raise NoAnswer("the runs did unequal work")
    said = f"{ready.question} {weigh(ready.answer, sweep.fields, runs)}"
    return said + _effects(ready, sweep, runs) + _resolution((split(ready.answer.quality) or ("",))[0], runs)


def _effects(ready: ReadySweep, sweep: Sweep, runs: Sequence[RunRow]) -> str:
    """Return what else the values of some runs change, as sentences after another."""
    held = {run.config.get(name) for name in sweep.fields for run in runs}
    return "".join(f" {words}" for value, words in ready.effects.items() if value in held)


def _why(found: NoPrice, sweep: Sweep) -> str:
    return (found.why if sweep.active else " ".join(found)).removesuffix(".")


def _with(line: Sequence[Any]) -> str:
    return f"with {', '.join(map(value_in_words, line))}"


def _resolution(name: str, runs: Sequence[RunRow]) -> str:
    """Return how much one test image counts, as a sentence after another; empty if that is little or unknown."""
    tested = {DATA_SETS[data].predictions for run in runs if (data := str(run.config.get("dataset"))) in DATA_SETS}
    if name != "test/accuracy" or len(tested) != 1 or (step := 100 / max(tested)) < COARSE:
        return ""
    return f" One test image of {max(tested)} is {step:.2f} points."


_CHARTS: Mapping[str, tuple[str, str]] = {
    "staleness": ("Staleness", "Chart of the result by mean staleness"),
    "scaling": ("Scaling", "Chart of the work per second by count"),
}
_ANSWERS: Mapping[str, Callable[[ReadySweep, Sweep, Sequence[RunRow], Reader], str]] = {
    "sweet spot": _sweet_spot,
    "scaling": _scaling,
    "contest": _contest,
    "staleness": _staleness,
}


def _because(fast: TimeSpent, slow: TimeSpent, unit: str = "", bubbles: Mapping[str, float] | None = None) -> str:
    """Return what took longer in the slower runs, in words after what they were; or why that isn't known."""
    is_disturbed = max(fast.disturbance, slow.disturbance) > slow.disturbed_above
    if slow.crowded and not fast.crowded:
        why = f"because they are oversubscribed ({slow.crowded})"
        return f"maybe {why}, maybe because other programs disturbed the runs" if is_disturbed else why
    if is_disturbed:
        return "for a reason that is not known, since other programs disturbed the runs"
    if not fast.seconds or not slow.seconds:
        return "for a reason that is not known, since the phases of the ranks were not recorded"
    own, theirs = ({word: spent / _amount(each, unit) for word, spent in each.seconds.items()} for each in (fast, slow))
    named = explaining(own, theirs, _cost(slow, unit) - _cost(fast, unit))
    if not named:
        return "for a reason that no recorded phase explains"
    return "because " + " and ".join(_clause(word, fast, slow, bubbles or {}) for word in named)


def _clause(word: str, fast: TimeSpent, slow: TimeSpent, bubbles: Mapping[str, float]) -> str:
    idle = [bubbles.get(each.name, 0.0) for each in (slow, fast)]
    if word == WAITED and idle[0] > idle[1] > 0:
        return f"stages were idle for {idle[0]:.0f} % of the time instead of {idle[1]:.0f} % (bubbles)"
    if word in (WAITED, COMMUNICATED) and _share(slow, word) > _share(fast, word):
        return f"ranks {word} {100 * _share(slow, word):.0f} % of the time instead of {100 * _share(fast, word):.0f} %"
    if word == COMPUTED and fast.ranks != slow.ranks:
        whole = [time_text(each.seconds[word] * each.ranks) for each in (slow, fast)]
        return f"all ranks together computed {whole[0]} instead of {whole[1]}"
    return f"each rank {word} {time_text(slow.seconds[word])} instead of {time_text(fast.seconds[word])}"


def _bubbles(groups: Mapping[str, Sequence[RunRow]]) -> dict[str, float]:
    """Return the mean bubble share (%) of each group that recorded it."""
    held = {name: [run.mean[BUBBLES] for run in runs if BUBBLES in run.mean] for name, runs in groups.items()}
    return {name: fmean(values) for name, values in held.items() if values}


def _unit(found: Iterable[TimeSpent]) -> str:
    """Return what times are compared per; empty, as a whole, where the work of some runs was not counted."""
    return "work" if all(amount > 0 for each in found for amount in each.work) else ""


def _share(each: TimeSpent, word: str) -> float:
    return each.seconds.get(word, 0.0) / (sum(each.seconds.values()) or 1.0)


def _amount(each: TimeSpent, unit: str) -> float:
    return each.amount if unit else 1.0


def _cost(each: TimeSpent, unit: str) -> float:
    return each.time_s / _amount(each, unit)


def _number(found: Interval) -> str:
    kind, low, high = "95 % interval " if found.is_known else "range ", f"{found.low:.2g}", f"{found.high:.2g}"
    return f"{found.mean:.2g}" + (f" ({kind}{low} to {high})" if low != high else "")


def _are(name: str) -> str:
    return f"{name} {'is' if name.startswith('1 ') else 'are'}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
