"""The histograms of a run: summary, distribution by rank, and over time if a metric recorded the same values."""

from collections import Counter
from collections.abc import Mapping

import streamlit as st

from app.run.distributions import HEAT_PX, heat_map, strips, strips_height
from app.ui import components
from app.ui.html import as_text, number, table
from engine.analysis.scaling.staleness import HISTOGRAM, expected, mean_in_words
from engine.analysis.statistics.groups import Counts, mean, percentile, together
from engine.histograms import HISTOGRAMS, Histogram, histogram
from engine.store import Reader
from engine.store.curve_records import Heat
from engine.store.records import Run


def histograms(run: Run, reader: Reader) -> None:
    """Show each histogram of a run, known ones first."""
    by_name: dict[str, dict[int, Counts]] = {}
    for (rank, name), counts in reader.details.histograms(run.id).items():
        by_name.setdefault(name, {})[rank] = counts
    roles = {row.rank: row.role for row in reader.details.ranks(run.id)}
    for name, by_rank in sorted(by_name.items(), key=lambda item: item[0] not in HISTOGRAMS):
        _show(
            run, histogram(name), {roles.get(rank, f"rank {rank}"): counts for rank, counts in by_rank.items()}, reader
        )


def words(known: Histogram, counts: Mapping[str, Counts]) -> str:
    """Return a summary of a histogram over all ranks, as a sentence."""
    every = together(counts.values())
    unit = f" {known.unit}" if known.unit else ""
    whose = f" from {len(counts)} ranks" if len(counts) > 1 else ""
    return (
        f"{sum(every.values()):,} {known.counted}{whose}: mean {number(mean(every))}{unit}, p99 "
        f"{percentile(every, 99):,}{unit}, max {max(every):,}{unit}."
    )


def _show(run: Run, known: Histogram, counts: Mapping[str, Counts], reader: Reader) -> None:
    heat, said = _heat(run, known, reader), words(known, counts)
    st.header(as_text(known.label), anchor=False, help=as_text(known.help) or None)
    st.markdown(as_text(said))
    if beside := _expected(run, known, counts):
        st.markdown(as_text(beside))
    columns = st.columns(2 if heat else 1, gap="large")
    with columns[0]:
        st.markdown("**By rank**")
        height = strips_height(len(counts))
        components.figure(
            f"histogram-{run.id}-{known.name}",
            strips(known, counts),
            alt=f"{known.label} by rank. {said}",
            height=height,
            colours=range(len(counts)),
        )
    if heat:
        with columns[1]:
            st.markdown("**Over time, all ranks**")
            components.figure(
                f"heat-{run.id}-{known.name}",
                heat_map(known, heat),
                alt=f"{known.label} over time. {said}",
                height=HEAT_PX,
            )
    with st.expander("Tables"):
        st.html(_ranks_table(known, counts))
        if heat:
            st.html(_times_table(known, heat))


def _expected(run: Run, known: Histogram, counts: Mapping[str, Counts]) -> str:
    """Return how mean staleness compares with the value expected for the number of trainers; empty for other
    histograms.
    """
    wanted = expected(run.config) if known.name == HISTOGRAM else None
    return (
        "" if wanted is None else mean_in_words(run.config["trainers"], wanted, mean(together(counts.values())), [run])
    )


def _ranks_table(known: Histogram, counts: Mapping[str, Counts]) -> str:
    unit = f" ({known.unit})" if known.unit else ""
    every = {"all": together(counts.values())} if len(counts) > 1 else {}
    rows = [
        [
            role,
            f"{sum(own.values()):,}",
            number(mean(own)),
            f"{percentile(own, 50):,}",
            f"{percentile(own, 99):,}",
            f"{max(own):,}",
        ]
        for role, own in {**counts, **every}.items()
    ]
    headers = ["Rank", known.counted.capitalize(), f"Mean{unit}", f"Median{unit}", f"p99{unit}", f"Max{unit}"]
    return table(headers, rows, caption=f"{known.label} by rank")


def _times_table(known: Histogram, heat: Heat) -> str:
    """Return a row for each time interval; the centre of a heat cell represents all values in it."""
    found: dict[int, Counter[float]] = {}
    for (column, row), count in heat.counts.items():
        found.setdefault(column, Counter())[row * heat.row + (heat.row - 1) / 2] += count
    rows = [
        [
            f"{column * heat.column_s:.4g} to {(column + 1) * heat.column_s:.4g}",
            f"{cells.total():,}",
            number(sum(value * count for value, count in cells.items()) / cells.total()),
            number(max(cells)),
        ]
        for column, cells in sorted(found.items())
    ]
    unit = f" ({known.unit})" if known.unit else ""
    return table(
        ["Time (s)", known.counted.capitalize(), f"Mean{unit}", f"Max{unit}"],
        rows,
        caption=f"{known.label} over time",
    )


def _heat(run: Run, known: Histogram, reader: Reader) -> Heat | None:
    """Return the heat map; only points added since this session's last update are counted."""
    key = f"heat.{run.id}.{known.metric}"
    st.session_state[key] = found = reader.curves.heat(run.id, known.metric, st.session_state.get(key))
    return found
