"""The histograms of a run: summary, distribution by rank, and over time if a metric recorded the same values."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from app.ui import components
from app.ui.html import as_text, number, table
from engine.analysis.scaling.staleness import HISTOGRAM, age_in_words, expected, mean_in_words
from engine.analysis.statistics.groups import Counts, mean, percentile, together
from engine.errors import amount
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
    whose = f" from {len(counts)} ranks" if len(counts) > 1 else ""
    return (
        f"{amount(f'{sum(every.values()):,}', known.counted)}{whose}: mean {amount(_mean(known, every), known.unit)}, "
        f"99 % at most {amount(f'{percentile(every, 99):,}', known.unit)}, max {amount(f'{max(every):,}', known.unit)}."
    )


def _mean(known: Histogram, counts: Counts) -> str:
    """Return the mean of a histogram; of ages as in all sentences."""
    found = mean(counts)
    return age_in_words(found).partition(" ")[0] if known.unit == "updates" else number(found)


def _show(run: Run, known: Histogram, counts: Mapping[str, Counts], reader: Reader) -> None:
    heat, said = _heat(run, known, reader), words(known, counts)
    st.header(as_text(known.label), anchor=False, help=as_text(known.help) or None)
    st.markdown(as_text(said))
    if beside := _expected(run, known, counts, reader):
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


def _expected(run: Run, known: Histogram, counts: Mapping[str, Counts], reader: Reader) -> str:
    """Return how mean staleness compares with the value expected for the number of trainers, and why; empty for other
    histograms.
    """
    is_ours = "code" not in run.config  # what a method of the lab's own counts is not known
    wanted = expected(run.config) if known.name == HISTOGRAM and is_ours else None
    if wanted is None:
        return ""
    explained = [] if reader.exercises.withholds([run.id]) else [run]
    return mean_in_words(run.config["trainers"], wanted, mean(together(counts.values())), explained)


def _ranks_table(known: Histogram, counts: Mapping[str, Counts]) -> str:
    unit = f" ({known.unit})" if known.unit else ""
    every = {"all": together(counts.values())} if len(counts) > 1 else {}
    rows = [
        [
            role,
            f"{sum(own.values()):,}",
            _mean(known, own),
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


# ---- Figures of distributions: a bar strip per rank, and a heat map over time --------------------------------------
# Pure functions, coloured by the theme.

MOST_BARS, FEWEST_PLACES = 64, 5
HEAD_PX, STRIP_PX, FOOT_PX, HEAT_PX = 28, 68, 46, 320


def strips(known: Histogram, counts: Mapping[str, Counts]) -> go.Figure:
    """Return a strip of bars for each rank, stacked over one shared x-axis; each strip has its own y-scale."""
    low, high = min(map(min, counts.values())), max(map(max, counts.values()))
    size = 1
    while high // size - low // size >= MOST_BARS:
        size *= 2
    height = strips_height(len(counts))
    share, head = 1 / len(counts), HEAD_PX / (height - FOOT_PX)
    figure = go.Figure()
    for place, (role, one) in enumerate(counts.items()):
        top = 1 - place * share
        _add_strip(
            figure, known, role, grouped(one, size), size, [top - share, top - head], str(place + 1) if place else ""
        )
        figure.add_annotation(
            text=_heading(known, role, one),
            x=0,
            y=top - head,
            xref="paper",
            yref="paper",
            xanchor="left",
            yanchor="bottom",
            showarrow=False,
        )
    figure.add_annotation(
        text=known.counted,
        x=0,
        y=0.5,
        xref="paper",
        yref="paper",
        xshift=-60,
        textangle=-90,
        font_size=14,
        showarrow=False,
    )
    start, end = low // size * size - 0.5, max(high, low + FEWEST_PLACES) + 0.5
    last = f"y{len(counts)}" if len(counts) > 1 else "y"
    xaxis = {
        "title": {"text": _axis(known), "standoff": 6},
        "range": [start, end],
        "anchor": last,
        "tickformat": "d",
        **_whole(end - start),
    }
    figure.update_layout(
        xaxis=xaxis,
        height=height,
        showlegend=False,
        hovermode="closest",
        margin={"l": 70, "r": 14, "t": 0, "b": FOOT_PX},
    )
    return figure


def strips_height(ranks: int) -> int:
    """Return the figure height for a number of ranks, in pixels."""
    return max(HEAT_PX, FOOT_PX + ranks * STRIP_PX)


def grouped(counts: Counts, size: int) -> dict[int, int]:
    """Return the counts in bins of `size` neighbouring values, keyed by the lowest value of each bin."""
    found: Counter[int] = Counter()
    for value, count in counts.items():
        found[value // size * size] += count
    return dict(sorted(found.items()))


def heat_map(known: Histogram, heat: Heat) -> go.Figure:
    """Return the heat map as a grid of cells; cells without points are empty."""
    columns = range(1 + max(column for column, _ in heat.counts))
    rows = range(min(row for _, row in heat.counts), 1 + max(row for _, row in heat.counts))
    half = (heat.row - 1) / 2
    where = f"{known.label.lower()} %{{y}}{f' ± {half:g}' if half else ''}, at about %{{x:.1f}} s"
    ticks = {"tickformat": ",d", **_whole(max(heat.counts.values()))}
    figure = go.Figure()
    figure.add_heatmap(
        x=[(column + 0.5) * heat.column_s for column in columns],
        y=[row * heat.row + half for row in rows],
        z=[[heat.counts.get((column, row)) for column in columns] for row in rows],
        xgap=1,
        ygap=1,
        zmin=0,
        colorbar={
            "title": {"text": known.counted, "side": "right"},
            "thickness": 10,
            "outlinewidth": 0,
            "xpad": 6,
            **ticks,
        },
        hovertemplate=f"%{{z:,}} {known.counted}<br>{where}<extra></extra>",
    )
    yaxis = {"title": {"text": _axis(known)}, "tickformat": "d", **_whole(len(rows) * heat.row)}
    figure.update_layout(
        height=HEAT_PX, xaxis_title="Time since all ranks were ready (s)", yaxis=yaxis, hovermode="closest"
    )
    return figure


def _add_strip(
    figure: go.Figure, known: Histogram, role: str, bars: Counts, size: int, domain: list[float], axis: str
) -> None:
    highest = max(bars.values())
    figure.add_bar(
        x=[value + (size - 1) / 2 for value in bars],
        y=list(bars.values()),
        width=size * 0.92,
        yaxis=f"y{axis}",
        name=role,
        customdata=[str(value) if size == 1 else f"{value}–{value + size - 1}" for value in bars],
        hovertemplate=f"{known.label.lower()} %{{customdata}}: %{{y:,}} {known.counted}<extra>{role}</extra>",
    )
    scale: dict[str, Any] = {
        "domain": domain,
        "range": [0, highest * 1.04],
        "tickvals": [0, highest],
        "tickformat": ",d",
        "fixedrange": True,
    }
    figure.update_layout({f"yaxis{axis}": scale})


def _heading(known: Histogram, role: str, counts: Counts) -> str:
    return (
        f"<b>{role}</b>  {amount(f'{sum(counts.values()):,}', known.counted)}, mean {_mean(known, counts)}, "
        f"99 % at most {percentile(counts, 99):,}"
    )


def _whole(span: float) -> dict[str, int]:
    """Return tick settings that place ticks at whole numbers for any axis length."""
    return {"dtick": 1} if span <= 6 else {"nticks": 8}


def _axis(known: Histogram) -> str:
    return f"{known.label.lower()} ({known.unit})" if known.unit else known.label.lower()
