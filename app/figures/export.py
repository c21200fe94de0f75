"""Downloads of a published figure: chart with the published series, verdict, rules, values and runs."""

from collections.abc import Iterator, Sequence

from app.core.formatting import absolute
from app.export.rerun_commands import figure_again
from app.export.view_downloads import here, view_downloads
from app.export.view_report import Environments
from app.report.page_capture import Noted
from engine.published import Figure
from engine.published.judgement import Judgement
from engine.store.records import RunRow


def facts_of(found: Figure, judged: Judgement | None) -> list[tuple[str, str]]:
    """Return the facts around a figure's chart, as names and values."""
    about = [
        ("Published", found.claim),
        ("Source", found.source),
        ("Assumed set-up", found.assumed),
        ("Chosen by outcome", found.chosen),
        ("Caveat", found.note),
    ]
    if judged is None:
        return about
    sweep, evidence = judged.sweep, judged.evidence
    measured = f"sweep {sweep.id} of {sweep.owner}, {judged.size}, launched {absolute(sweep.created_at)}"
    return [
        ("Verdict", judged.verdict or "none: no run has finished yet"),
        *about,
        ("Measured in", f"{measured}: {len(evidence.finished)} of {evidence.planned} runs finished"),
        ("Reductions", " ".join(found.versions[judged.size].reduced)),
    ]


def leave(found: Figure, judged: Judgement | None, runs: Sequence[RunRow], shown: Noted) -> None:
    """Show the download button, for a figure with published or measured values."""
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
