"""The form of an experiment's config: one widget per field, with the error message of an invalid value below it.

The widgets do not enforce bounds: an invalid value stays visible, with its error message.
"""

import math
import re
import shlex
import types
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Union, get_args, get_origin

import streamlit as st
from pydantic.fields import FieldInfo

from app.ui.html import as_text
from engine.config import (
    Config,
    bound_of,
    choices_of,
    empty_means,
    is_advanced,
    is_fixed,
    is_whole,
    may_be_empty,
    unit_of,
    unused_because,
)
from engine.config_values import field_title, value_in_words
from engine.errors import ConfigError
from engine.experiment import Experiment

Problems = dict[str, str]
FEW = 4
"""Up to this many choices are shown as buttons; more as a list."""
_TIMES, _DRAWN = "form times", "form drawn"
LARGEST_WHOLE = 2**53 - 1
"""Up to this size every whole number is exact in a browser."""


def key_of(experiment: str, name: str) -> str:
    """Return the key under which the form keeps a field."""
    return key_now(experiment, f"form.{experiment}.{name}")


def key_now(of: str, name: str) -> str:
    """Return the present key of a widget whose key is `name` at first: of the form of experiment `of`, which `renew`
    changes, or of a single widget (`of` is its name), which `give` changes.
    """
    times = st.session_state.get(f"{_TIMES}.{of}", 0)
    return f"{name}#{times}" if times else name


def give(name: str, value: Any) -> str:
    """Set the value of a widget before it is drawn, and return its key: a new one where the browser has another value,
    which it may send again before it draws this one.
    """
    if st.session_state.get(key_now(name, name), value) != value:
        st.session_state[f"{_TIMES}.{name}"] = st.session_state.get(f"{_TIMES}.{name}", 0) + 1
    key = key_now(name, name)
    st.session_state[key] = value
    return key


def renew(experiment: str) -> None:
    """Give the form's widgets new keys, with the same values, before some of these are set: a browser that has not
    drawn them yet sends the old values with the next press.
    """
    if not st.session_state.pop(f"{_DRAWN}.{experiment}", False):
        return
    times = st.session_state.get(f"{_TIMES}.{experiment}", 0)
    of_form = re.compile(rf"((?:form|sweep\.\w+)\.{re.escape(experiment)}(?:\.[^#]+)?){f'#{times}' if times else ''}")
    for key in [str(key) for key in st.session_state]:
        if found := of_form.fullmatch(key):
            st.session_state[f"{found[1]}#{times + 1}"] = st.session_state[key]
    st.session_state[f"{_TIMES}.{experiment}"] = times + 1


def fields_of(experiment: Experiment) -> Mapping[str, FieldInfo]:
    """Return the fields that the form shows."""
    return {name: field for name, field in experiment.config.model_fields.items() if not is_fixed(field)}


def fill(experiment: Experiment, values: Mapping[str, Any]) -> None:
    """Put values into the form before it is drawn."""
    renew(experiment.name)
    for name in fields_of(experiment):
        if name in values:
            st.session_state[key_of(experiment.name, name)] = as_typed(values[name])


def as_typed(value: Any) -> Any:
    """Return a value as its widget holds it: a list as words, quoted as for a shell."""
    return shlex.join(map(str, value)) if isinstance(value, list | tuple) else value


def values_of(experiment: Experiment) -> dict[str, Any]:
    """Return the values of the form; fields not drawn yet have their default."""
    fields = fields_of(experiment)
    return {
        name: st.session_state.get(key_of(experiment.name, name), as_typed(field.default))
        for name, field in fields.items()
    }


def check(experiment: Experiment, values: Mapping[str, Any]) -> tuple[Config | None, Problems]:
    """Return the config and no problems, or None and an error message by field ('' for rules of several fields)."""
    fields = fields_of(experiment)
    missing = {
        name: f"{label_of(name, field)} is required."
        for name, field in fields.items()
        if values[name] is None and not may_be_empty(field)
    }
    try:
        config = experiment.config.check({name: value for name, value in values.items() if name not in missing})
    except ConfigError as error:
        found: Problems = {}
        for problem in error.problems:
            field = problem.field if problem.field in fields else ""
            found[field] = f"{found[field]} {problem.sentence}" if field in found else problem.sentence
        return None, found | missing
    return (None, missing) if missing else (config, {})


def form(experiment: Experiment, problems: Problems, config: Config | None = None) -> None:
    """Draw the fields of an experiment's config, advanced ones collapsed, each with its error message below, or with
    the setting that makes it ineffective; below the length of the run, the total work of `config`.
    """
    st.session_state[f"{_DRAWN}.{experiment.name}"] = True
    work = experiment.work(config) if experiment.work and config else None
    notes = {work.length: f"Total: {work.in_words()}"} if work else {}
    fields, values = fields_of(experiment), values_of(experiment)
    notes |= {name: f"No effect with {why}" for name, field in fields.items() if (why := unused_because(field, values))}
    plain = [name for name in fields if not is_advanced(fields[name])]
    own = [name for name in plain if name not in Config.model_fields] + [
        name for name in plain if name in Config.model_fields
    ]
    advanced = [name for name in fields if is_advanced(fields[name])]
    grid(experiment, own, problems, notes)
    if advanced:
        with st.expander("Advanced", expanded=any(name in problems for name in advanced)):
            grid(experiment, advanced, problems, notes)


def label_of(name: str, field: FieldInfo) -> str:
    """Return a field's name as a label, with its unit unless the name says it: `Timeout (s)`, `Batch steps`."""
    if field.title:  # the name that a script gives it
        return field.title
    title, unit = field_title(name), unit_of(field)
    words, noun = title.lower().split(), unit.split(" ")[-1]
    said = {noun, noun.removesuffix("s"), f"({unit})"}
    return title if not unit or said & {*words} else f"{title} ({unit})"


def help_of(field: FieldInfo) -> str:
    """Return a field's help with its bounds."""
    signs = (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below"))
    rules = [f"{word} {bound:,.12g}" for name, word in signs if (bound := bound_of(field, name)) is not None]  # type: ignore[arg-type]
    text = field.description or ""
    return as_text(f"{text} Allowed: {' and '.join(rules)}." if rules else text)


def grid(
    experiment: Experiment,
    names: Sequence[str],
    problems: Problems,
    notes: Mapping[str, str],
    lists: Mapping[str, Sequence[Any]] = MappingProxyType({}),
    *,
    disabled: bool = False,
) -> None:
    """Draw fields in two columns, each with its error message or its note below; those in `lists` are chosen from their
    values.
    """
    for start in range(0, len(names), 2):
        for column, name in zip(st.columns(2, gap="medium"), names[start : start + 2], strict=False):
            with column:
                field, key = experiment.config.model_fields[name], key_of(experiment.name, name)
                _field(name, field, key, lists.get(name), disabled)
                if name in problems:
                    st.markdown(f":red[{as_text(problems[name])}]")
                elif name in notes:
                    st.caption(as_text(notes[name]))


def _field(name: str, field: FieldInfo, key: str, values: Sequence[Any] | None, disabled: bool) -> None:
    """Draw the widget for a field's type, or to choose one of `values`; its value is in the session, from `fill`. It
    stays there while the browser has not drawn the run that gave it, and after a visit to another page: what a browser
    that lacks that page sends of this one must not find the fields empty.
    """
    state: dict[str, Any] = {"key": key, "help": help_of(field), "disabled": disabled, "persist_state": "session"}
    value = st.session_state.setdefault(key, as_typed(field.default))
    label, kind = label_of(name, field), _kind(field)
    label = as_text(label) if field.title else label
    empty = empty_means(field) if may_be_empty(field) else None
    if values:
        st.selectbox(label, values, format_func=value_in_words, **state)
    elif options := choices_of(field):
        if value not in options and not (empty and value is None):
            options = (*options, value)  # it was removed from the list: it stays visible, with its error message
        if len(options) <= FEW:
            st.segmented_control(label, options, required=empty is None, wrap=True, **state)
        else:
            st.selectbox(label, options, index=None if empty else 0, placeholder=empty, **state)
    elif kind is bool and empty:
        st.segmented_control(label, (True, False), format_func=value_in_words, **state)
    elif kind is bool:
        st.toggle(label, **state)
    elif kind in (int, float) and _fits_a_number(value):
        _number(label, field, kind is int and is_whole(field), empty, state)
    elif kind in (str, int, float) or get_origin(kind) is list:
        if value is not None and not isinstance(value, str):
            st.session_state[key] = str(value)
        widget = st.text_area if isinstance(value, str) and "\n" in value else st.text_input
        widget(label, placeholder=empty_means(field) if field.default in ("", None) else None, **state)
    else:
        raise TypeError(f"The form has no widget for {name}: {field.annotation}.")


def _number(label: str, field: FieldInfo, whole: bool, empty: str | None, state: Mapping[str, Any]) -> None:
    """Draw the widget of a number, which may be `empty`, with a key and further `state`."""
    key = state["key"]
    lowest: Any = None if empty else "min"
    if whole:
        st.number_input(label, step=1, value=lowest, placeholder=empty, **state)
        return
    if isinstance(st.session_state[key], int):
        st.session_state[key] = float(st.session_state[key])
    st.number_input(label, step=_step(field), format="%g", value=lowest, placeholder=empty, **state)


def _fits_a_number(value: Any) -> bool:
    """Return whether a browser's number field can hold a value; a text such as `inf` and 2 ** 60 stay texts."""
    return value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) <= LARGEST_WHOLE)


def _kind(field: FieldInfo) -> Any:
    """Return the type of a field, without the None of an optional one."""
    if get_origin(field.annotation) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(field.annotation) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else None
    return field.annotation


def _step(field: FieldInfo) -> float:
    """Return a power of ten of the default's magnitude."""
    default = field.default if isinstance(field.default, int | float) and field.default else 1.0
    return float(10.0 ** math.floor(math.log10(abs(default))))
