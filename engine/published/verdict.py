"""From checks to one word: the truth table of verdicts. Pure."""

from collections.abc import Sequence
from typing import Literal

from engine.published.rules import Check

Verdict = Literal["reproduced", "trend only", "not reproduced", "too few seeds", "not comparable"]


def verdict(obstacles: Sequence[str], checks: Sequence[Check]) -> Verdict:
    """Return the verdict; the first line that applies decides.

    | obstacle | a shape   | a value    | verdict                                                              |
    |----------|-----------|------------|----------------------------------------------------------------------|
    | any      |           |            | not comparable                                                       |
    | none     | fails     |            | not reproduced                                                       |
    | none     | undecided |            | too few seeds                                                        |
    | none     | all hold  | fails      | trend only (not reproduced where the figure has no shape)            |
    | none     | all hold  | undecided  | too few seeds                                                        |
    | none     | all hold  | not judged | trend only (not comparable where the figure has no shape)            |
    | none     | all hold  | all hold   | reproduced, also where the source has shapes alone                   |
    """
    shapes, values = ({check.outcome for check in checks if check.kind == kind} for kind in ("shape", "value"))
    if obstacles or not checks:
        return "not comparable"
    if "fails" in shapes:
        return "not reproduced"
    if "undecided" in shapes:
        return "too few seeds"
    if "fails" in values:
        return "trend only" if shapes else "not reproduced"
    if "undecided" in values:
        return "too few seeds"
    if "not judged" in values:
        return "trend only" if shapes else "not comparable"
    return "reproduced"
