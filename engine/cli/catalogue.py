"""`catalogue`: the environments and data sets that configs may name, and how an admin adds to them."""

import click

from engine.catalogue import BUILT_IN, catalogue
from engine.cli.answers import print_json, table
from engine.cli.frame import json_option, owner_option
from engine.commands.catalogue import add_dataset, add_environment, remove
from engine.data.catalogue import DATA_SETS, data_set, state
from engine.home import Home


@click.group("catalogue", invoke_without_command=True)
@json_option
@click.pass_context
def catalogue_command(ctx: click.Context, as_json: bool) -> None:
    """Show the environments and data sets that configs can use. A launch that names any other is refused."""
    if ctx.invoked_subcommand is not None:
        return
    home = Home.find()
    added = catalogue(home)
    sets = [(name, data_set(name, home)) for name in (*DATA_SETS, *added.datasets)]
    if as_json:
        listed = [
            {"name": name, "title": found.title, "train": found.train, "test": found.test, "state": state(name, home)}
            for name, found in sets
        ]
        print_json(
            {
                "environments": [*BUILT_IN["environments"], *added.environments],
                "datasets": listed,
                "added": added.model_dump(),
            }
        )
        return
    click.echo(
        table(
            ("DATA SET", "TITLE", "TRAIN", "TEST", "STATE"),
            [(name, one.title, one.train, one.test, state(name, home)) for name, one in sets],
        )
    )
    click.echo(f"\nEnvironments: {', '.join((*BUILT_IN['environments'], *added.environments))}")


@catalogue_command.command("add-environment", short_help="Add a Gymnasium environment.")
@click.argument("name", metavar="ID")
@owner_option
@json_option
def add_environment_command(name: str, owner: str, as_json: bool) -> None:
    """Add an environment of Gymnasium, or of a package by MODULE:ID, which imports the module: it runs with the
    permissions of the console and the runner. It is created once to check its spaces.
    """
    found = add_environment(Home.find(), name, by=owner)
    acts = f"{found.choices} actions" if found.choices else f"{found.action} numbers per action"
    print_json({"added": name}) if as_json else click.echo(
        f"Added {name}: {found.observation} numbers per observation, {acts}."
    )


@catalogue_command.command("add-dataset", short_help="Add a data set in MNIST's format.")
@click.argument("name")
@click.option("--folder", required=True, help="Folder of its four files, relative to the data folder.")
@click.option("--title", default="", help="Display name.")
@owner_option
@json_option
def add_dataset_command(name: str, folder: str, title: str, owner: str, as_json: bool) -> None:
    """Add a data set: four files in MNIST's format (28x28 pixels, up to ten classes) in a folder below the data folder,
    which are validated.
    """
    listed = add_dataset(Home.find(), name, folder, by=owner, title=title).datasets[name]
    print_json({"added": name}) if as_json else click.echo(
        f"Added {name}: {listed.train:,} training images, {listed.test:,} test images."
    )


@catalogue_command.command("remove", short_help="Remove an environment or a data set from the catalogue.")
@click.argument("name")
@owner_option
@json_option
def remove_command(name: str, owner: str, as_json: bool) -> None:
    """Remove an added environment or data set from the catalogue; its files and the runs that used it are kept."""
    remove(Home.find(), name, by=owner)
    print_json({"removed": name}) if as_json else click.echo(f"Removed {name}.")
