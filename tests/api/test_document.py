"""The document is the API as it is, and the API is as the document says, whatever is asked."""

import re
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from starlette.applications import Starlette
from starlette.middleware import Middleware

from app.api.document import PAGE, page
from app.api.service import api
from app.auth.middleware import Gate, Guard
from app.web.routes import routes
from engine.store import Demand, Launch, SweepLaunch
from tests.api.conftest import Lab

EXAMPLES, MANY = 4, 700
"""Requests of one operation; MANY of each are more than 10,000."""
RULES_ELSEWHERE = {
    "GET /runs": ["400"],  # what the filter language allows no schema can say
    "GET /sweeps": ["400"],  # likewise, of the order
    "POST /runs": ["422"],  # the bounds of settings stand in GET /experiments/{name}
    "POST /sweeps": ["422"],  # likewise
    "POST /plan": ["422"],  # likewise
    "GET /differences": ["422"],  # the numbers of runs must differ
    "POST /runs/{run_id}/note": ["422"],  # as for a cancel
    "POST /reported-runs": ["422"],  # as below, and settings are bounded together
    "POST /runs/{run_id}/report": ["422"],  # likewise
    "POST /runs/{run_id}/marks": ["422"],  # what no name, note or tag may hold
    "PUT /runs/{run_id}/files/{name}": ["422"],  # what no name of a file may hold, and which hash the content has
    "DELETE /runs/{run_id}/files/{name}": ["422"],  # as for a cancel
    "POST /runs/{run_id}/uses": ["422"],  # likewise
    "POST /runs/{run_id}/cancel": ["422"],  # whose name may be given depends on the token
    "GET /runs/{run_id}/series": ["400", "422"],  # how many curves there are, and which metrics, only the store knows
    "GET /runs/{run_id}/points": ["422"],  # likewise
}
"""Refusals of requests that fit the document."""


def test_the_document_is_written_from_the_api_and_every_operation_has_words() -> None:
    assert PAGE.read_text() == page(), "run: python -m app.api.document"
    document = api().openapi()
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert operation["summary"], f"{method} {path}"
            assert operation["description"].endswith("."), f"{method} {path}"
            assert {"401", "403", "422", "503"} <= set(operation["responses"]), f"{method} {path}"
            assert not [each["name"] for each in operation.get("parameters", []) if not each.get("description")], (
                f"{method} {path}"
            )
    schemas = document["components"]["schemas"]
    assert not [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, about in schema.get("properties", {}).items()
        if re.search(r"_s$|_bytes$|_percent$", field) and "description" not in about
    ]
    assert not [
        name
        for name, schema in schemas.items()
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False
    ]


@cache
def as_asked() -> Any:
    """Return the API as schemathesis asks it: the real routes behind the guard and the gate."""
    import schemathesis

    accepted = ["2xx", "401", "403", "404", "409"]
    operations = [
        {"include-name": name, "checks": {"positive_data_acceptance": {"expected-statuses": [*accepted, *more]}}}
        for name, more in RULES_ELSEWHERE.items()
    ]
    document = deepcopy(api().openapi())
    for item in document["paths"].values():
        for operation in item.values():
            del operation["security"]  # every request here shows the token; test_tokens.py is about those that don't
    made = schemathesis.openapi.from_dict(document, config=schemathesis.Config.from_dict({"operations": operations}))
    made.app = Starlette(routes=routes(), middleware=[Middleware(Guard), Middleware(Gate)])
    return made


@pytest.fixture
def headers(lab: Lab) -> dict[str, str]:
    """Give a token that may all, to a lab that has one of everything."""
    with lab.store() as store:
        store.sweeps.add(
            SweepLaunch(Launch("hogwild", {}, "ada"), {"seed": [1]}),
            [Launch("hogwild", {"seed": 1}, name="one", demand=Demand(1, 0, 1, 1))],
        )
    return {"Authorization": f"Bearer {lab.token('ada', 'launch')}", "Host": "localhost"}


FEW = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
ALL = settings(FEW, max_examples=MANY, derandomize=False)
OPERATIONS = [f"{method.upper()} {path}" for path, item in api().openapi()["paths"].items() for method in item]


@cache
def requests(chosen: settings) -> dict[str, Callable[..., None]]:
    """Return for each operation what asks it as its description allows and as it forbids. That is a fifth of the time
    of a collection, so it is made here for the tests that ask, and not by the plugin in every worker.
    """
    from schemathesis.checks import load_all_checks
    from schemathesis.pytest.lazy import get_all_tests

    def validate(case: Any, headers: dict[str, str]) -> None:
        case.call_and_validate(headers=headers)

    load_all_checks()
    every = get_all_tests(schema=as_asked(), test_func=chosen(validate), settings=None, given_kwargs=None)
    return {operation.label: test for operation, test in (each.ok() for each in every)}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_answer_is_as_the_document_says(operation: str, headers: dict[str, str]) -> None:
    requests(FEW)[operation](headers=headers)


@pytest.mark.long
@pytest.mark.parametrize("operation", OPERATIONS)
def test_ten_thousand_answers_are_as_the_document_says(operation: str, headers: dict[str, str]) -> None:
    requests(ALL)[operation](headers=headers)
