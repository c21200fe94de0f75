"""Downloads of a duel's page: verdict, charts, tables, runs, and the command that launches it again."""

import shlex
from collections.abc import Iterator

from app.core.formatting import absolute
from app.duel import tables
from app.export.rerun_commands import checkout, written
from app.export.view_downloads import view_downloads
from app.export.view_report import Environments
from app.report import page_capture
from app.report.page_capture import Noted
from engine.analysis.run_values import lower_title
from engine.duel.evidence import about_runs
from engine.duel.outcome import DuelOutcome, amount_in_words
from engine.duel.spec import Duel, Strategy, ready
from engine.metrics import metric


def note(found: DuelOutcome) -> None:
    """Record the header of a duel's page, its verdict and its cautions for the report."""
    stored, duel = found.evidence.stored, found.evidence.duel
    shared = ", ".join(f"{lower_title(name)} {value}" for name, value in duel.shared.items() if value is not None)
    header = [
        ("Verdict", found.verdict or "none yet"),
        ("Strategies", ", ".join(one.name for one in duel.strategies)),
        ("Budget per run", amount_in_words(duel.budget.kind, duel.budget.amount)),
        ("Metric", f"{metric(duel.metric).label}, last test within the budget"),
        ("Shared settings", shared or "method defaults"),
        ("Learning rates", ", ".join(f"{rate:g}" for rate in duel.rates)),
        ("Seeds", f"{duel.seeds} for evaluation, {duel.tuning_seeds} for tuning"),
        ("Owner", stored.owner),
        ("Launched", absolute(stored.created_at)),
    ]
    page_capture.facts("Duel", header)
    page_capture.words([*found.tuned.obstacles, *found.cautions])


def leave(found: DuelOutcome, title: str, shown: Noted) -> None:
    """Show the download button."""
    stored = found.evidence.stored
    runs = [each.run for each in found.evidence.cells if each.run]

    def again(environments: Environments) -> Iterator[str]:
        if runs:
            yield from checkout(environments.get(runs[-1].id, {}))
        yield duel_again(found.evidence.duel, stored.name)

    view_downloads(
        f"duel-{stored.id}",
        title,
        f"/duel?duel={stored.id}",
        shown,
        runs,
        key="duel",
        again=again,
        about=about_runs(found.evidence),
    )


def note_tables(found: DuelOutcome) -> None:
    """Record the paired differences, as plain values; the runs are in every download."""
    if found.found:
        page_capture.table("Paired differences", lambda: tables.pairs_to_save(found))


def duel_again(duel: Duel, name: str) -> str:
    """Return the shell command that launches a duel again."""
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
    """Return a strategy in the command's syntax: the preset that shares most settings with it, and the remaining
    settings.
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
