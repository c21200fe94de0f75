"""Tests with drawn inputs: a few, the same ones each time; among the long tests thousands of others, whose seed is
printed.
"""

import secrets
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings

FEW, MANY = 40, 10_000
Test = Callable[..., None]


def counts(few: int = FEW, many: int = MANY) -> Any:
    """Return the mark that runs a test with a `count` of few inputs, and of many among the long tests."""
    return pytest.mark.parametrize(
        "count", [few, pytest.param(many, marks=[pytest.mark.long, pytest.mark.timeout(3_600)])]
    )


def inputs(count: int) -> Callable[[Test], Test]:
    """Have hypothesis draw so many inputs: up to 500 are the same ones each time, so that a test fails for a change
    alone; more are others each time.
    """
    chosen = settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=count <= 500,
        suppress_health_check=list(HealthCheck),
    )
    if count <= 500:
        return chosen
    number = secrets.randbits(32)
    print(f"The seed of the inputs is {number}.")
    return lambda test: seed(number)(chosen(test))


def drawn(few: int = FEW, many: int = 2_000, **strategies: Any) -> Callable[[Test], Test]:
    """Run a test with inputs drawn from the strategies of its arguments; all other arguments are fixtures."""

    def decorated(test: Test) -> Test:
        def run(count: int, **fixtures: Any) -> None:
            inputs(count)(given(**strategies)(test))(**fixtures)

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        names = ["count", *(name for name in signature(test).parameters if name not in strategies)]
        run.__signature__ = Signature([Parameter(name, Parameter.KEYWORD_ONLY) for name in names])  # type: ignore[attr-defined]
        for mark in getattr(test, "pytestmark", []):
            pytest.mark.__getattr__(mark.name)(*mark.args, **mark.kwargs)(run)
        return counts(few, many)(run)  # type: ignore[no-any-return]

    return decorated
