"""`catalogue`: the environments and data sets that configs may name, and how an admin adds to them."""

import click

from engine.catalogue import BUILT_IN, catalogue
from engine.cli.answers import print_json, table
from engine.cli.frame import json_option, owner_option
from engine.commands.catalogue import add_dataset, add_environment, remove
from engine.data.catalogue import DATA_SETS, data_set, state
from engine.home import Home


@click.group(
    "catalogue",
    short_help="Show or extend the environments and data sets that can be chosen.",
    invoke_without_command=True,
)
@json_option
@click.pass_context
def catalogue_command(ctx: click.Context, as_json: bool) -> None:
    """Show the environments and data sets that configs may name. What is not listed can't be named, by whatever way a
    launch comes.
    """
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


@catalogue_command.command("add-environment", short_help="Let configs name an environment of gymnasium.")
@click.argument("name", metavar="ID")
@owner_option
@json_option
def add_environment_command(name: str, owner: str, as_json: bool) -> None:
    """Let configs name an environment that gymnasium, or a package installed here, has registered; it is made once and
    its spaces are looked at.
    """
    found = add_environment(Home.find(), name, by=owner)
    acts = f"{found.choices} actions" if found.choices else f"{found.action} numbers an action"
    print_json({"added": name}) if as_json else click.echo(
        f"{name} can be chosen now: {found.observation} numbers an observation, {acts}."
    )


@catalogue_command.command("add-dataset", short_help="Let configs name a data set in MNIST's format.")
@click.argument("name")
@click.option("--folder", required=True, help="Where its four files lie, below the data folder.")
@click.option("--title", default="", help="What people call it.")
@owner_option
@json_option
def add_dataset_command(name: str, folder: str, title: str, owner: str, as_json: bool) -> None:
    """Let configs name a data set: four files in MNIST's format (28x28 pixels, up to ten classes) in a folder below the
    data folder, which are read through.
    """
    listed = add_dataset(Home.find(), name, folder, by=owner, title=title).datasets[name]
    print_json({"added": name}) if as_json else click.echo(
        f"{name} can be chosen now: {listed.train:,} images to train on, {listed.test:,} to test on."
    )


@catalogue_command.command("remove", short_help="Take an environment or a data set off the catalogue.")
@click.argument("name")
@owner_option
@json_option
def remove_command(name: str, owner: str, as_json: bool) -> None:
    """Take an environment or a data set that was added off the catalogue; its files stay, and so do runs
    that used it.
    """
    remove(Home.find(), name, by=owner)
    print_json({"removed": name}) if as_json else click.echo(f"{name} can't be chosen any more.")
