"""`tag`, `note`, `rename`, `star`, `pin`, `archive` and their opposites: marks on runs, by number or by filter."""

from collections.abc import Callable, Sequence

import click

from engine.cli.answers import print_json
from engine.cli.frame import Decorator, json_option, owner_option
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.store import Reader, Store

filter_option: Decorator = click.option(
    "--filter", "text", metavar="FILTER", help="All runs that match a filter, such as 'status == \"failed\"'."
)
ids_argument: Decorator = click.argument("run_ids", metavar="[ID]...", type=int, nargs=-1)


@click.command("tag")
@click.argument("tag")
@ids_argument
@filter_option
@owner_option
@json_option
def tag_command(tag: str, run_ids: Sequence[int], text: str | None, owner: str, as_json: bool) -> None:
    """Add a tag to runs, for searches and filters; gc keeps tagged runs."""
    _mark(
        run_ids,
        text,
        lambda store, chosen: store.annotations.tag(chosen, tag, by=owner),
        f"tagged {tag.strip()}",
        as_json,
    )


@click.command("untag")
@click.argument("tag")
@ids_argument
@filter_option
@owner_option
@json_option
def untag_command(tag: str, run_ids: Sequence[int], text: str | None, owner: str, as_json: bool) -> None:
    """Remove a tag from runs."""
    _mark(
        run_ids,
        text,
        lambda store, chosen: store.annotations.untag(chosen, tag, by=owner),
        f"no longer tagged {tag.strip()}",
        as_json,
    )


@click.command("star")
@ids_argument
@filter_option
@owner_option
@json_option
def star_command(run_ids: Sequence[int], text: str | None, owner: str, as_json: bool) -> None:
    """Star runs for the whole lab; gc keeps starred runs."""
    _mark(run_ids, text, lambda store, chosen: store.annotations.star(chosen, by=owner), "starred", as_json)


@click.command("unstar")
@ids_argument
@filter_option
@owner_option
@json_option
def unstar_command(run_ids: Sequence[int], text: str | None, owner: str, as_json: bool) -> None:
    """Unstar runs, whoever starred them."""
    _mark(run_ids, text, lambda store, chosen: store.annotations.unstar(chosen, by=owner), "no longer starred", as_json)


@click.command("archive")
@ids_argument
@filter_option
@owner_option
@json_option
def archive_command(run_ids: Sequence[int], text: str | None, owner: str, as_json: bool) -> None:
    """Archive runs that have ended: tables hide them, their data is kept, and unarchive restores them."""
    _mark(run_ids, text, lambda store, chosen: store.annotations.archive(chosen, by=owner), "archived", as_json)


@click.command("unarchive")
@ids_argument
@filter_option
@owner_option
@json_option
def unarchive_command(run_ids: Sequence[int], text: str | None, owner: str, as_json: bool) -> None:
    """Restore archived runs to the tables."""
    _mark(
        run_ids,
        text,
        lambda store, chosen: store.annotations.unarchive(chosen, by=owner),
        "no longer archived",
        as_json,
    )


@click.command("pin")
@click.argument("run_id", metavar="ID", type=int)
@owner_option
@json_option
def pin_command(run_id: int, owner: str, as_json: bool) -> None:
    """Make a run its experiment's baseline: listed first in the results, and other runs are compared with it."""
    with Store.open(Home.find()) as store:
        before = store.annotations.pin(run_id, by=owner)
    if as_json:
        print_json({"id": run_id, "before": before})
    else:
        click.echo(f"Run {run_id} is the baseline of its experiment{f', in place of run {before}' if before else ''}.")


@click.command("unpin")
@click.argument("run_ids", metavar="ID", type=int, nargs=1)
@owner_option
@json_option
def unpin_command(run_ids: int, owner: str, as_json: bool) -> None:
    """Remove a run as baseline."""
    _mark(
        [run_ids],
        None,
        lambda store, chosen: store.annotations.unpin(chosen[0], by=owner),
        "no longer a baseline",
        as_json,
    )


@click.command("note")
@click.argument("run_id", metavar="ID", type=int)
@click.argument("text")
@owner_option
@json_option
def note_command(run_id: int, text: str, owner: str, as_json: bool) -> None:
    """Replace a run's note; an empty text removes it."""
    with Store.open(Home.find()) as store:
        store.annotations.set_note(run_id, text, by=owner)
    _say([run_id], "noted" if text.strip() else "without a note", as_json)


@click.command("rename")
@click.argument("run_id", metavar="ID", type=int)
@click.argument("name")
@owner_option
@json_option
def rename_command(run_id: int, name: str, owner: str, as_json: bool) -> None:
    """Rename a run; an empty name removes it."""
    with Store.open(Home.find()) as store:
        store.annotations.rename(run_id, name, by=owner)
    _say([run_id], f"named {name.strip()}" if name.strip() else "without a name", as_json)


def _mark(
    run_ids: Sequence[int],
    text: str | None,
    order: Callable[[Store, Sequence[int]], list[int]],
    said: str,
    as_json: bool,
) -> None:
    """Mark runs, all or none of them; name only those that change."""
    chosen = _chosen(run_ids, text)
    with Store.open(Home.find()) as store:
        changed = order(store, chosen)
    _say(changed, said, as_json)
    if not changed and not as_json:
        click.echo("Nothing to change." if chosen else "No run matches the filter.")


def _chosen(run_ids: Sequence[int], text: str | None) -> list[int]:
    if bool(run_ids) == (text is not None):
        raise ConfigError([Problem("", "Give the ids of runs, or --filter, but not both.")])
    if text is None:
        return list(run_ids)
    if not text.strip():
        raise ConfigError(
            [
                Problem(
                    "filter", "The filter is blank, which matches every run of the lab. Write 'id > 0' to confirm that."
                )
            ]
        )
    with Reader.open(Home.find()) as reader:
        return reader.runs.ids_of(reader.fields.filter(text))


def _say(run_ids: Sequence[int], said: str, as_json: bool) -> None:
    if as_json:
        print_json({"runs": list(run_ids), "now": said})
        return
    for run_id in run_ids:
        click.echo(f"Run {run_id} is {said}.")
