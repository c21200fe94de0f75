"""Downloads of a sweep's page: the current view, the runs with their values, and the command that launches it again."""

from collections.abc import Iterator, Sequence

from app.charts.sweep_data import experiment_of
from app.core.formatting import absolute
from app.export.rerun_commands import sweep_again
from app.export.view_report import Environments, here, view_downloads
from app.report.page_capture import Noted
from app.sweep.header import equal_work, name_of
from app.ui.run_state import status_counts
from engine.analysis.comparability import mixture
from engine.analysis.run_values import lower_title
from engine.config_values import value_in_words
from engine.store import Sweep
from engine.store.records import RunRow, reached_budget


def sweep_facts(sweep: Sweep, runs: Sequence[RunRow]) -> list[tuple[str, str]]:
    """Return the sweep's facts as names and values."""
    known, preset = experiment_of(sweep), next((run.preset for run in runs if run.preset), None)
    return [
        ("Experiment", f"{known.title if known else sweep.experiment}{f', {preset}' if preset else ''}"),
        ("Owner", sweep.owner),
        ("Launched", absolute(sweep.created_at)),
        *(
            (
                f"Values of {lower_title(field)}",
                str(sweep.draw.over[field]) if sweep.draw else ", ".join(map(value_in_words, sweep.grid[field])),
            )
            for field in sweep.fields
        ),
        ("Seeds", ", ".join(map(str, sweep.seeds))),
        ("Runs", ", ".join(words for _, words in status_counts(sweep.statuses, sum(map(reached_budget, runs))))),
        ("Reproduces", sweep.figure),
        ("Recorded", "in another lab" if sweep.is_imported else ""),
        ("Random search", f"{sweep.draw.count} draws, seed {sweep.draw.seed}" if sweep.draw else ""),
        ("Caution", mixture(runs)),
        *equal_work(sweep, runs),
        ("Timing", "exclusive (one run at a time)" if sweep.exclusive else ""),
    ]


def download_button(sweep: Sweep, runs: Sequence[RunRow], shown: Noted, view: str) -> None:
    """Show the download button."""

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
