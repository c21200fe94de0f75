"""The histograms of a run: in words, by rank, and over time where a metric recorded the same numbers one by one."""

from collections import Counter
from collections.abc import Mapping

import streamlit as st

from app import live
from app.distributions import HEAT_PX, Counts, heat_map, mean, percentile, strips, strips_height
from app.markup import as_text, number
from engine.metrics import HISTOGRAMS, Histogram, histogram
from engine.store import Reader
from engine.store.records import Heat, Run


def histograms(run: Run, reader: Reader) -> None:
    """Show each histogram of a run, those that we know first."""
    by_name: dict[str, dict[int, Counts]] = {}
    for (rank, name), counts in reader.histograms(run.id).items():
        by_name.setdefault(name, {})[rank] = counts
    roles = {row.rank: row.role for row in reader.ranks(run.id)}
    for name, by_rank in sorted(by_name.items(), key=lambda item: item[0] not in HISTOGRAMS):
        _show(run, histogram(name), {roles.get(rank, f"rank {rank}"): counts for rank, counts in by_rank.items()}, reader)


def words(known: Histogram, counts: Mapping[str, Counts]) -> str:
    """Return what a histogram comes to, over all ranks, in a sentence."""
    every: Counter[int] = Counter()
    for one in counts.values():
        every.update(one)
    unit = f" {known.unit}" if known.unit else ""
    whose = f" by {len(counts)} ranks" if len(counts) > 1 else ""
    return (
        f"Over {every.total():,} {known.counted}{whose}: mean {number(mean(every))}{unit}, p99 {percentile(every, 99):,}{unit} "
        f"(99 of 100 are at most that), highest {max(every):,}{unit}."
    )


def _show(run: Run, known: Histogram, counts: Mapping[str, Counts], reader: Reader) -> None:
    heat, said = _heat(run, known, reader), words(known, counts)
    st.header(as_text(known.label), anchor=False, help=as_text(known.help) or None)
    st.markdown(as_text(said))
    columns = st.columns(2 if heat else 1, gap="large")
    with columns[0]:
        st.markdown("**By rank**")
        height = strips_height(len(counts))
        live.figure(
            f"histogram-{run.id}-{known.name}",
            strips(known, counts),
            alt=f"{known.label} by rank. {said}",
            height=height,
            colours=range(len(counts)),
            table=True,
        )
    if heat:
        with columns[1]:
            st.markdown("**Over time, all ranks**")
            live.figure(f"heat-{run.id}-{known.name}", heat_map(known, heat), alt=f"{known.label} over time. {said}", height=HEAT_PX, table=True)


def _heat(run: Run, known: Histogram, reader: Reader) -> Heat | None:
    """Return the heat, of which only what is new since this session's last look is counted."""
    key = f"heat.{run.id}.{known.metric}"
    st.session_state[key] = found = reader.heat(run.id, known.metric, st.session_state.get(key))
    return found
