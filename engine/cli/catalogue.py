"""`experiments`, `figures` and `catalogue`: what there is to launch, and how an admin adds environments and data sets.

Each command imports what it needs: the lists of settings need neither NumPy nor the store.
"""

from typing import TYPE_CHECKING, Any, Literal

import click

from engine.cli.answers import answer, picked, print_json, table, wants_json
from engine.cli.frame import OWNER, WITHOUT_RUNNER, argument, command, option
from engine.config import bound_of, choices_of, is_advanced, unit_of
from engine.experiment.definition import Experiment
from engine.home import Home
from engine.registry import experiment, experiments

if TYPE_CHECKING:
    from engine.published import Figure
    from engine.published.judgement import Judgement

MOST_CHOICES = 12
"""A setting with more choices is abbreviated in the table."""


@command("experiments")
def experiments_command(name: str | None = argument()) -> None:
    """List the experiments; with NAME, show the presets and settings of one."""
    if name:
        found = experiment(name)
        answer(described(found), _in_full(found))
        return
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
    """List the published figures with their verdicts; with NAME, show the newest sweep, the rules and missing data of
    one.
    """
    from engine.published import FIGURES, figure
    from engine.published.judgement import best_judgement, judge, sweeps_of
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
            judged = judge(reader, found, sweeps[0]) if sweeps else None
            answer(_described(found, judged), lambda: _figure_in_full(found, judged))
            return
        judgements = [(found, best_judgement(reader, found)) for found in FIGURES]
    rows = [
        (found.name, judged.verdict if judged else "not measured yet", judged.size if judged else "", found.title)
        for found, judged in judgements
    ]
    answer([_described(*each) for each in judgements], table(("NAME", "VERDICT", "SIZE", "FIGURE"), rows))


def _launch_figure(name: str, size: Literal["full", "reduced"], owner: str, no_runner: bool) -> None:
    from engine.cli.launch import STORE_TIMEOUT_S
    from engine.cli.runner import see_to_runner
    from engine.published.launch import launch_figure

    sweep_id = launch_figure(Home.find(), name, size, owner=owner, timeout_s=STORE_TIMEOUT_S)
    see_to_runner(Home.find(), unless=no_runner)
    said = f"Sweep {sweep_id} queued. `figures {name}` shows its verdict."
    answer({"sweep": sweep_id, "figure": name, "size": size}, said)


def _described(found: "Figure", judged: "Judgement | None") -> dict[str, Any]:
    return {
        **picked(found, "name", "title", "claim", "source", "assumed", "chosen"),
        "verdict": judged.verdict if judged else None,
        "sweep": judged.sweep.id if judged else None,
        "size": judged.size if judged else None,
        "obstacles": judged.evidence.obstacles if judged else (),
        "missing": judged.evidence.missing if judged else (),
        "checks": judged.checks if judged else (),
    }


def _figure_in_full(found: "Figure", judged: "Judgement | None") -> str:
    from engine.published.rules import level_explained

    lines = [f"{found.title} ({found.name})", f"Published: {found.claim}", f"Source: {found.source}"]
    if found.assumed:
        lines.append(f"Assumed set-up: {found.assumed}.")
    if found.chosen:
        lines.append(f"Chosen by its outcome: {found.chosen}.")
    if judged is None:
        return "\n".join([*lines, "", f"Not launched yet. Launch it with: figures {found.name} --launch reduced"])
    reduced = found.versions[judged.size].reduced
    lines += ["", f"Sweep {judged.sweep.id}, {judged.size}: {judged.verdict or 'no run has finished yet'}.", *reduced]
    lines += [*judged.evidence.obstacles, *judged.evidence.missing]
    checks = [(check.outcome, check.rule, check.numbers) for check in judged.checks]
    lines += ["", table(("OUTCOME", "RULE", "NUMBERS"), checks), *filter(None, [level_explained(judged.checks)])]
    return "\n".join(lines)


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
    acts = f"{found.choices} actions" if found.choices else f"{found.action} numbers per action"
    answer({"added": name}, f"Added {name}: {found.observation} numbers per observation, {acts}.")


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
    said = f"Added {name}: {listed.train:,} training images, {listed.test:,} test images."
    answer({"added": name}, said)


@command("remove", within=catalogue_command, short_help="Remove an environment or a data set from the catalogue.")
def remove_command(name: str = argument(), owner: str = OWNER) -> None:
    """Remove an added environment or data set from the catalogue; its files and the runs that used it are kept."""
    from engine.commands.catalogue import remove

    remove(Home.find(), name, by=owner)
    answer({"removed": name}, f"Removed {name}.")
