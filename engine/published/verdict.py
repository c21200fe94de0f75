"""The truth table from checks to a verdict. Pure."""

from collections.abc import Sequence
from typing import Literal

from engine.published.rules import Check, Outcome

Verdict = Literal["reproduced", "set-up assumed", "trend only", "not reproduced", "too few seeds", "not comparable"]
Cap = Literal["set-up assumed", "trend only"]
"""Best possible verdict where part of the set-up was chosen by its outcome, or the workload is reduced."""


def verdict(obstacles: Sequence[str], checks: Sequence[Check], cap: Cap | None = None) -> Verdict:
    """Return the verdict; the first matching row decides.

    | obstacle | floor     | a shape   | a value    | verdict                                                   |
    |----------|-----------|-----------|------------|-----------------------------------------------------------|
    | any      |           |           |            | not comparable                                            |
    | none     | fails     |           |            | not reproduced                                            |
    | none     | undecided |           |            | too few seeds                                             |
    | none     | holds     | fails     |            | not reproduced                                            |
    | none     | holds     | undecided |            | too few seeds                                             |
    | none     | holds     | all hold  | fails      | trend only (not reproduced where the figure has no shape) |
    | none     | holds     | all hold  | undecided  | too few seeds                                             |
    | none     | holds     | all hold  | not judged | trend only (not comparable where the figure has no shape) |
    | none     | holds     | all hold  | all hold   | reproduced, also where the source has shapes only         |

    The cap, if any, replaces `reproduced`.
    """
    floors, shapes, values = (
        {check.outcome for check in checks if check.kind == kind} for kind in ("floor", "shape", "value")
    )
    if obstacles or not (shapes or values):
        return "not comparable"
    if "fails" in floors or ("fails" in shapes and "undecided" not in floors):
        return "not reproduced"
    if "undecided" in floors | shapes:
        return "too few seeds"
    return _of_values(values, bool(shapes), cap)


def _of_values(values: set[Outcome], has_shape: bool, cap: Cap | None) -> Verdict:
    if "fails" in values:
        return "trend only" if has_shape else "not reproduced"
    if "undecided" in values:
        return "too few seeds"
    if "not judged" in values:
        return "trend only" if has_shape else "not comparable"
    return cap or "reproduced"
