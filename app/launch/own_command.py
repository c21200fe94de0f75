"""The launch form of a lab's own command: the fields for its text, folder and interpreter, the settings that it
gives, and the command as it will run.

Nothing of it runs before Launch, but the probe that a person asks for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import streamlit as st

from app.actions.submit import TARGET
from app.core.assets import at
from app.launch.launch_panel import LaunchForm
from app.launch.pasted_command import (
    FOLDER,
    PYTHON,
    READ,
    SUGGESTED,
    TEXT,
    VALUES,
    Own,
    carry,
    chosen_folder,
    leave_recipe,
    read,
    why_unread,
)
from app.launch.recipe_form import about_recipe, save_form
from app.links.launch import command_query
from app.ui import components, config_form, current_user
from app.ui.config_form import Problems
from app.ui.documentation import pages
from app.ui.html import as_text, link
from app.ui.store_access import reading
from engine.errors import ConfigError
from engine.script.command import LEVELS, Command, missing_file
from engine.script.environments import PythonInterpreter, interpreter_at, interpreters, missing_packages, on_path
from engine.script.probe import LIMIT_S, probed
from engine.script.settings import definition_of
from engine.system.confinement import CONFINEMENT_WORDS, machine_confinement
from engine.system.runner_process import is_separate

_SEARCH = "own.search"
AS_WRITTEN = ""
"""The choice of the interpreter that the command itself names."""
GUIDE = "own-script"
FEW = 12
"""Up to this many settings that were not pasted are shown at once; more after a click, with a search."""
LONG = 24
"""Longer paths of interpreters are shortened in their choice; the one chosen is below it in full."""
EXAMPLES = (
    "python train.py --lr 0.1 --epochs 3",
    "torchrun --nproc-per-node 2 train.py --amp",
    "OMP_NUM_THREADS=2 uv run train.py model.depth=4",
)


def form() -> LaunchForm | None:
    """Show the form; return its content, None while there is no command that could be read, and for a person who may
    launch none, who sees why instead of fields.
    """
    st.header("Your command", anchor=False)
    if refusal := current_user.why_no_commands():
        st.warning(as_text(refusal))
        return None
    _pasted()
    if (own := read()) is None:
        return None
    if own.given and own.given.cloned is not None:
        st.caption(f"Command and settings of [run {own.given.cloned}]({at(f'/run?run={own.given.cloned}')}).")
    if own.given and own.given.recipe and about_recipe(own.given.recipe):
        leave_recipe()
        st.rerun()
    config, values, problems = _settings(own)
    checked = config.model_dump(mode="json") if config else dict(values)
    if config:
        _as_it_runs(own, checked)
        save_form(own.command, checked, own.given.recipe if own.given else "")
    given = own.given if own.given and own.command is own.given.command else None
    base = own.command.defaults() | (dict(given.changes) if given else {})
    query = command_query(own.command, checked, base, given.recipe if given else "", given.cloned if given else None)
    trouble = why_no_folder() or why_no_interpreter()
    cloned = own.given.cloned if own.given else None
    return LaunchForm(own.definition, config, values, problems, query, None, own.command, trouble, cloned)


def _pasted() -> None:
    """Show the field for the command, with its folder and interpreter, and what is wrong with them below."""
    st.write(
        "Paste a training command as you run it in a terminal. Its options become settings; it is started "
        "only when you launch it."
    )
    st.text_area(
        "Command",
        key=TEXT,
        height=90,
        placeholder=EXAMPLES[0],
        help=as_text("Words are split as a shell does; pipes, variables and other syntax of a shell are not run."),
        persist_state="session",
    )
    components.commit_early(TEXT)
    _complain(why_unread())
    _remember_folder()
    st.text_input(
        "Folder",
        key=FOLDER,
        placeholder="/data/project",
        help="The folder that the command runs in.",
        persist_state="session",
    )
    why = why_no_folder()
    if why and not chosen_folder():
        st.caption("Give the folder that the command runs in, such as /data/project.")
    else:
        _complain(why)
    _interpreter()


def _complain(sentence: str) -> None:
    """Say what is wrong, in a place that is kept while nothing is: the fields below don't move."""
    with st.container():
        if sentence:
            st.markdown(f":red[{as_text(sentence)}]")


def why_no_folder() -> str:
    """Return what is wrong with the folder, or that it lacks the script; empty if nothing, or nothing is pasted."""
    folder = chosen_folder()
    if not str(st.session_state.get(TEXT) or "").strip():
        return ""
    if not folder:
        return "Folder is missing."
    if not folder.startswith("/"):
        return f"Folder must be a whole path, such as {Path.home()}/project; got {folder}."
    path = Path(folder)
    try:
        if path.is_dir():
            own = read()
            return missing_file(own.command, path) if own else ""
        return f"Folder {folder} {'is a file' if path.exists() else 'does not exist'}. Give the folder of the script."
    except OSError as error:
        return f"Folder {folder} can't be entered: {error.strerror}."


def _remember_folder() -> None:
    """Offer the folder of the person's last command."""
    if FOLDER in st.session_state:
        return
    with reading() as reader:
        last = reader.recipes.last_command(current_user.name() or "")
    st.session_state[FOLDER] = last.folder if last else ""


def _interpreter() -> None:
    """Show the interpreters to choose from, with their versions."""
    folder = chosen_folder()
    found = {each.path: each for each in interpreters(folder)}
    _suggest(list(found.values()))
    chosen = str(st.session_state.get(PYTHON) or "")
    st.selectbox(
        "Interpreter",
        list(dict.fromkeys([AS_WRITTEN, *found, chosen])),
        key=PYTHON,
        format_func=lambda path: _choice(path, found, folder),
        accept_new_options=True,
        placeholder="Choose an interpreter, or enter its path",
        help="Versions are read from its files.",
        persist_state="session",
    )
    chosen = str(st.session_state.get(PYTHON) or "")
    try:
        about = f"{chosen}: {interpreter_at(chosen, folder).versions}." if chosen else _as_written()
        st.caption(as_text(f"{about} To use one that is not listed, enter its path.".strip()))
    except ConfigError as error:
        _complain(error.problems[0].sentence)
        return
    own = read()
    with st.container():
        if own and not st.session_state.get(TARGET) and (missing := missing_packages(own.command)):
            st.warning(as_text(missing))


def why_no_interpreter() -> str:
    """Return what is wrong with the interpreter; empty if nothing."""
    chosen = str(st.session_state.get(PYTHON) or "")
    try:
        if chosen:
            interpreter_at(chosen, chosen_folder())
    except ConfigError as error:
        return error.problems[0].sentence
    return ""


def _suggest(found: Sequence[PythonInterpreter]) -> None:
    """Choose the nearest interpreter for a command that leaves it open, until the person chooses one; but not that of
    the PATH if it lacks a package that the script imports and another one has them all.
    """
    own = read()
    first = found[0].path if found and (own is None or _is_open(own.command)) else AS_WRITTEN
    if own and first and found[0].kind == "path":
        first = next(
            (each.path for each in found if not missing_packages(replace(own.command, python=each.path))), first
        )
    if PYTHON not in st.session_state or st.session_state.get(SUGGESTED) == st.session_state[PYTHON]:
        st.session_state[PYTHON] = st.session_state[SUGGESTED] = first
        read()


def _is_open(command: Command) -> bool:
    """Return whether a command leaves it to the PATH which interpreter runs it."""
    program = command.argv[command.program_at]
    return command.launcher in ("python", "torchrun", "accelerate") and "/" not in program


def _choice(path: str, found: Mapping[str, PythonInterpreter], folder: str) -> str:
    """Return an interpreter in words that fit into the field: the end of its path, as far as it tells it apart."""
    if not path:
        return "As in the command"
    shown = path.removesuffix("/bin/python")
    if folder and Path(shown).is_relative_to(folder):
        shown = str(Path(shown).relative_to(folder))
    elif len(shown) > LONG:
        parts, others = Path(shown).parts, [each.removesuffix("/bin/python") for each in found if each != path]
        ends = (f"/{'/'.join(parts[-count:])}" for count in range(2, len(parts)))
        shown = next((f"…{end}" for end in ends if not any(each.endswith(end) for each in others)), shown)
    return f"{shown} ({found[path].versions})" if path in found else shown


def _as_written() -> str:
    own = read()
    if own is None:
        return ""
    program = own.command.argv[own.command.program_at]
    if own.command.launcher == "uv":
        return "uv chooses it."
    if "/" in program:
        return f"{program}, as the command names it."
    path = on_path(program)
    return f"{program} of the PATH: {path}." if path else f"The PATH of the console has no program {program}."


def _settings(own: Own) -> tuple[Any, dict[str, Any], Problems]:
    """Show the settings of the command, those pasted first; return the checked config, the values and the problems."""
    command, definition = own.command, own.definition
    values = config_form.values_of(definition)
    st.session_state[VALUES] = values
    config, problems = config_form.check(definition, values)
    _how_read(own)
    shown = [each for each in command.fields if each.group != "hidden" or each.pasted]
    notes = {each.name: "Required by the script." for each in shown if each.required and each.default is None}
    first = [each.name for each in shown if each.pasted]
    rest = [each for each in shown if not each.pasted]
    if first:
        config_form.grid(definition, first, problems, notes)
    elif not rest:
        st.caption("The command has no settings that could be changed here: edit its text.")
    if len(rest) <= FEW:
        _groups(own, [each.name for each in rest], problems, notes)
    else:
        is_wrong = any(each.name in problems for each in rest)
        with st.expander(f"More settings ({len(rest)})", is_wrong, key="own.more", on_change="rerun") as fold:
            if fold.open or is_wrong:
                sought = st.text_input(
                    "Search settings",
                    key=_SEARCH,
                    type="search",
                    live="300ms",
                    placeholder="Name or help",
                    persist_state="session",
                )
                words = (sought or "").lower().split()
                found = [
                    each.name for each in rest if all(word in f"{each.name} {each.help}".lower() for word in words)
                ]
                _groups(own, found, problems, notes)
                if not found:
                    st.caption("No setting has these words in its name or help.")
    _complain(problems.get("", ""))
    return config, values, problems


def _groups(own: Own, names: list[str], problems: Problems, notes: Mapping[str, str]) -> None:
    """Draw settings by the groups of the script's parser, in its order."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(own.command.field(name).group, []).append(name)
    for group, members in groups.items():
        if len(groups) > 1 and group:
            st.markdown(f"**{as_text(group[:1].upper() + group[1:])}**")
        config_form.grid(own.definition, members, problems, notes)


def _how_read(own: Own) -> None:
    """Say how the form was read, and offer the probe where it would tell more."""
    command = own.command
    count = len([each for each in command.fields if each.group != "hidden"])
    many = f"{count} {'setting' if count == 1 else 'settings'}"
    is_there = not why_no_folder()  # otherwise the reason is at the folder
    why_not = command.why_not if is_there else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(as_text(f"{many}, read from {LEVELS[command.level]}. {why_not}".strip()), width="stretch")
        if is_there and command.level in ("command", "source") and command.script and command.is_python:
            words = f"Runs the script until it reads its options, for at most {LIMIT_S:g} s."
            if st.button("Ask the script", key="own.probe", icon=":material/help_center:", help=words):
                _ask(own)


def _ask(own: Own) -> None:
    if current_user.why_no_commands() is not None or why_no_folder() or why_no_interpreter():
        st.error("The folder and the interpreter must be there before the script can be asked.")
        return
    with st.spinner("The script is asked for its options…"):
        command = replace(probed(own.command), result=own.command.result, better=own.command.better)
    found = replace(own, command=command, definition=definition_of(command, own.definition.name))
    key, _, _, written_at = st.session_state[READ]
    st.session_state[READ] = (key, found, "", written_at)
    carry(own, found)
    st.rerun()


def _as_it_runs(own: Own, values: Mapping[str, Any]) -> None:
    """Show the command as it will run with the values of the form."""
    command = own.command
    shown = command.rendered(values, processes=True)
    if command.python and _is_open(command) and command.argv[command.program_at].startswith("python"):
        shown.argv[shown.argv.index(command.argv[command.program_at])] = command.python
    st.markdown("**The command as it runs**")
    st.code(shown.text, language="bash", wrap_lines=True)
    target = str(st.session_state.get(TARGET) or "")
    where = f"In {command.folder}{f', as a node of {target} sees it' if target else ''}. " if command.folder else ""
    st.caption(
        as_text(
            f"{where}Parallab sets CUDA_VISIBLE_DEVICES, the port of a launcher, and PARALLAB_RUN_FOLDER. "
            f"{_reach(target)}"
        )
    )


def _reach(target: str) -> str:
    """Return what the command will reach of the lab, on this machine or on a cluster."""
    if target or is_separate():  # the node, or the runner's service, decides
        return "Environment on the run's page says what the command could reach of the lab."
    level, why = machine_confinement()
    sandbox = "The command runs in a sandbox" if level == "sandbox" else f"The command runs without a sandbox ({why})"
    return f"{sandbox}: {CONFINEMENT_WORDS[level]}."


def empty() -> None:
    """Show what can be pasted, to people who may."""
    if current_user.why_no_commands() is not None:
        return
    st.caption("Such as")
    for each in EXAMPLES:
        st.code(each, language="bash", wrap_lines=True)
    if GUIDE in pages():
        st.html(link("Guide: your own script", at(f"/docs?page={GUIDE}")))
