"""What of a published figure leaves as files: its picture with the published series, verdict, rules and numbers, and
the runs behind it.
"""

from collections.abc import Iterator, Sequence

from app.core.formatting import absolute
from app.export.rerun_commands import figure_again
from app.export.view_downloads import here, view_downloads
from app.export.view_report import Environments
from app.report.page_capture import Noted
from engine.published import Figure
from engine.published.judgement import Judgement
from engine.store.records import RunRow


def said_of(found: Figure, judged: Judgement | None) -> list[tuple[str, str]]:
    """Return what stands around a figure's picture, as names and values."""
    told = [
        ("Published", found.claim),
        ("Source", found.source),
        ("Set-up assumed", found.assumed),
        ("Chosen by its outcome", found.chosen),
        ("Read with care", found.note),
    ]
    if judged is None:
        return told
    sweep, evidence = judged.sweep, judged.evidence
    measured = f"sweep {sweep.id} of {sweep.owner}, {judged.size}, launched {absolute(sweep.created_at)}"
    return [
        ("Verdict", judged.verdict or "none before a run has finished"),
        *told,
        ("Measured by", f"{measured}: {len(evidence.finished)} of {evidence.planned} runs finished"),
        ("Reduced", " ".join(found.versions[judged.size].reduced)),
    ]


def leave(found: Figure, judged: Judgement | None, runs: Sequence[RunRow], shown: Noted) -> None:
    """Show the button that opens the choices, for a figure of which there is anything to show."""
    if judged is None:
        if found.published:
            view_downloads(found.name, found.title, f"/figures?figure={found.name}", shown, [], key=found.name)
        return

    def again(environments: Environments) -> Iterator[str]:
        return figure_again(judged.sweep, runs, environments)

    address = here("/figures", figure=found.name, sweep=str(judged.sweep.id))
    view_downloads(
        f"{found.name}-sweep-{judged.sweep.id}", found.title, address, shown, runs, key=found.name, again=again
    )
