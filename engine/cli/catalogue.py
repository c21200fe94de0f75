"""`experiments`, `figures` and `catalogue`: what there is to launch, and how an admin adds environments and data sets.

Each command imports what it needs: the lists of settings need neither NumPy nor the store.
"""

from typing import TYPE_CHECKING, Any, Literal

import click

from engine.cli.answers import answer, picked, print_json, table, wants_json
from engine.cli.frame import OWNER, WITHOUT_RUNNER, argument, command, option
from engine.config import bound_of, choices_of, is_advanced, unit_of
from engine.errors import counted
from engine.experiment import Experiment
from engine.home import Home
from engine.registry import experiment, experiments, own_experiments

if TYPE_CHECKING:
    from engine.published import Figure
    from engine.published.comparison import FigureComparison

READ_S = 120.0
"""Seconds to wait for experiments of the lab's own that are read for the first time."""
MOST_CHOICES = 12
"""A setting with more choices is abbreviated in the table."""


@command("experiments")
def experiments_command(name: str | None = argument()) -> None:
    """List the experiments; with NAME, show the presets and settings of one."""
    if name:
        found = experiment(name)
        answer(described(found), _in_full(found))
        return
    for own in own_experiments(READ_S):
        if own.fault:
            click.echo(own.fault, err=True)
    rows = [(found.name, " ".join(found.presets), found.sentence) for found in experiments()]
    answer([described(found) for found in experiments()], table(("NAME", "PRESETS", "DESCRIPTION"), rows))


def described(found: Experiment) -> dict[str, Any]:
    """Return an experiment as plain values: card, presets, settings."""
    return {
        **picked(found, "name", "title", "sentence", "source", "axis"),
        "presets": {
            name: {
                **picked(preset, "sentence", "takes"),
                "work": found.work(found.configure(name)) if found.work else None,
                **picked(preset, "settings", "expects"),
            }
            for name, preset in found.presets.items()
        },
        "settings": {name: _setting(found, name) for name in found.config.model_fields},
    }


def _setting(found: Experiment, name: str) -> dict[str, Any]:
    info = found.config.model_fields[name]
    return {
        "description": info.description,
        "default": info.default,
        "unit": unit_of(info),
        "choices": list(choices_of(info)),
        "least": bound_of(info, "ge") if bound_of(info, "gt") is None else bound_of(info, "gt"),
        "most": bound_of(info, "le") if bound_of(info, "lt") is None else bound_of(info, "lt"),
        "advanced": is_advanced(info),
    }


def _in_full(found: Experiment) -> str:
    presets = [
        (name, _work(found, name), preset.takes, " ".join(f"{key}={value}" for key, value in preset.settings.items()))
        for name, preset in found.presets.items()
    ]
    settings = [
        (name, str(info.default), _allowed(found, name), info.description)
        for name, info in found.config.model_fields.items()
    ]
    lines = [f"{found.title} ({found.name}): {found.sentence}", f"Source: {found.source}", ""]
    lines += [table(("PRESET", "TOTAL WORK", "TAKES", "SETS"), presets), ""]
    return "\n".join([*lines, table(("SETTING", "DEFAULT", "ALLOWED", "DESCRIPTION"), settings)])


def _work(found: Experiment, preset: str) -> str:
    """Return the total work of a run of a preset; a dash where none is counted."""
    return found.work(found.configure(preset)).in_words() if found.work else "–"


def _allowed(found: Experiment, name: str) -> str:
    info = found.config.model_fields[name]
    if choices := choices_of(info):
        few = len(choices) <= MOST_CHOICES
        return " | ".join(map(str, choices)) if few else f"{choices[0]} or one of {len(choices) - 1} names (--json)"
    if info.annotation is bool:
        return "true | false"
    low, above, high, below = (bound_of(info, "ge"), bound_of(info, "gt"), bound_of(info, "le"), bound_of(info, "lt"))
    ends = (("", low), ("above ", above), ("", high), ("below ", below))
    limits = " to ".join(f"{word}{bound:,}" for word, bound in ends if bound is not None)
    return f"{limits} {unit_of(info)}".strip()


@command("figures")
def figures_command(
    name: str | None = argument(),
    size: Literal["full", "reduced"] | None = option(
        "Queue the sweep that reproduces the figure: as published, or reduced for a small machine.", "--launch"
    ),
    owner: str = OWNER,
    no_runner: bool = WITHOUT_RUNNER,
) -> None:
    """List the published figures with their results; with NAME, show the published values beside the newest sweep's."""
    from engine.published import FIGURES, figure
    from engine.published.comparison import best_comparison, compare, sweeps_of
    from engine.store import Reader

    if size and not name:
        raise click.UsageError("--launch needs the name of a figure; `figures` lists them.")
    if name and size:
        _launch_figure(name, size, owner, no_runner)
        return
    with Reader.open(Home.find()) as reader:
        if name:
            found = figure(name)
            sweeps = sweeps_of(reader, found)
            ours = compare(reader, found, sweeps[0]) if sweeps else None
            answer(_described(found, ours), lambda: _figure_in_full(found, ours))
            return
        compared = [(found, best_comparison(reader, found)) for found in FIGURES]
    rows = [
        (found.name, ours.summary if ours else "not measured yet", ours.size if ours else "", found.title)
        for found, ours in compared
    ]
    answer([_described(*each) for each in compared], table(("NAME", "RESULT", "SIZE", "FIGURE"), rows))


def _launch_figure(name: str, size: Literal["full", "reduced"], owner: str, no_runner: bool) -> None:
    from engine.cli.launch import STORE_TIMEOUT_S
    from engine.cli.runner import see_to_runner
    from engine.published import figure
    from engine.sweep.launch import launch_sweep

    sweep_id = launch_sweep(Home.find(), figure(name).sweep(size, owner), timeout_s=STORE_TIMEOUT_S)
    see_to_runner(Home.find(), unless=no_runner)
    said = f"Sweep {sweep_id} queued. `figures {name}` shows its results."
    answer({"sweep": sweep_id, "figure": name, "size": size}, said)


def _described(found: "Figure", ours: "FigureComparison | None") -> dict[str, Any]:
    return {
        **picked(found, "name", "title", "claim", "source", "assumed", "note"),
        "result": ours.summary if ours else None,
        "sweep": ours.sweep.id if ours else None,
        "size": ours.size if ours else None,
        "obstacles": ours.obstacles if ours else (),
        "missing": ours.missing if ours else (),
        "values": ours.values if ours else [{"published": each} for each in found.published],
    }


def _figure_in_full(found: "Figure", ours: "FigureComparison | None") -> str:
    from engine.analysis.statistics.intervals import LIMIT
    from engine.published.comparison import values_table

    lines = [f"{found.title} ({found.name})", f"Published: {found.claim}", f"Source: {found.source}"]
    if found.assumed:
        lines.append(f"Assumed set-up: {found.assumed}.")
    if found.note:
        lines.append(f"Caveat: {found.note}")
    if ours is None:
        return "\n".join([*lines, "", f"Not launched yet. Launch it with: figures {found.name} --launch reduced"])
    state = ours.summary if ours.finished else "no run has finished yet"
    lines += ["", f"Sweep {ours.sweep.id}, {ours.size}: {state}.", *found.versions[ours.size].reduced]
    lines += [*ours.obstacles, *ours.missing]
    if not ours.values:
        return "\n".join(lines)
    values = values_table(found, ours.values)
    rows = [["–" if x is None else x if isinstance(x, str) else f"{x:.5g}" for x in row] for row in values.rows]
    return "\n".join([*lines, "", table([name.upper() for name in values.columns], rows), LIMIT])


@command("catalogue", cls=click.Group, invoke_without_command=True)
def catalogue_command() -> None:
    """Show the environments and data sets that configs can use. A launch that names any other is refused."""
    from engine.catalogue import BUILT_IN, catalogue
    from engine.data.catalogue import DATA_SETS, data_set, state

    if click.get_current_context().invoked_subcommand is not None:
        return
    home = Home.find()
    added = catalogue(home)
    environments = [*BUILT_IN["environments"], *added.environments]
    sets = [(name, data_set(name, home), state(name, home)) for name in (*DATA_SETS, *added.datasets)]
    rows = [(name, found.title, found.train, found.test, there) for name, found, there in sets]
    if wants_json():
        listed = [dict(zip(("name", "title", "train", "test", "state"), row, strict=True)) for row in rows]
        print_json({"environments": environments, "datasets": listed, "added": added.model_dump()})
        return
    click.echo(table(("DATA SET", "TITLE", "TRAIN", "TEST", "STATE"), rows))
    click.echo(f"\nEnvironments: {', '.join(environments)}")


@command("add-environment", within=catalogue_command, short_help="Add a Gymnasium environment.")
def add_environment_command(name: str = argument("ID"), owner: str = OWNER) -> None:
    """Add an environment of Gymnasium, or of a package by MODULE:ID, which imports the module: it runs with the
    permissions of the console and the runner. It is created once to check its spaces.
    """
    from engine.commands.catalogue import add_environment

    found = add_environment(Home.find(), name, by=owner)
    acts = f"{counted(found.choices, 'action')}" if found.choices else f"{counted(found.action, 'number')} per action"
    answer({"added": name}, f"Added {name}: {counted(found.observation, 'number')} per observation, {acts}.")


@command("add-dataset", within=catalogue_command, short_help="Add a data set in MNIST's format.")
def add_dataset_command(
    name: str = argument(),
    folder: str = option("Folder of its four files, relative to the data folder."),
    title: str = option("Display name.", default=""),
    owner: str = OWNER,
) -> None:
    """Add a data set: four files in MNIST's format (28x28 pixels, up to ten classes) in a folder below the data folder,
    which are validated.
    """
    from engine.commands.catalogue import add_dataset

    listed = add_dataset(Home.find(), name, folder, by=owner, title=title).datasets[name]
    said = f"Added {name}: {counted(listed.train, 'training image')}, {counted(listed.test, 'test image')}."
    answer({"added": name}, said)


@command("remove", within=catalogue_command, short_help="Remove an environment or a data set from the catalogue.")
def remove_command(name: str = argument(), owner: str = OWNER) -> None:
    """Remove an added environment or data set from the catalogue; its files and the runs that used it are kept."""
    from engine.commands.catalogue import remove

    remove(Home.find(), name, by=owner)
    answer({"removed": name}, f"Removed {name}.")
