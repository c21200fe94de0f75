"""What of a duel's page leaves as files: verdict, charts, tables, its runs, and the command that launches it again."""

import shlex
from collections.abc import Iterator

from app.core.formatting import absolute
from app.duel import tables
from app.export.rerun_commands import checkout, written
from app.export.view_downloads import view_downloads
from app.export.view_report import Environments
from app.report import page_capture
from app.report.page_capture import Noted
from engine.duel.catalogue import ready
from engine.duel.outcome import DuelOutcome, amount_in_words
from engine.duel.spec import Duel, Strategy
from engine.metrics import metric


def note(found: DuelOutcome) -> None:
    """Say what stands on top of a duel's page, and its verdict with what is to be minded."""
    stored, duel = found.evidence.stored, found.evidence.duel
    shared = ", ".join(f"{name} {value}" for name, value in duel.shared.items() if value is not None)
    told = [
        ("Verdict", found.verdict or "none yet"),
        ("Strategies", ", ".join(one.name for one in duel.strategies)),
        ("Budget of each run", amount_in_words(duel.budget.kind, duel.budget.amount)),
        ("Judged by", f"{metric(duel.metric).label}, last test within the budget"),
        ("Shared", shared or "each method's defaults"),
        ("Learning rates", ", ".join(f"{rate:g}" for rate in duel.rates)),
        ("Seeds", f"{duel.seeds} judged, {duel.tuning_seeds} for tuning"),
        ("Owner", stored.owner),
        ("Launched", absolute(stored.created_at)),
    ]
    page_capture.facts("The duel", told)
    page_capture.words([*found.tuned.obstacles, *found.cautions])


def leave(found: DuelOutcome, title: str, shown: Noted) -> None:
    """Show the button that opens the choices."""
    stored = found.evidence.stored
    runs = [each.run for each in found.evidence.cells if each.run]

    def again(environments: Environments) -> Iterator[str]:
        if runs:
            yield from checkout(environments.get(runs[-1].id, {}))
        yield duel_again(found.evidence.duel, stored.name)

    view_downloads(f"duel-{stored.id}", title, f"/duel?duel={stored.id}", shown, runs, key="duel", again=again)


def note_tables(found: DuelOutcome) -> None:
    """Say which tables are shown, as plain values."""
    page_capture.table("Planned runs and what they reached", lambda: tables.values_to_save(found))
    if found.found:
        page_capture.table("Differences", lambda: tables.pairs_to_save(found))


def duel_again(duel: Duel, name: str) -> str:
    """Return the line for a terminal that launches a duel again."""
    words = [
        *(_written(one) for one in duel.strategies),
        f"--budget {duel.budget.kind}={duel.budget.amount:g}",
        *(f"--set {shlex.quote(written(key, value))}" for key, value in duel.shared.items() if value is not None),
        f"--rates {','.join(f'{rate:g}' for rate in duel.rates)}",
        f"--tuning-seeds {duel.tuning_seeds}",
        f"--seeds {duel.seeds}",
        f"--metric {duel.metric}",
        *([f"--target {duel.target:g}"] if duel.target is not None else []),
        *([] if duel.alone else ["--beside-others"]),
        *([f"--name {shlex.quote(name)}"] if name else []),
    ]
    return " ".join(["python -m engine duel launch", *words])


def _written(one: Strategy) -> str:
    """Return a strategy as the command reads it: the ready one that it shares most settings with, and what it has
    beside that.
    """
    alike = {
        name: each
        for name, each in ready().items()
        if each.experiment == one.experiment
        and all(one.settings.get(key) == value for key, value in each.settings.items())
    }
    name = max(alike, key=lambda each: len(alike[each].settings))
    own = "; ".join(written(key, value) for key, value in one.settings.items() if key not in alike[name].settings)
    text = f"{name}:{own}" if own else name
    return shlex.quote(text if one.name == alike[name].name or set(one.name) & set(":=") else f"{one.name}={text}")
