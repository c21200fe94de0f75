"""`tag`, `note`, `rename`, `star`, `pin`, `archive` and their opposites: marks on runs, by number or by filter."""

from collections.abc import Callable, Sequence

import click

from engine.cli.answers import answer, print_changed, wants_json
from engine.cli.frame import ID, OWNER, argument, command, option
from engine.errors import ConfigError
from engine.home import Home
from engine.store import Reader, Store

RUN_IDS = argument("[ID]...")
FILTER = option("All runs that match a filter, such as 'status == \"failed\"'.", "--filter", metavar="FILTER")


@command("tag")
def tag_command(
    tag: str = argument(), run_ids: Sequence[int] = RUN_IDS, text: str | None = FILTER, owner: str = OWNER
) -> None:
    """Add a tag to runs, for searches and filters; gc keeps tagged runs."""
    _mark(run_ids, text, lambda store, chosen: store.annotations.tag(chosen, tag, by=owner), f"tagged {tag.strip()}")


@command("untag")
def untag_command(
    tag: str = argument(), run_ids: Sequence[int] = RUN_IDS, text: str | None = FILTER, owner: str = OWNER
) -> None:
    """Remove a tag from runs."""
    said = f"no longer tagged {tag.strip()}"
    _mark(run_ids, text, lambda store, chosen: store.annotations.untag(chosen, tag, by=owner), said)


@command("star")
def star_command(run_ids: Sequence[int] = RUN_IDS, text: str | None = FILTER, owner: str = OWNER) -> None:
    """Star runs for the whole lab; gc keeps starred runs."""
    _mark(run_ids, text, lambda store, chosen: store.annotations.star(chosen, by=owner), "starred")


@command("unstar")
def unstar_command(run_ids: Sequence[int] = RUN_IDS, text: str | None = FILTER, owner: str = OWNER) -> None:
    """Unstar runs, whoever starred them."""
    _mark(run_ids, text, lambda store, chosen: store.annotations.unstar(chosen, by=owner), "no longer starred")


@command("archive")
def archive_command(run_ids: Sequence[int] = RUN_IDS, text: str | None = FILTER, owner: str = OWNER) -> None:
    """Archive runs that have ended: tables hide them, their data is kept, and unarchive restores them."""
    said, back = "archived", "To restore: python -m engine unarchive ID"
    _mark(run_ids, text, lambda store, chosen: store.annotations.archive(chosen, by=owner), said, back)


@command("unarchive")
def unarchive_command(run_ids: Sequence[int] = RUN_IDS, text: str | None = FILTER, owner: str = OWNER) -> None:
    """Restore archived runs to the tables."""
    _mark(run_ids, text, lambda store, chosen: store.annotations.unarchive(chosen, by=owner), "no longer archived")


@command("pin")
def pin_command(run_id: int = ID, owner: str = OWNER) -> None:
    """Make a run its experiment's baseline: listed first in the results, and other runs are compared with it."""
    with Store.open(Home.find()) as store:
        before = store.annotations.pin(run_id, by=owner)
    instead = f", in place of run {before}" if before else ""
    answer({"id": run_id, "before": before}, f"Run {run_id} is the baseline of its experiment{instead}.")


@command("unpin")
def unpin_command(run_id: int = ID, owner: str = OWNER) -> None:
    """Remove a run as baseline."""
    _mark([run_id], None, lambda store, _: store.annotations.unpin(run_id, by=owner), "no longer a baseline")


@command("note")
def note_command(run_id: int = ID, text: str = argument(), owner: str = OWNER) -> None:
    """Replace a run's note; an empty text removes it."""
    with Store.open(Home.find()) as store:
        store.annotations.set_note(run_id, text, by=owner)
    print_changed([run_id], "noted" if text.strip() else "without a note")


@command("rename")
def rename_command(run_id: int = ID, name: str = argument(), owner: str = OWNER) -> None:
    """Rename a run; an empty name removes it."""
    with Store.open(Home.find()) as store:
        store.annotations.rename(run_id, name, by=owner)
    print_changed([run_id], f"named {name.strip()}" if name.strip() else "without a name")


def _mark(
    run_ids: Sequence[int], text: str | None, mark: Callable[[Store, list[int]], list[int]], said: str, back: str = ""
) -> None:
    """Mark runs, all or none of them; name only those that change, and how to change them `back`."""
    chosen = chosen_runs(run_ids, text)
    with Store.open(Home.find()) as store:
        changed = mark(store, chosen)
    print_changed(changed, said)
    if not wants_json() and (last := back if changed else _nothing(chosen)):
        click.echo(last)


def _nothing(chosen: Sequence[int]) -> str:
    return "Nothing to change." if chosen else "No run matches the filter."


def chosen_runs(run_ids: Sequence[int], text: str | None) -> list[int]:
    """Return the runs of a command, by id or by filter; raises ConfigError unless one of the two is given."""
    if bool(run_ids) == (text is not None):
        raise ConfigError.of("", "Give the ids of runs, or --filter, but not both.")
    if text is None:
        return list(run_ids)
    if not text.strip():
        blank = "The filter is blank, which matches every run of the lab. Write 'id > 0' to confirm that."
        raise ConfigError.of("filter", blank)
    with Reader.open(Home.find()) as reader:
        return reader.runs.ids_of(reader.fields.filter(text))
