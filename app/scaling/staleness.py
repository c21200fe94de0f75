"""Staleness over a sweep or selected runs: its mean against N - 1, its distribution, and its effect on accuracy."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import streamlit as st

from app.links import addresses
from app.report import page_capture
from app.scaling.breakdown import LINE, intervals, named, of_lines
from app.scaling.staleness_charts import HEIGHT_PX, against_expected, result_along, spread
from app.ui import components
from app.ui.html import as_text, nowrap, number, run_link, table
from app.ui.time_difference import EXPLAINED, with_interval
from engine.analysis.run_values import field_in_words
from engine.analysis.scaling.scaling_data import by_values
from engine.analysis.scaling.staleness import (
    HISTOGRAM,
    SIZES,
    Price,
    Stale,
    StalenessPoint,
    cautions,
    mean_in_words,
    price,
    price_in_words,
    sizes,
    stale_runs,
)
from engine.analysis.scaling.targets import choices
from engine.analysis.statistics.groups import Counts, mean, percentile, together
from engine.analysis.statistics.intervals import LIMIT, mean_interval
from engine.errors import counted
from engine.metrics import metric
from engine.registry import experiments, known_experiment
from engine.store import Reader
from engine.store.records import RunRow
from engine.transfer.tables import Table

MOST_COLUMNS, MOST_ROWS = 16, 200
POLICY_AGE = "policy_age"
"""The histogram of the ages of the policies whose data was trained on."""
Lines = dict[str, list[Stale]]


def staleness(
    runs: Sequence[RunRow], reader: Reader, key: str, fields: Sequence[str] = (), *, goes_on: bool = False
) -> None:
    """Show the staleness of the gradients in finished runs; `fields` identify lines, `key` makes chart keys unique.
    While their sweep `goes_on`, nothing is advised.
    """
    finished = [run for run in runs if run.status == "finished"]
    if not finished:
        st.write("Points appear as runs finish.")
        return
    counts = reader.studies.histograms_of([run.id for run in finished], HISTOGRAM)
    names = choices(finished)
    result = _result(names) if counts and names else ""
    told = [name for name in fields if name not in SIZES]
    found = stale_runs(finished, counts, result, told)
    if not found and (ages := reader.studies.histograms_of([run.id for run in finished], POLICY_AGE)):
        _policy_ages(finished, ages, names, key)
        return
    if not found:
        st.write(
            "These runs did not record staleness. It is recorded where a gradient can be older than the weights it "
            f"updates: {_who_records_it()}."
        )
        return
    lines: Lines = {}
    for run in found:
        lines.setdefault(_title(told, run.line), []).append(run)
    by_line = {name: sizes(own, metric(result).bounds) for name, own in lines.items()}
    explained = () if reader.exercises.withholds(run.id for run in finished) else finished
    _mean_section(lines, by_line, explained, key)
    if result:
        _result_section(lines, by_line, result, key, goes_on=goes_on)
    several = any(size.runs > 1 for own in by_line.values() for size in own)
    limit = EXPLAINED["mean"] if several else LIMIT if result else ""
    for sentence in filter(None, [*cautions(finished, found, told, goes_on=goes_on), limit]):
        st.caption(as_text(sentence))
        page_capture.words([sentence])
    st.html(_sizes_table(by_line, result))
    page_capture.table("Staleness by size", sizes_frame(by_line, result))
    page_capture.table("Staleness of each run", runs_frame(lines, counts, result))
    with st.expander(f"Trainers of each of the {len(found)} runs" if len(found) > 1 else "Trainers of the run"):
        st.html(_runs_table(lines, counts, result))


def records_staleness(names: Iterable[str], runs: Sequence[RunRow], reader: Reader) -> bool:
    """Return whether runs, of experiments of these names, have recorded staleness or may still do."""
    if any(known.stale_gradients for name in set(names) if (known := known_experiment(name))):
        return True
    return any(reader.studies.histograms_of([run.id for run in runs], name) for name in (HISTOGRAM, POLICY_AGE))


def _who_records_it() -> str:
    known = sorted(experiments(), key=lambda each: each.title)
    *others, last = [f"by {each.stale_gradients}" for each in known if each.stale_gradients]
    return f"{', '.join(others)}, and {last}"


def _result(names: Sequence[str]) -> str:
    usual = "test/accuracy" if "test/accuracy" in names else names[0]
    return (
        st.selectbox(
            "Result",
            names,
            format_func=lambda name: metric(name).label,
            width=260,
            **addresses.kept("result", usual, names),
        )
        or names[0]
    )


def _title(fields: Sequence[str], line: Sequence[object]) -> str:
    return ", ".join(map(field_in_words, fields, line))


def _mean_section(
    lines: Lines, by_line: Mapping[str, Sequence[StalenessPoint]], runs: Sequence[RunRow], key: str
) -> None:
    """Show mean against expected staleness, and the distribution in each size; `runs` explain the means."""
    sentences = []
    for name, own in by_line.items():
        for size in own:
            ids = {run.run_id for run in _of_size(lines[name], size)}
            said = mean_in_words(size.trainers, size.expected, size.mean.mean, (run for run in runs if run.id in ids))
            sentences.append(f"{name}: {said}" if name else said)
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**Mean against N - 1**")
        figure, colours = against_expected(by_line, lines)
        components.figure(
            f"staleness-mean-{key}",
            figure,
            alt=f"Mean staleness against N - 1. {' '.join(sentences[:4])}",
            height=HEIGHT_PX,
            colours=colours,
        )
    columns = _columns(lines, by_line)
    with right:
        st.markdown("**Distribution**")
        components.figure(
            f"staleness-spread-{key}",
            spread(columns),
            alt="Share of gradients by staleness and size",
            height=HEIGHT_PX,
        )
    for sentence in sentences[:MOST_COLUMNS]:
        st.markdown(as_text(sentence))
    page_capture.words(sentences[:MOST_COLUMNS])
    if (more := sum(map(len, by_line.values())) - len(columns)) > 0:
        st.caption(f"Showing the first {counted(len(columns), 'size')}; the table has {more} more.")


def _columns(lines: Lines, by_line: Mapping[str, Sequence[StalenessPoint]]) -> dict[str, Counts]:
    """Return the number of gradients by staleness of each size, by the size's title."""
    batched = any(abs(size.expected - (size.trainers - 1)) > 1e-9 for own in by_line.values() for size in own)
    found: dict[str, Counts] = {}
    for name, own in by_line.items():
        for size in own:
            title = f"{size.trainers} {'trainer' if size.trainers == 1 else 'trainers'}"
            if batched:
                title += f", batch {size.trainers / (size.expected + 1):.0f}"
            found[f"{name}<br>{title}" if name else title] = together(run.counts for run in _of_size(lines[name], size))
    return dict(list(found.items())[:MOST_COLUMNS])


def _of_size(runs: Sequence[Stale], size: StalenessPoint) -> list[Stale]:
    return [run for run in runs if (run.trainers, run.expected) == (size.trainers, size.expected)]


def _result_section(
    lines: Lines, by_line: Mapping[str, Sequence[StalenessPoint]], name: str, key: str, *, goes_on: bool
) -> None:
    """Show a result against mean staleness, and its change per update of staleness."""
    known = metric(name)
    st.markdown(f"**{as_text(known.label)} by staleness**")
    # If each line has a single size, only the lines together differ in staleness.
    apart = (
        lines
        if len(lines) > 1 and any(len(own) > 1 for own in by_line.values())
        else {"": [run for own in lines.values() for run in own]}
    )
    found = {line: price(own) for line, own in apart.items()}
    prices = {line: each for line, each in found.items() if isinstance(each, Price)}
    if any(run.result is not None for own in lines.values() for run in own):
        figure, colours = result_along(lines, prices, known.label, known.unit)
        alt = f"{known.label} by mean staleness, one point per run"
        components.figure(f"staleness-{key}-{name}", figure, alt=alt, height=HEIGHT_PX, colours=colours)
    for line, each in found.items():
        words = (
            price_in_words(each, name, apart[line])
            if isinstance(each, Price)
            else " ".join(
                [f"No estimate for {known.label.lower()} per update of staleness.", *each[: 1 if goes_on else 2]]
            )
        )
        said = f"{line}: {words}" if line else words
        st.markdown(as_text(said))
        page_capture.words([said])


def _sizes_table(by_line: Mapping[str, Sequence[StalenessPoint]], result: str) -> str:
    headers = [
        *(["Line"] if len(by_line) > 1 else []),
        "trainers",
        "Runs",
        "Expected",
        "Mean staleness (updates)",
        "p99",
        "Max",
    ]
    headers += [_headed(result)] if result else []
    rows = [
        [
            *([nowrap(name)] if len(by_line) > 1 else []),
            str(size.trainers),
            str(size.runs),
            f"{size.expected:.3g}",
            with_interval(size.mean),
            f"{size.p99:,}",
            f"{size.highest:,}",
            *([with_interval(size.result, metric(result).unit)] if result else []),
        ]
        for name, own in by_line.items()
        for size in own
    ]
    return table(headers, rows, caption="Staleness by size")


def _runs_table(lines: Lines, counts: Mapping[int, Mapping[str, Counts]], result: str) -> str:
    headers = [
        "Run",
        *(["Line"] if len(lines) > 1 else []),
        "trainers",
        "Gradients",
        "Mean (updates)",
        "p99",
        "Max",
        "Mean per trainer",
    ]
    headers += [_headed(result)] if result else []
    rows = [
        [
            run_link(str(run.run_id), run.run_id),
            *([nowrap(name)] if len(lines) > 1 else []),
            str(run.trainers),
            f"{sum(run.counts.values()):,}",
            number(run.mean),
            f"{percentile(run.counts, 99):,}",
            f"{max(run.counts):,}",
            ", ".join(f"{role} {number(mean(own), 3)}" for role, own in counts[run.run_id].items()),
            *([number(run.result, unit=metric(result).unit)] if result else []),
        ]
        for name, own_runs in lines.items()
        for run in own_runs
    ]
    return table(headers, rows[:MOST_ROWS], caption="Staleness of each run")


def _headed(name: str) -> str:
    return metric(name).heading


# ---- Ages of policies: one column per value of max_lag -------------------------------------------------------------


def _policy_ages(
    runs: Sequence[RunRow], ages: Mapping[int, Mapping[str, Counts]], names: Sequence[str], key: str
) -> None:
    """Show how old the policies were whose batches were trained on, and the result, by the bound of their age or the
    mode.
    """
    name = _result(names) if names else ""
    aged = [run for run in runs if run.id in ages]
    bounded = [run for run in aged if run.config.get("mode") == "bounded_lag"]
    groups = by_values(["max_lag"], bounded) | by_values(["mode"], [run for run in aged if run not in bounded])
    counts = {title: together(count for run in own for count in ages[run.id].values()) for title, own in groups.items()}
    shown = dict(list(counts.items())[:MOST_COLUMNS])
    st.markdown("**Age of policies**")
    components.figure(
        f"staleness-ages-{key}",
        spread(shown, "batches", "age"),
        alt="Share of batches by the age of their policy and max_lag",
        height=HEIGHT_PX,
    )
    headers = ["Setting", "Runs", "Batches", "Mean age (updates)", "p99", "Max", *([_headed(name)] if name else [])]
    rows: list[list[str]] = []
    plain: list[tuple[Any, ...]] = []
    for title, own in groups.items():
        age = mean_interval([mean(together(ages[run.id].values())) for run in own]).within(0.0)
        results = [run.last[name] for run in own if name in run.last]
        result = mean_interval(results).within(*metric(name).bounds) if results else None
        total, p99, highest = sum(counts[title].values()), percentile(counts[title], 99), max(counts[title])
        shown_result = [with_interval(result, metric(name).unit)] if name else []
        rows.append(
            [nowrap(title), str(len(own)), f"{total:,}", with_interval(age), f"{p99:,}", f"{highest:,}", *shown_result]
        )
        of_result = intervals(result) if name else ()
        plain.append((title, len(own), total, *intervals(age), p99, highest, *of_result))
    st.html(table(headers, rows, caption="Age of policies by max lag"))
    columns = ("setting", "runs", "batches", *named("mean_age"), "p99", "highest", *(named(name) if name else ()))
    page_capture.table("Age of policies by max lag", Table.of(columns, plain))


# ---- Staleness tables as plain values, for files and reports -------------------------------------------------------


def sizes_frame(by_line: Mapping[str, Sequence[StalenessPoint]], result: str) -> Table:
    """Return a row for each line and number of trainers; low and high are the bounds of the 95 % interval, `result` is
    a metric.
    """
    columns = (
        LINE,
        "trainers",
        "runs",
        "expected",
        *named("mean_staleness"),
        "p99",
        "highest",
        *(named(result) if result else ()),
    )
    rows = [
        (
            *(name, size.trainers, size.runs, size.expected),
            *(*intervals(size.mean), size.p99, size.highest),
            *(intervals(size.result) if result else ()),
        )
        for name, own in by_line.items()
        for size in own
    ]
    return of_lines(columns, rows)


def runs_frame(lines: Mapping[str, Sequence[Stale]], counts: Mapping[int, Mapping[str, Counts]], result: str) -> Table:
    """Return a row for each run and trainer, by the trainer's `counts`."""
    columns = (
        LINE,
        "run",
        "trainers",
        "trainer",
        "gradients",
        "mean_staleness",
        "p99",
        "highest",
        *([result] if result else []),
    )
    rows = [
        (
            name,
            run.run_id,
            run.trainers,
            role,
            sum(own.values()),
            mean(own),
            percentile(own, 99),
            max(own),
            *([run.result] if result else []),
        )
        for name, runs in lines.items()
        for run in runs
        for role, own in counts[run.run_id].items()
        if own
    ]
    return of_lines(columns, rows)
