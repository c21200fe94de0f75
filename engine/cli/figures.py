"""`figures`: published figures, their verdicts, and launching the sweeps that reproduce them."""

from typing import Any

import click

from engine.cli.answers import print_json, table
from engine.cli.frame import json_option, owner_option
from engine.cli.launch import STORE_TIMEOUT_S
from engine.cli.runner_start import see_to_runner
from engine.home import Home
from engine.published import FIGURES, SIZES, Figure, Size, figure
from engine.published.judgement import Judgement, best_judgement, judge, sweeps_of
from engine.published.launch import launch_figure
from engine.published.rules import level_explained
from engine.store import Reader


@click.command("figures")
@click.argument("name", required=False)
@click.option(
    "--launch",
    "size",
    type=click.Choice(SIZES),
    help="Queue the sweep that reproduces the figure: as published, or reduced for a small machine.",
)
@owner_option
@json_option
@click.option("--no-runner", is_flag=True, help="Do not start a runner; the runs stay queued until one starts.")
def figures_command(name: str | None, size: Size | None, owner: str, as_json: bool, no_runner: bool) -> None:
    """List the published figures with their verdicts; with NAME, show the newest sweep, the rules and missing data of
    one.
    """
    if size and not name:
        raise click.UsageError("--launch needs the name of a figure; `figures` lists them.")
    if name and size:
        sweep_id = launch_figure(Home.find(), name, size, owner=owner, timeout_s=STORE_TIMEOUT_S)
        if not no_runner:
            see_to_runner(Home.find())
        if as_json:
            print_json({"sweep": sweep_id, "figure": name, "size": size})
        else:
            click.echo(f"Sweep {sweep_id} queued. `figures {name}` shows its verdict.")
        return
    with Reader.open(Home.find()) as reader:
        chosen = [
            (found, _judged(reader, found) if name else best_judgement(reader, found))
            for found in ([figure(name)] if name else FIGURES)
        ]
    if as_json:
        described = [_described(*each) for each in chosen]
        print_json(described[0] if name else described)
    elif name:
        click.echo(_in_full(*chosen[0]))
    else:
        rows = [
            (found.name, judged.verdict if judged else "not measured yet", judged.size if judged else "", found.title)
            for found, judged in chosen
        ]
        click.echo(table(("NAME", "VERDICT", "SIZE", "FIGURE"), rows))


def _judged(reader: Reader, found: Figure) -> Judgement | None:
    """Return the judgement of a figure's newest sweep, None without a sweep."""
    sweeps = sweeps_of(reader, found)
    return judge(reader, found, sweeps[0]) if sweeps else None


def _described(found: Figure, judged: Judgement | None) -> dict[str, Any]:
    return {
        "name": found.name,
        "title": found.title,
        "claim": found.claim,
        "source": found.source,
        "assumed": found.assumed,
        "chosen": found.chosen,
        "verdict": judged.verdict if judged else None,
        "sweep": judged.sweep.id if judged else None,
        "size": judged.size if judged else None,
        "obstacles": judged.evidence.obstacles if judged else (),
        "missing": judged.evidence.missing if judged else (),
        "checks": judged.checks if judged else (),
    }


def _in_full(found: Figure, judged: Judgement | None) -> str:
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
    return "\n".join(
        [
            *lines,
            "",
            table(
                ("OUTCOME", "RULE", "NUMBERS"), [(check.outcome, check.rule, check.numbers) for check in judged.checks]
            ),
            *filter(None, [level_explained(judged.checks)]),
        ]
    )
