"""What the timeline says of real runs of all systems whose bound is known by construction: the cases of
bench/timeline_bounds.py.
"""

import pytest

from bench.timeline_bounds import Case, cases, judged, traced


def called(case: Case) -> str:
    return " ".join(
        [case.name, *(str(case.config[key]) for key in ("sync", "mode", "transport") if key in case.config)]
    )


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{called(case)}: {case.bound}")
def test_the_sentences_name_the_bound_that_was_built_in(case: Case) -> None:
    found = judged(case, traced(case))
    assert not found.wrong, found.sentences
