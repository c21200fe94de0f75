"""What of a sweep's page leaves as files: the view that is shown, the runs with their values, and the command that
launches it again.
"""

from collections.abc import Iterator, Sequence

from app.charts.sweep_data import experiment_of
from app.core.formatting import absolute
from app.export.rerun_commands import sweep_again
from app.export.view_downloads import here, view_downloads
from app.export.view_report import Environments
from app.report.page_capture import Noted
from app.sweep.header import name_of
from engine.analysis.seedings import mixture
from engine.config_values import value_in_words
from engine.store import Sweep
from engine.store.records import RunRow


def said_of(sweep: Sweep, runs: Sequence[RunRow]) -> list[tuple[str, str]]:
    """Return what stands on top of a sweep's page, as names and values."""
    known, preset = experiment_of(sweep), next((run.preset for run in runs if run.preset), None)
    return [
        ("Experiment", f"{known.title if known else sweep.experiment}{f', {preset}' if preset else ''}"),
        ("Owner", sweep.owner),
        ("Launched", absolute(sweep.created_at)),
        *(
            (
                f"Values of {field}",
                str(sweep.draw["over"][field]) if sweep.draw else ", ".join(map(value_in_words, sweep.grid[field])),
            )
            for field in sweep.fields
        ),
        ("Seeds", ", ".join(map(str, sweep.seeds))),
        ("Runs", ", ".join(f"{count} {status}" for status, count in sweep.statuses.items())),
        ("Reproduces", sweep.figure),
        ("Recorded", "in another lab" if sweep.is_imported else ""),
        ("Drawn", f"{sweep.draw['count']} at random, seed {sweep.draw['seed']}" if sweep.draw else ""),
        ("Caution", mixture(runs)),
        ("Timed", "one at a time, nothing beside it" if sweep.exclusive else ""),
    ]


def leave(sweep: Sweep, runs: Sequence[RunRow], shown: Noted, view: str) -> None:
    """Show the button that opens the choices."""

    def again(environments: Environments) -> Iterator[str]:
        return sweep_again(sweep, runs, environments)

    view_downloads(
        f"sweep-{sweep.id}",
        f"Sweep {sweep.id}: {name_of(sweep)}. {view}",
        here("/sweep"),
        shown,
        runs,
        key=f"sweep-{sweep.id}",
        again=again,
    )
