"""What the launch form is about: the experiment and the preset, chosen by a card, a link or a clone, and what a link
brings with them.
"""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from app.launch.flow_diagram import diagram
from app.links.launch import ASKED, Wish, read_link
from app.ui import components, config_form
from app.ui.html import as_text
from app.ui.store_access import reading
from engine.errors import ConfigError
from engine.experiment.definition import Experiment, Preset
from engine.metrics import metric
from engine.registry import experiment, experiments

FIRST = ("hogwild", "quick")
"""What a first visit is offered: it needs no network and ends within half a minute."""
CUSTOM = "defaults"
_CHOSEN = "launch.chosen"
_LINK = "launch.link"
_SAID = "launch.said"


@dataclass(frozen=True)
class ExperimentChoice:
    """The experiment whose form is shown, and the preset it started from (None: the defaults)."""

    experiment: str
    preset: str | None


def chosen() -> tuple[Experiment, str | None]:
    """Return what the form is about, after reading a link that was not read yet."""
    link = tuple((name, tuple(st.query_params.get_all(name))) for name in ASKED)
    if st.session_state.get(_LINK) != link or _CHOSEN not in st.session_state:
        st.session_state[_LINK] = link
        _take(
            read_link(st.query_params.get("experiment"), st.query_params.get("preset"), st.query_params.get_all("set"))
        )
    choice: ExperimentChoice = st.session_state[_CHOSEN]
    found = experiment(choice.experiment)
    if any(config_form.key_of(found.name, name) not in st.session_state for name in found.config.model_fields):
        config_form.fill(
            found, _starting_values(found, choice.preset) | st.session_state.get(_values_key(found.name), {})
        )
    return found, choice.preset


def choose(name: str, preset: str | None) -> None:
    """Show another form: the preset's values, and an address that says so."""
    found = experiment(name)
    st.session_state[_CHOSEN] = ExperimentChoice(name, preset)
    st.session_state.pop(_SAID, None)
    st.session_state.pop(_values_key(name), None)
    config_form.fill(found, _starting_values(found, preset))
    st.session_state[f"preset.{name}"] = preset or CUSTOM
    st.query_params.from_dict({"experiment": name} | ({"preset": preset} if preset else {}))
    st.session_state[_LINK] = (("experiment", (name,)), ("preset", (preset,) if preset else ()), ("set", ()))


def keep(found: Experiment, values: dict[str, object]) -> None:
    """Remember the form's values, so that they are there again after a look at another page."""
    st.session_state[_values_key(found.name)] = values


def complaints() -> None:
    """Say what of a link could not be had."""
    for sentence in st.session_state.get(_SAID, ()):
        st.warning(as_text(sentence))


def cards(current: str) -> None:
    """Show a card for each experiment: a sentence, who writes what to whom, and the way to its form."""
    found = experiments()
    across = min(3, len(found))
    for start in range(0, len(found), across):
        for column, one in zip(st.columns(across, gap="medium"), found[start : start + across], strict=False):
            with column, st.container(border=True, height="stretch"):
                _card(one, one.name == current, wide=across < 3)


def presets(found: Experiment, current: str | None) -> None:
    """Show the presets to choose from, and what the chosen one is."""
    key = f"preset.{found.name}"
    st.session_state.setdefault(key, current or CUSTOM)
    st.segmented_control(
        "Preset", [*found.presets, CUSTOM], key=key, required=True, on_change=_preset_changed, args=(found.name,)
    )
    if current:
        preset = found.presets[current]
        st.caption(as_text(f"{preset.sentence} {preset.takes} {reaches(preset)}"))
    else:
        st.caption("Every setting at its default.")


def reaches(preset: Preset) -> str:
    """Return what a run of the preset reaches at least, as a sentence; empty where nothing was stated."""
    known = {name: metric(name) for name in preset.expects}
    stated = [
        f"a {known[name].label.lower()} of at least {value:g} {known[name].unit}".strip()
        for name, value in preset.expects.items()
    ]
    return f"It reaches {' and '.join(stated)}." if stated else ""


def _card(one: Experiment, is_current: bool, wide: bool) -> None:
    words, picture = st.columns([10, 11]) if wide else (st.container(), st.container())
    with picture:
        components.drawing(f"diagram-{one.name}", diagram(one.flows))
    with words:
        st.header(one.title, anchor=False)
        st.write(as_text(one.sentence))
        st.caption(as_text(one.source))
        label = "Chosen" if is_current else f"Choose {one.title}"
        st.button(
            label,
            key=f"choose-{one.name}",
            disabled=is_current,
            on_click=choose,
            args=(one.name, "quick" if "quick" in one.presets else None),
        )


def _preset_changed(name: str) -> None:
    preset = st.session_state[f"preset.{name}"]
    choose(name, None if preset == CUSTOM else preset)


def _take(wish: Wish) -> None:
    """Put what a link asks for into the form; without an experiment the first one offered."""
    name, preset = (wish.experiment, wish.preset) if wish.experiment else FIRST
    found = experiment(name)
    st.session_state[_CHOSEN] = ExperimentChoice(name, preset)
    st.session_state[_SAID] = wish.sentences
    st.session_state[f"preset.{name}"] = preset or CUSTOM
    config_form.fill(found, _starting_values(found, preset) | dict(wish.changes))


def _starting_values(found: Experiment, preset: str | None) -> dict[str, Any]:
    """Return the values of a preset; where this lab's ranks may not listen on the network, with shared memory if the
    experiment can use it.
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
    except ConfigError:  # the variant knows no other transport: the launch panel says why it is refused
        return values
    return values if instead.listens(gpus=0) else instead.model_dump()


def _values_key(name: str) -> str:
    return f"launch.values.{name}"
