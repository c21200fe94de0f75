"""What the launch form is of, chosen in its list, by a link or by a clone: an experiment with its preset, or a person's
own command; and the settings of a link.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import streamlit as st

from app.actions.submit import NODES, TARGET
from app.core.assets import at
from app.launch import pasted_command, sweep_form
from app.launch.message_flow import scene
from app.launch.recipe_form import recipe_in_words
from app.links import addresses
from app.links.launch import ASKED, CommandWish, Wish, changes_of, read_command_link, read_link
from app.ui import components, config_form, current_user
from app.ui.config_form import give, key_now, label_of
from app.ui.documentation import guide
from app.ui.html import as_text, joined, quiet
from app.ui.store_access import reading
from engine.analysis.scaling.answers import verdict_needs
from engine.commands.lab_settings import approve_experiment
from engine.config_values import read_values, usual_values, value_in_words
from engine.errors import ConfigError, EngineError, counted, with_article
from engine.experiment import Experiment, MessagePattern, Preset, ReadySweep
from engine.home import Home
from engine.metrics import metric
from engine.registry import experiment, experiments, own_experiments
from engine.store import SweepLaunch
from engine.store.launches import FEWEST_TIMED
from engine.store.sweeps.sweeps import SEED

FIRST = ("hogwild", "quick")
"""The run offered on a first visit: it needs no network and takes under half a minute."""
OWN = ""
"""The place of a person's own command among the experiments."""
CUSTOM = "defaults"
READ_S = 1.0
"""Seconds that the page waits for experiments of the lab's own that are read for the first time."""
_CHOSEN = "launch.chosen"
_LINK = "launch.link"
_WARNINGS = "launch.said"
_CLONED = "launch.cloned"
"""The run that the settings of the form came from."""
_EXPERIMENT = "launch.experiment"
_RECIPE = "launch.recipe"
_FORM_ALONE = "launch.form_alone"
"""Whether a link or a clone brought the form, which is then shown without the list of experiments."""
_LESSON = "launch.lesson"
_READY = "launch.ready"
"""The experiment and the ready-made sweep that filled the form last."""
ICONS: dict[MessagePattern, str] = {
    "batched server": "dns",
    "asynchronous server": "sync_alt",
    "shared memory": "memory",
    "average": "hub",
    "batched requests": "forum",
    "queue": "low_priority",
    "stages": "view_week",
    "one process": "looks_one",
}


@dataclass(frozen=True)
class ExperimentChoice:
    """The experiment whose form is shown, and its preset (None: the defaults); OWN for a person's own command."""

    experiment: str
    preset: str | None


def chosen() -> tuple[Experiment | None, str | None]:
    """Return the experiment and the preset of the form, after reading a new link; no experiment for a person's own
    command.
    """
    link = _asked()
    is_refilled = addresses.is_opened() and any(any(values) for _, values in link)  # as Clone of one run once more
    if is_refilled or st.session_state.get(_LINK) != link or _CHOSEN not in st.session_state:
        st.session_state[_LINK] = link
        command = read_command_link(dict(link))
        if command is None and pasted_command.is_begun() and not any(values for _, values in link):
            command = CommandWish()
        _take_command(command) if command else _take(
            read_link(
                st.query_params.get("experiment"),
                st.query_params.get("preset"),
                st.query_params.get_all("set"),
                st.query_params.get_all("sweep"),
                *(st.query_params.get(name) for name in ("clone", "on", "nodes", "seeds", "as", "draws")),
            )
        )
    choice: ExperimentChoice = st.session_state[_CHOSEN]
    if choice.experiment == OWN:
        return None, None
    found = experiment(choice.experiment)
    if any(config_form.key_of(found.name, name) not in st.session_state for name in config_form.fields_of(found)):
        config_form.fill(
            found, _starting_values(found, choice.preset) | st.session_state.get(_values_key(found.name), {})
        )
    return found, choice.preset


def _asked() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return what the address asks of the form."""
    return tuple((name, tuple(st.query_params.get_all(name))) for name in ASKED)


def choose(name: str, preset: str | None) -> None:
    """Show the form of an experiment with the preset's values, and put both into the address."""
    if name == OWN:
        pasted_command.leave_recipe()
        choose_own(CommandWish(), {"command": ""})
        return
    found = experiment(name)
    st.session_state.pop(_READY, None)
    st.session_state[_CHOSEN] = ExperimentChoice(name, preset)
    st.session_state[_FORM_ALONE] = False
    st.session_state.pop(_WARNINGS, None)
    st.session_state.pop(_CLONED, None)
    st.session_state.pop(_values_key(name), None)
    config_form.fill(found, _starting_values(found, preset))
    addresses.replace({"experiment": name} | ({"preset": preset} if preset else {}))
    st.session_state[_LINK] = _asked()


def choose_own(wish: CommandWish, query: Mapping[str, str]) -> None:
    """Show the form of a person's own command, filled with a wish unless that is empty, and put it into the address."""
    st.session_state[_CHOSEN] = ExperimentChoice(OWN, None)
    st.session_state[_FORM_ALONE] = False
    st.session_state[_WARNINGS] = pasted_command.take(wish) if wish != CommandWish() else ()
    addresses.replace(query)
    st.session_state[_LINK] = _asked()


def keep(found: Experiment, values: dict[str, object]) -> None:
    """Keep the form's values while other pages are visited."""
    st.session_state[_values_key(found.name)] = values


def complaints() -> None:
    """Show a warning for each part of a link that could not be applied."""
    with st.container():
        for sentence in st.session_state.get(_WARNINGS, ()):
            st.warning(as_text(sentence))


def experiment_list(current: Experiment | None) -> None:
    """Show what to choose from, and how the chosen experiment's processes send messages."""
    if st.session_state.get(_FORM_ALONE):
        st.button(
            "All experiments", key="launch.all", type="tertiary", icon=":material/arrow_back:", on_click=_show_all
        )
    else:
        own_experiments(READ_S)
        found = {one.name: one for one in experiments()}
        recipe = "" if current else pasted_command.recipe_chosen()
        key = give(_EXPERIMENT, current.name if current else None if recipe else OWN)
        st.radio(
            "Experiment",
            [OWN, *found],
            key=key,
            index=None,
            format_func=lambda name: (
                f":material/{ICONS[found[name].pattern]}: {found[name].title}"
                if name
                else ":material/terminal: Your command"
            ),
            captions=["Your own script, by its command", *(one.tagline for one in found.values())],
            on_change=_experiment_changed,
            args=(key,),
        )
        _recipes(recipe)
        _own_experiments()
    if current is None:
        return
    drawn = scene(current.pattern, *_several(current))
    components.message_flow("message-flow", {"title": current.title, **drawn.to_json(current.flows)})


def _own_experiments() -> None:
    """Show which experiments of the lab's own can't be used, and why."""
    for each in own_experiments():
        if each.fault:
            st.error(as_text(str(each.fault)))
            if each.fault.version:
                st.button(
                    f"Approve {each.name}",
                    key=f"approve.{each.name}.{each.fault.version}",
                    on_click=_approve,
                    args=(each.name, each.fault.version),
                    **current_user.control("approve experiment"),
                )
        elif each.experiment is None:
            st.caption(as_text(f"The experiment '{each.name}' is being read. Reload the page in some seconds."))


def _approve(name: str, version: str) -> None:
    try:
        approve_experiment(Home.find(), name, by=current_user.whoever(), expected=version)
    except EngineError as error:
        st.session_state[_WARNINGS] = (str(error),)


def _recipes(chosen: str) -> None:
    """Show the lab's recipes to choose from."""
    with reading() as reader:
        found = {each.name: each for each in reader.recipes.everyone()}
    if not found:
        return
    key = give(_RECIPE, chosen if chosen in found else None)
    st.radio(
        "Lab's recipes",
        list(found),
        key=key,
        index=None,
        format_func=lambda name: f":material/receipt_long: {as_text(found[name].title)}",
        captions=[as_text(recipe_in_words(each)) for each in found.values()],
        on_change=_recipe_changed,
        args=(key,),
    )


def _recipe_changed(key: str) -> None:
    if key == key_now(_RECIPE, _RECIPE) and (name := st.session_state[key]):
        choose_own(CommandWish(recipe=name), {"recipe": name})


def _several(current: Experiment) -> tuple[int | None, str]:
    """Return how many trainers (observers, stages, …) the form says, None if it doesn't, and what one of them is."""
    setting, kind = next(iter(current.counts.items()), ("", ""))
    count = config_form.values_of(current).get(setting)
    return count if isinstance(count, int) else None, kind


def heading(found: Experiment) -> None:
    """Show what the chosen experiment is."""
    st.header(found.title, anchor=False)
    st.write(as_text(found.sentence))
    parts = (found.source, guide(found.name, "Guide: how it works, settings, results"))
    st.html(quiet(joined(filter(None, parts), " · ")))


def ready_sweeps() -> None:
    """Offer sweeps that answer common questions, unless a link or a clone brought the form."""
    if st.session_state.get(_FORM_ALONE):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Ready-made sweeps (about how long on two idle cores)", width="content")
        is_lesson = bool(st.session_state.get(_LESSON))
        for one in experiments():
            for ready in one.ready_sweeps:
                takes = _takes(ready, at_lesson_size=is_lesson)
                st.button(
                    f"{ready.question} :small[({takes})]" if takes else ready.question,
                    key=f"ready.{one.name}.{ready.question}",
                    help=as_text(f"{one.title}: {_grid_in_words(ready, at_lesson_size=is_lesson)}"),
                    on_click=_start_ready,
                    args=(one.name, ready),
                )
        st.toggle(
            "Lesson size",
            key=_LESSON,
            help="One run of each value instead of several seeds or repeats: an answer within minutes, without "
            "intervals. Runs start as cores become free.",
            on_change=_resize,
        )
    name, chosen = st.session_state.get(_READY, ("", None))
    if chosen and name == st.session_state[_CHOSEN].experiment:
        shown = _grid_in_words(chosen, at_lesson_size=bool(st.session_state.get(_LESSON)))
        st.caption(as_text(f"{chosen.question.rstrip('?')}: {shown}."))


def ready_sweep(sweep: SweepLaunch) -> ReadySweep | None:
    """Return the ready-made sweep that filled the form, while the form's `sweep` varies the same settings."""
    name, ready = st.session_state.get(_READY, ("", None))
    is_its = ready and name == sweep.shared.experiment and not sweep.draw and set(sweep.grid) == set(ready.over)
    return ready if is_its else None


def stated_run_s(sweep: SweepLaunch) -> float | None:
    """Return the mean seconds of a run that the ready-made sweep in the form states; None once settings or values are
    others.
    """
    if (ready := ready_sweep(sweep)) is None:
        return None
    found = experiment(sweep.shared.experiment)
    usual = _starting_values(found, ready.preset) | dict(ready.changes)
    same = all(usual[name] == value for name, value in sweep.shared.config.items() if name not in {*ready.over, SEED})
    values = {name: read_values(found.config, name, text) for name, text in ready.over.items()}
    return ready.run_s if same and dict(sweep.grid) == values else None


def _grid_in_words(ready: ReadySweep, *, at_lesson_size: bool) -> str:
    """Return what a ready-made sweep varies, its number of runs, and about how long they take."""
    over = [f"{name.replace('_', ' ')} {values}" for name, values in ready.over.items()]
    runs = counted(_runs(ready, at_lesson_size=at_lesson_size), "run")
    if at_lesson_size:
        size = "; ".join(filter(None, (f"{runs}, one of each value", verdict_needs(ready))))
    elif ready.is_timed:
        size = f"at least {runs}, one at a time"
    else:
        size = f"{runs}, {counted(ready.seeds, 'seed')} of each value"
    takes = _takes(ready, at_lesson_size=at_lesson_size)
    return f"{' x '.join(over)}; {size}{f': about {takes} on two idle cores' if takes else ''}"


def _runs(ready: ReadySweep, *, at_lesson_size: bool) -> int:
    """Return the number of runs of a ready-made sweep, of one for timing the least."""
    cells = prod(len(values.split(",")) for values in ready.over.values())
    return cells if at_lesson_size else 1 + FEWEST_TIMED * cells if ready.is_timed else ready.seeds * cells


def _takes(ready: ReadySweep, *, at_lesson_size: bool) -> str:
    """Return about how long a ready-made sweep takes on two idle cores; empty if unknown."""
    return _rounded(ready.run_s * _runs(ready, at_lesson_size=at_lesson_size)) if ready.run_s else ""


def _rounded(time_s: float) -> str:
    """Return a rough time: whole minutes from one and a half on."""
    return f"{time_s / 60:.0f} min" if time_s >= 90 else f"{10 * round(time_s / 10)} s"


def cloned() -> int | None:
    """Return the run that the form's settings came from; None without one."""
    found: int | None = st.session_state.get(_CLONED)
    return found


def presets(found: Experiment, current: str | None, values: Mapping[str, Any]) -> None:
    """Show the presets, and a description of the selected one or the run that the `values` came from."""
    key = give(f"preset.{found.name}", current or CUSTOM)
    st.segmented_control(
        "Preset",
        [*found.presets, CUSTOM],
        key=key,
        required=True,
        on_change=_preset_changed,
        args=(found.name, key),
        wrap=True,
    )
    if origin := cloned():
        st.caption(f"Settings of [run {origin}]({at(f'/run?run={origin}')}). {_changed(found, current, values)}")
    elif current and changes_of(found, current, values):
        st.caption(_changed(found, current, values))
    elif current:
        preset = found.presets[current]
        st.caption(as_text(f"{preset.sentence} {preset.takes} {reaches(preset)}"))
    else:
        st.caption("All settings at their defaults.")


def _changed(found: Experiment, preset: str | None, values: Mapping[str, Any]) -> str:
    """Return which settings differ from the preset's, as a sentence."""
    changes = [
        f"{label_of(name, found.config.model_fields[name]).lower()} {value_in_words(value)}"
        for name, value in changes_of(found, preset, values).items()
    ]
    return as_text(f"Preset {preset or CUSTOM}{', changed: ' + ', '.join(changes) if changes else ', unchanged'}.")


def reaches(preset: Preset) -> str:
    """Return the least result expected of a run of the preset, as a sentence; empty if none is stated."""
    known = {name: metric(name) for name in preset.expects}
    stated = [
        f"{with_article(known[name].label.lower())} of at least {value:g} {known[name].unit}".strip()
        for name, value in preset.expects.items()
    ]
    return f"It reaches {' and '.join(stated)}." if stated else ""


def _experiment_changed(key: str) -> None:
    if key != key_now(_EXPERIMENT, _EXPERIMENT):
        return  # sent by a browser that has not drawn the present choice yet
    name = st.session_state[key]
    choose(name, "quick" if name and "quick" in experiment(name).presets else None)


def _show_all() -> None:
    st.session_state[_FORM_ALONE] = False


def _start_ready(name: str, ready: ReadySweep) -> None:
    """Fill the form with a ready-made sweep."""
    choose(name, ready.preset)
    found = experiment(name)
    config_form.fill(found, ready.changes)
    st.session_state[_READY] = name, ready
    sweep_form.start(found, ready.over, equal_work=ready.equal_work)
    _resize()


def _resize() -> None:
    """Give the ready-made sweep in the form its usual size or that of a lesson."""
    name, ready = st.session_state.get(_READY, ("", None))
    if not ready or name != st.session_state[_CHOSEN].experiment:
        return
    is_lesson = bool(st.session_state.get(_LESSON))
    sweep_form.resize(experiment(name), 1 if is_lesson else ready.seeds, is_timed=ready.is_timed and not is_lesson)


def _preset_changed(name: str, key: str) -> None:
    if st.session_state[_CHOSEN].experiment != name or key != key_now(f"preset.{name}", f"preset.{name}"):
        return  # sent by a browser that has not drawn the present choice yet
    preset = st.session_state[key]
    choose(name, None if preset == CUSTOM else preset)


def _take_command(wish: CommandWish) -> None:
    """Fill the form of a person's own command from a link."""
    st.session_state[_CHOSEN] = ExperimentChoice(OWN, None)
    st.session_state[_FORM_ALONE] = False
    st.session_state[_WARNINGS] = pasted_command.take(wish) if wish != CommandWish() else ()
    if wish.target is not None:
        st.session_state[TARGET], st.session_state[NODES] = wish.target, wish.nodes


def _take(wish: Wish) -> None:
    """Fill the form from a link; without an experiment, with the run of a first visit."""
    name, preset = (wish.experiment, wish.preset) if wish.experiment else FIRST
    found = experiment(name)
    st.session_state[_CHOSEN] = ExperimentChoice(name, preset)
    st.session_state[_WARNINGS] = wish.sentences
    st.session_state.pop(_READY, None)
    st.session_state[_CLONED] = wish.clone
    st.session_state[_FORM_ALONE] = bool(wish.experiment)
    values = _starting_values(found, preset) | dict(wish.changes)
    config_form.fill(found, values)
    if wish.target is not None:
        st.session_state[TARGET], st.session_state[NODES] = wish.target, wish.nodes
    if wish.sweep is None and wish.experiment:
        sweep_form.stop(found)
    elif wish.sweep is not None:
        over = {name: text or usual_values(found.config, name, values) for name, text in wish.sweep.items()}
        sweep_form.start(found, over, equal_work="equal-work" in wish.purposes, draws=wish.draws)
        sweep_form.resize(found, wish.seeds, is_timed="timing" in wish.purposes)


def _starting_values(found: Experiment, preset: str | None) -> dict[str, Any]:
    """Return the values of a preset, with shared memory where ranks may not listen on the network and the experiment
    supports it.
    """
    config = found.configure(preset)
    values = config.model_dump()
    if not config.listens(gpus=0) or "transport" not in values:
        return values
    with reading() as reader:
        if not reader.quotas.why_no_listening():
            return values
    try:
        instead = found.config.check(values | {"transport": "shared_memory"})
    except ConfigError:  # the variant has no other transport: the launch panel shows why it is refused
        return values
    return values if instead.listens(gpus=0) else instead.model_dump()


def _values_key(name: str) -> str:
    return f"launch.values.{name}"
