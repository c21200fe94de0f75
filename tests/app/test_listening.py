"""The launch form of a lab with accounts, where ranks can have no network of their own."""

import pytest
from streamlit.testing.v1 import AppTest

from app import forms
from engine.home import Home
from engine.store import ProcessIdentity, Store
from tests.app.people_labs import people, sign_in
from tests.app.test_pages import opened

RUNNER = ProcessIdentity("boot", 4243, 78)
ASKED = {"experiment": "parameter_server", "preset": "quick"}


@pytest.fixture
def member(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sit at the browser of a member, in a lab whose runner can make no network namespace."""
    people(home)
    with Store.open(home) as store:
        store.register_runner(RUNNER, cores=2, gpus=0, network="host")
    sign_in(home, monkeypatch, "mo")


def transport(test: AppTest, experiment: str) -> str:
    return str(test.session_state[forms.key_of(experiment, "transport")])


def can_launch(test: AppTest) -> bool:
    return not next(button for button in test.button if button.key == "launch").disabled


def test_the_form_begins_with_shared_memory(member: None) -> None:
    test = opened("launch", ASKED)
    assert transport(test, "parameter_server") == "shared_memory" and can_launch(test)


def test_a_transport_that_listens_is_refused_with_the_cure(member: None) -> None:
    test = opened("launch", {**ASKED, "set": "transport:rpc"})
    assert transport(test, "parameter_server") == "rpc" and not can_launch(test)
    assert "Choose transport shared_memory" in test.error[0].value.replace("\\", "")


def test_where_ranks_have_a_network_of_their_own_the_form_begins_as_the_preset_says(member: None, home: Home) -> None:
    with Store.open(home) as store:
        store.register_runner(RUNNER, cores=2, gpus=0, network="namespace")
    test = opened("launch", ASKED)
    assert transport(test, "parameter_server") == "rpc" and can_launch(test)
