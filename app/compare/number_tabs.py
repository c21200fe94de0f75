"""The Compare tabs of single values, one per run (bars, scatter, parallel coordinates), of differences, timelines and
kept files.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice, zip_longest

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.charts import number_charts
from app.charts.curve_charts import MOST_NAMED
from app.compare.groups import ComparedGroup, in_picture, limit_of, missing_bands
from app.compare.lines import Compared
from app.compare.selection import names_of
from app.compare.session_state import key_of, one_of, several_of
from app.compare.tab_widgets import log_toggle, show_note, show_omitted, table_of
from app.core.formatting import duration
from app.links.compare import CompareView
from app.report import page_capture
from app.ui import components
from app.ui.html import as_text, block, nowrap, run_link, table, when
from app.ui.html import titled as hovered
from app.ui.kept_files import cards, is_shown, seen
from app.ui.run_state import outcome
from app.ui.widgets import title_of
from engine.analysis import differences as apart
from engine.analysis.comparability import environment_shown, left_out, unreliable
from engine.analysis.differences import MISSING, Row
from engine.analysis.result import ranked, ranking_metric
from engine.analysis.run_values import (
    Value,
    field_names,
    is_timed,
    label,
    number,
    setting_title,
    shown,
    split,
    value,
)
from engine.analysis.run_values import names as number_names
from engine.config_values import field_title, value_title
from engine.errors import counted
from engine.filter.tree import metric_written
from engine.home import Home
from engine.own_methods.cards import CODE
from engine.registry import known_experiment
from engine.runtime.command.snapshot import code_of
from engine.store import Reader
from engine.store.records import ENDED, RunRow
from engine.store.runs.files import KeptFile
from engine.store.sweeps.sweeps import REPEAT, SEED
from engine.transfer.tables import Table


def bars(found: Compared, view: CompareView, above: DeltaGenerator) -> CompareView:
    """Show one value of each run or group as a bar chart, with its controls `above`."""
    if not (known := numeric_names(found.runs)):
        st.info("No values to compare in these runs yet.")
        return view
    with above.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        view = one_of(view, "number", "Value", known, label, width=340)
        view = log_toggle(view, "x", "Log scale")
    name = view.number or known[0]
    numbers = {run.id: held for run in found.runs if (held := number(run, name)) is not None}
    disturbed = [run for run in found.runs if run.disturbed and run.id in numbers and is_timed(name)]
    apart = disturbed if found.groups and not view.disturbed and len(disturbed) < len(numbers) else []
    counted = numbers.keys() - {run.id for run in apart}
    groups = found.groups or [ComparedGroup(found.names[run.id], (run,)) for run in found.runs]
    all_looks = found.group_looks if found.groups else [found.looks[run.id] for run in found.runs]
    parts = [
        number_charts.ResultBar(f"{group.name} (n={len(own)})" if found.groups else group.name, own, of_group)
        for group, of_group in zip(groups, all_looks, strict=True)
        if (own := {run.id: numbers[run.id] for run in group.runs if run.id in counted})
    ]
    log = _log(view, {"x": numbers.values()})
    sizes = {part.name.rpartition(" (n=")[0]: len(part.values) for part in parts}
    picture, colours, height = number_charts.bars(parts, name, view.stat, view.band, log="x" in log)  # type: ignore[arg-type]
    sizes = {part.name.rpartition(" (n=")[0]: len(part.values) for part in parts}
    components.figure(
        "compare-bars",
        picture,
        alt=f"{label(name)}, {len(parts)} {'groups' if found.groups else 'runs'}",
        height=height,
        colours=colours,
        says=in_picture(sizes, found.groups, view.stat, view.band) if found.groups else "",  # type: ignore[arg-type]
    )
    show_omitted(found, [run.id for run in found.runs if run.id not in numbers], label(name))
    said = [missing_bands(found.groups, view.band), limit_of(view.stat, view.band)] if found.groups else []
    for sentence in (*said, left_out(apart) or unreliable(disturbed)):
        show_note(sentence)
    table_of(
        "bars",
        lambda: values_frame(found, {name: [numbers.get(run.id) for run in found.runs]}),
        groups=(lambda: number_charts.bars_frame(parts, name, view.stat, view.band)) if found.groups else None,  # type: ignore[arg-type]
    )
    return view


def scatter(found: Compared, view: CompareView, above: DeltaGenerator) -> CompareView:
    """Show two values of each run as a scatter plot, with its controls `above`."""
    known = number_names(found.runs)
    apart = [
        name
        for name in field_names(found.runs, that_differ=True)
        if name not in (SEED, REPEAT) and len({number(run, name) for run in found.runs} - {None}) > 1
    ]
    along = (apart or known)[0]
    with above.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        view = one_of(view, "number", "Y-axis", known, label, width=300)
        view = one_of(view, "against", "X-axis", [along, *(name for name in known if name != along)], label, width=300)
        view = log_toggle(log_toggle(view, "x", "Log x-axis"), "y", "Log y-axis")
    chosen = (view.against or along, view.number or known[0])
    dots = _dots(found, chosen)
    there = [dot for dot in dots if None not in dot.values]
    if there:
        log = _log(view, {letter: [dot.values[at] for dot in there] for at, letter in enumerate("xy")})
        picture, colours = number_charts.scatter(there, *chosen, log)
        components.figure(
            "compare-scatter",
            picture,
            alt=f"{label(chosen[1])} by {label(chosen[0])}",
            height=number_charts.SCATTER_PX,
            colours=colours,
        )
    show_omitted(
        found, [dot.run_id for dot in dots if None in dot.values], " and ".join(label(name) for name in chosen)
    )
    _show_unreliable(found, chosen)
    table_of("scatter", lambda: _values(found, chosen))
    return view


def parallel(found: Compared, view: CompareView) -> CompareView:
    """Show several values of each run as parallel coordinates, coloured by the last one."""
    if not (numeric := numeric_names(found.runs)):
        st.info("No values to compare in these runs yet.")
        return view
    usual = [name for name in field_names(found.runs, that_differ=True) if name not in (SEED, REPEAT)][:MOST_NAMED]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        view = one_of(view, "number", "Colour by", numeric, label, width=300)
        view = several_of(
            view, "axes", "Axes", number_names(found.runs), label, placeholder="Differing fields", width=420
        )
    last = view.number if view.number in numeric else numeric[0]
    chosen = [*(name for name in view.axes or usual if name != last), last]
    if len(chosen) < 2:
        st.info("All config fields are equal in these runs. Choose axes above, or compare runs that differ.")
        return view
    held = [number(run, last) for run in found.runs]
    dots = [
        replace(dot, share=share) for dot, share in zip(_dots(found, chosen), number_charts.shares(held), strict=True)
    ]
    drawn = [dot for dot in dots if dot.share is not None]
    picture, colours = number_charts.parallel(drawn, chosen)
    components.figure(
        "compare-parallel",
        picture,
        alt=f"{', '.join(map(label, chosen))} by run",
        height=number_charts.PARALLEL_PX,
        colours=colours,
    )
    show_note(f"One line per run; stronger colour means higher {label(last)}.")
    show_omitted(found, [dot.run_id for dot in dots if dot.share is None], label(last))
    _show_unreliable(found, chosen)
    table_of("parallel", lambda: _values(found, chosen))
    return view


def _show_unreliable(found: Compared, chosen: Sequence[str]) -> None:
    """Show which runs are disturbed if any of the values is a time."""
    if any(map(is_timed, chosen)):
        show_note(unreliable(found.runs))


def _log(view: CompareView, values: Mapping[str, Iterable[Value]]) -> str:
    """Return the axes that are logarithmic, and say of the others that no value is above 0."""
    held = {letter: [each for each in found if isinstance(each, int | float)] for letter, found in values.items()}
    linear = [letter for letter in view.log if (own := held.get(letter)) and max(own) <= 0]
    if linear:
        show_note(f"No value is above 0: the {' and '.join(linear)}-axis is linear.")
    return "".join(letter for letter in view.log if letter not in linear)


def _dots(found: Compared, chosen: Sequence[str]) -> list[number_charts.Dot]:
    group_of = {
        run.id: of_group for group, of_group in zip(found.groups, found.group_looks, strict=True) for run in group.runs
    }
    return [
        number_charts.Dot(
            run.id,
            found.names[run.id],
            [shown(run, name) for name in chosen],
            group_of.get(run.id, found.looks[run.id]),
        )
        for run in found.runs
    ]


def numeric_names(runs: Sequence[RunRow]) -> list[str]:
    """Return the names whose values are all numbers in these runs, with at least one value present; first the one by
    which the runs are ranked, where that is one, else a metric that all of them have.
    """

    def is_numeric(name: str) -> bool:
        held = [each for run in runs if (each := value(run, name)) is not None]
        return bool(held) and all(isinstance(each, int | float) and not isinstance(each, bool) for each in held)

    results = {metric_written(each.result.metric, each.result.of) for run in runs if (each := ranked(run))}
    if chosen := ranking_metric(runs):
        results = {metric_written(chosen, "last")}
    known = list(filter(is_numeric, number_names(runs)))
    common = (
        name for name in known if split(name) and not is_timed(name) and None not in {value(run, name) for run in runs}
    )
    first = results if len(results) == 1 else {*islice(common, 1)}
    return sorted(known, key=lambda name: name not in first)


def _values(found: Compared, chosen: Sequence[str]) -> pd.DataFrame:
    return values_frame(found, {name: [shown(run, name) for run in found.runs] for name in chosen})


def values_frame(found: Compared, columns: Mapping[str, Sequence[object]]) -> pd.DataFrame:
    """Return one row per run with the data of a single-value chart, and the run's group."""
    group_of = {run.id: group.name for group in found.groups for run in group.runs}
    groups = {"group": [group_of[run.id] for run in found.runs]} if group_of else {}
    own = {"run": [run.id for run in found.runs], "name": [found.names[run.id] for run in found.runs]}
    return pd.DataFrame({**own, **groups, **columns})


# ---- Compare's tables, its tab Differences, and its timelines ------------------------------------------------------

# ---- Tables of the Compare page: the compared runs and their differences -------------------------------------------


def runs_table(runs: Sequence[RunRow], groups: Mapping[int, str]) -> str:
    """Return a row for each run, with its group if runs are grouped."""
    headers = ["Run", "Title", "Owner", "Status", "Execution", "Launched", *(["Group"] if groups else [])]
    rows = [
        [
            run_link(str(run.id), run.id),
            title_of(run),
            run.owner,
            outcome(run)[1],
            duration(run.elapsed_s),
            when(run.created_at),
            *([groups.get(run.id, "")] if groups else []),
        ]
        for run in runs
    ]
    return table(headers, rows, caption="Compared runs")


def differences_table(
    rows: Sequence[Row], runs: Sequence[RunRow], caption: str, titled: Callable[[str], str] = setting_title
) -> str:
    """Return a row for each field and a column for each run."""
    body = [[_one_line(titled(row.name)), *_cells(row)] for row in rows]
    return table(["Field", *_heads(runs)], body, caption=caption)


def differences_frame(
    rows: Sequence[Row], runs: Sequence[RunRow], titled: Callable[[str], str] = setting_title
) -> Table:
    """Return the differences as plain values, fields with title and name; None if a run has no such field."""
    values = [[None if value is MISSING else value for value in row.values] for row in rows]
    cells = [[titled(row.name), row.name, *held] for row, held in zip(rows, values, strict=True)]
    return Table(("title", "field", *_heads(runs)), cells)


def _heads(runs: Sequence[RunRow]) -> list[str]:
    return list(names_of(runs).values())


def _cells(row: Row) -> list[str]:
    words = ["–" if value is MISSING else value_title(value) for value in row.values]
    return [
        hovered("no effect", f"{text}, without effect with {why}") if why else _one_line(text)
        for text, why in zip_longest(words, row.unused, fillvalue="")
    ]


LONGEST_LINE = 48
"""Letters of a field or value in a table of differences; the hover has all of a longer one."""


def _one_line(text: str) -> str:
    """Return a field or value that stays on one line; the table scrolls sideways."""
    if len(text) > LONGEST_LINE:
        return hovered(nowrap(f"{text[: LONGEST_LINE - 1]}…"), text)
    return nowrap(text) if " " in text else text


# ---- The Differences tab of the Compare page: tables of differing config and environment fields --------------------


def differences(reader: Reader, found: Compared, view: CompareView) -> CompareView:
    """Show the config and environment fields in which the runs differ, first those that all of them have."""
    same = st.toggle("Show equal fields", key=key_of("same", view.same))
    environments = reader.multi_run.environments([run.id for run in found.runs])
    without = [environment_shown(environments.get(run.id, {})) for run in found.runs]
    for title, titled, rows in (
        ("Config", setting_title, apart.rows_of_settings(found.runs)),
        ("Environment", field_title, apart.rows(without)),
    ):
        st.header(title, anchor=False)
        shown = sorted((row for row in rows if row.differs or same), key=lambda row: MISSING in row.values)
        equal = sum(not row.differs for row in rows)
        if shown:
            st.html(differences_table(shown, found.runs, f"{title} of the runs", titled))
            page_capture.table(
                f"{title} of the runs",
                differences_frame(shown, found.runs, titled),
                heading=lambda name: f"{name[:1].upper()}{name[1:]}",
            )
        alike = "equal or without effect" if any(any(row.unused) and not row.differs for row in rows) else "equal"
        said = (
            f"{equal} {'field is' if equal == 1 else 'fields are'} {alike} in all {counted(len(found.runs), 'run')}"
            if rows
            else "Nothing recorded"
        )
        signs = " A dash (–): the run has no such setting; none: it is empty." if shown else ""
        if any(why for row in shown for why in row.unused):
            signs += " No effect: because of another setting; point at it to see which."
        st.caption(f"{said}{'' if same or not equal else ', and hidden'}.{signs}")
        page_capture.words([f"{title}: {said}."])
    code_differences(found.runs)
    return replace(view, same=same)


MOST_CODES = 12
"""Runs of commands whose code is compared."""


def code_differences(runs: Sequence[RunRow]) -> None:
    """Show in which lines the code of runs of the lab's own code differs, against the first of them; nothing for
    others.
    """
    of_commands = [run for run in runs if run.command_id is not None or CODE in run.config]
    held: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for run in of_commands[:MOST_CODES]:
        if texts := code_of(Home.find().run_folder(run.id)):
            held.setdefault(tuple(sorted(texts.items())), []).append(run.id)
    if sum(map(len, held.values())) < 2:
        return
    st.header("Code", anchor=False)
    (first, ids), *others = held.items()
    if not others:
        st.caption("The recorded code of these runs is the same.")
    for code, own in others:
        files, text = apart.code_difference(dict(first), dict(code))
        named = f"{'Run' if len(own) == 1 else 'Runs'} {', '.join(map(str, own))} against run {ids[0]}"
        with st.expander(as_text(f"{named}: {', '.join(files[:MOST_NAMED])}{' …' if len(files) > MOST_NAMED else ''}")):
            st.code(text, language="diff", height=400 if text.count("\n") > 20 else "content")
        page_capture.words([f"Code, {named}: {', '.join(files[:MOST_NAMED])}."])
    if len(of_commands) > MOST_CODES:
        st.caption(f"The code of the first {MOST_CODES} runs is compared.")


# ---- The timelines of the compared runs, one below the other -------------------------------------------------------

MOST = 4
"""Timelines shown at a time; each has its own stretch and zoom."""


def timelines(runs: Sequence[RunRow], reader: Reader) -> None:
    """Show the timelines of the first runs that have one."""
    recorded = [run for run in runs if reader.traces.newest(run.id)]
    if not recorded:
        ours = any(known_experiment(run.experiment) for run in runs)
        why = "they ended before their ranks were ready, or are older" if ours else "other programs record none"
        st.write(f"None of these runs has recorded operations: {why}.")
        return
    for run in recorded[:MOST]:
        st.html(run_link(f"{run.id}: {title_of(run)}", run.id))
        components.timeline(run.id, len(reader.details.ranks(run.id)), active=run.status not in ENDED)
    if len(recorded) > MOST:
        st.caption(as_text(f"The first {MOST} of {counted(len(recorded), 'run')} with recorded operations are shown."))


# ---- Kept files: pictures, tables and texts of one name, side by side ------------------------------------------------

MOST_NAMES, MOST_CARDS = 2, 24
"""Files that are chosen at first, and runs that show one."""


def files(reader: Reader, found: Compared, view: CompareView) -> CompareView:
    """Show files of the same name of the runs side by side, with the choice of names above."""
    kept = [each for each in reader.files.of(found.ids) if is_shown(seen(reader.db.home, each))]
    if not kept:
        st.info("None of these runs keeps a picture (PNG, JPEG), a table (CSV, TSV, JSON) or a text.")
        return view
    kinds = {each.name: seen(reader.db.home, each).kind for each in kept}
    counts = Counter(each.name for each in kept)
    order = ("picture", "table", "text")
    known = sorted(counts, key=lambda name: (-counts[name], order.index(kinds[name]), name))
    view = several_of(view, "files", "Files", known, str, placeholder=", ".join(known[:MOST_NAMES]), width=480)
    for name in view.files or known[:MOST_NAMES]:
        _side_by_side(reader, found, name, [each for each in kept if each.name == name])
    return view


def _side_by_side(reader: Reader, found: Compared, name: str, kept: Sequence[KeptFile]) -> None:
    own = {each.run_id: each for each in kept}
    shown = [run for run in found.runs if run.id in own]
    st.header(as_text(name), anchor=False)
    headed = [(own[run.id], run_link(found.names[run.id], run.id)) for run in shown[:MOST_CARDS]]
    st.html(block("pl-files", cards(reader.db.home, headed)))
    if len(shown) > MOST_CARDS:
        show_note(f"The first {MOST_CARDS} of {counted(len(shown), 'run')} with this file.")
    if len({each.sha256 for each in kept}) == 1 < len(kept):
        show_note("The content is the same in all of them.")
    page_capture.words([f"{name}: kept by runs {', '.join(str(run.id) for run in shown)}."])
    show_omitted(found, [run.id for run in found.runs if run.id not in own], name)
