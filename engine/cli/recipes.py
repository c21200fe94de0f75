"""`recipes`: the commands of the lab's own scripts that are kept under a name, which `run NAME lr=0.1` launches."""

import click

from engine.cli.answers import answer, moment, picked, table
from engine.cli.frame import OWNER, argument, command, option, together
from engine.cli.subject import CommandWords, Pasted
from engine.config_values import value_in_words
from engine.errors import ConfigError
from engine.home import Home
from engine.metrics import DIRECTIONS
from engine.script.command import Command, read_command
from engine.script.enrich import enriched
from engine.store import Reader, Store
from engine.store.scripts import Recipe, rendered

NAME = argument("NAME")


class RecipeWords(click.Group):
    """A group with `list` as its default command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `list` if no command is named."""
        return super().parse_args(ctx, args if args and args[0] != "--json" else ["list", *args])


@click.group("recipes", cls=RecipeWords)
def recipes_command() -> None:
    """List, save and hide recipes: commands of your own scripts under a name, with settings and a ranking metric.

    `run NAME lr=0.1` launches one. All these commands accept --json.
    """


@command("list", within=recipes_command)
def list_command(hidden: bool = option("Also list hidden recipes.")) -> None:
    """List the recipes with their newest versions."""
    with Reader.open(Home.find()) as reader:
        found = reader.recipes.everyone(hidden=hidden)
    none = "No recipes. Save one with: python -m engine recipes save NAME -- COMMAND"
    rows = [(each.name, each.version, each.title, _text(each), each.created_by) for each in found]
    answer([_plain(each) for each in found], table(("NAME", "VERSION", "TITLE", "COMMAND", "SAVED BY"), rows, none))


@command("show", within=recipes_command)
def show_command(name: str = NAME, version: int | None = option("Version.  [default: the newest]")) -> None:
    """Show a recipe with its settings and versions."""
    with Reader.open(Home.find()) as reader:
        found, versions = reader.recipes.one(name, version), reader.recipes.versions(name)
        result, better = reader.recipes.ranking_of(found.command.identity(name))
    fields = [(each.name, each.type, value_in_words(each.default), each.help) for each in found.command.fields]
    ranked = result and f"Ranked by {result}, {DIRECTIONS[better or 'max']}."
    blocks = [
        f"{found.name}, version {found.version}: {found.title}",
        found.description,
        f"{_text(found)}\nin {found.command.folder}",
        ranked,
        table(("SETTING", "TYPE", "DEFAULT", "HELP"), fields, "It has no settings."),
        table(
            ("VERSION", "SAVED", "BY", "COMMAND"),
            [(each.version, moment(each.created_at), each.created_by, _text(each)) for each in versions],
        ),
    ]
    told = {**_plain(found), "versions": [_plain(each) for each in versions]}
    answer(told, "\n\n".join(filter(None, blocks)))


@command("save", within=recipes_command, cls=CommandWords)
def save_command(
    name: str = argument("NAME [-- COMMAND...]"),
    pasted: Pasted = together(Pasted),
    run_id: int | None = option("Save the command of this run, with its settings.", "--run", metavar="ID"),
    title: str = option("Title of its card.  [default: the name]", default=""),
    description: str = option("What it does, in a sentence.", default=""),
    owner: str = OWNER,
) -> None:
    """Save the command after `--`, or that of a run, as the next version of a recipe, unless nothing changed. Its
    values are the defaults."""
    found = pasted.command()
    if (found is None) == (run_id is None):
        raise click.UsageError("Write a command after --, or name a run with --run.")
    with Store.open(Home.find()) as store:
        kept = found or _of_run(store.read, run_id or 0)
        version = store.recipes.save(name, kept, by=owner, title=title, description=description)
    said = f"Recipe {name} is saved: version {version}. Launch it with: python -m engine run {name}"
    answer({"name": name, "version": version}, said)


@command("hide", within=recipes_command)
def hide_command(name: str = NAME, owner: str = OWNER) -> None:
    """Offer a recipe no longer; its runs stay, and it can still be launched by its name."""
    with Store.open(Home.find()) as store:
        store.recipes.hide(name, by=owner)
    answer(
        {"name": name, "hidden": True},
        f"Recipe {name} is hidden. Show it again: python -m engine recipes unhide {name}",
    )


@command("unhide", within=recipes_command)
def unhide_command(name: str = NAME, owner: str = OWNER) -> None:
    """Offer a hidden recipe again."""
    with Store.open(Home.find()) as store:
        store.recipes.hide(name, by=owner, hidden=False)
    answer({"name": name, "hidden": False}, f"Recipe {name} is offered again.")


def _of_run(reader: Reader, run_id: int) -> Command:
    """Return the command of a run, with the run's settings as its defaults."""
    run = reader.runs.one(run_id)
    if run.command is None:
        raise ConfigError.of("run", f"Run {run_id} is of the experiment {run.experiment}, not of a command.")
    found = rendered(run.command, run.config)
    words = [*(f"{name}={text}" for name, text in found.environment.items()), *found.argv]
    return enriched(read_command(words, run.command.folder, run.command.python))


def _text(recipe: Recipe) -> str:
    return recipe.command.rendered().text


def _plain(recipe: Recipe) -> dict[str, object]:
    told = picked(recipe, "name", "version", "title", "description", "created_at", "created_by", "is_hidden")
    ranked = {"ranked_by": recipe.command.result, "better": recipe.command.better}
    shown = {"folder": recipe.command.folder, "python": recipe.command.python, "level": recipe.command.level}
    return {**told, **ranked, **shown, "command": list(recipe.command.rendered().argv)}
