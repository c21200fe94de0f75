"""`fsck`: check the integrity of a home, and repair it."""

import click

from engine.cli.answers import print_json
from engine.cli.frame import FAILED, json_option, owner_option
from engine.commands.authorize import permit
from engine.errors import EngineError
from engine.home import Home
from engine.upkeep.fsck import Trouble, examine


@click.command("fsck")
@click.option("--mend", is_flag=True, help="Repair what can be repaired.")
@owner_option
@json_option
@click.pass_context
def fsck_command(ctx: click.Context, mend: bool, owner: str, as_json: bool) -> None:
    """Find the traces of crashes: damage, runs without a worker, summaries that disagree with their points, stray
    folders, files and shared memory.

    Runs may continue meanwhile. Exits with 1 if anything but harmless leftovers remains.
    """
    if mend:
        permit(Home.find(), "mend", by=owner, damaged=True)
    found: list[tuple[Trouble, str]] = []
    for trouble in examine(Home.find()):
        found.append((trouble, _mended(trouble) if mend else "found"))
        if not as_json:
            _print(*found[-1])
    sound = all(trouble.harmless or state == "mended" for trouble, state in found)
    if as_json:
        print_json(
            {
                "sound": sound,
                "findings": [
                    {"kind": t.kind, "sentence": t.sentence, "cure": t.cure, "harmless": t.harmless, "state": s}
                    for t, s in found
                ],
            }
        )
    elif not found:
        click.echo("No problems found.")
    elif not mend and any(trouble.mend for trouble, _ in found):
        click.echo("Repair with: python -m engine fsck --mend")
    ctx.exit(0 if sound else FAILED)


def _mended(trouble: Trouble) -> str:
    if trouble.mend is None:
        return "not mended"
    try:
        trouble.mend()
    except (EngineError, OSError) as error:
        return f"not mended: {error}"
    return "mended"


def _print(trouble: Trouble, state: str) -> None:
    colour = "green" if state == "mended" else "yellow" if trouble.harmless else "red"
    click.echo(f"{click.style(state, fg=colour)}  {trouble.kind}: {trouble.sentence}")
    if state != "mended":
        click.echo(f"    {trouble.cure}")
