"""Grids of cases, of which a diagonal is run each time and the rest by `make test-long`."""

from collections.abc import Sequence
from itertools import product

import pytest


def grid(**values: Sequence[object]) -> pytest.MarkDecorator:
    """Parametrize a test by every combination of these values; all are `long` but as many as it takes to see each value
    once.
    """
    longest = max(map(len, values.values()))
    diagonal = [tuple(each[place % len(each)] for each in values.values()) for place in range(longest)]
    rest = [case for case in product(*values.values()) if case not in diagonal]
    return pytest.mark.parametrize(
        tuple(values), [*diagonal, *(pytest.param(*case, marks=pytest.mark.long) for case in rest)]
    )
