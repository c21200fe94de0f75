import stat
from pathlib import Path

import pytest

from app import identity
from engine.errors import ConfigError
from engine.home import Home
from engine.store.people import checked_name


def test_a_signed_name_is_read_back(home: Home) -> None:
    assert identity.read(home, identity.sign(home, "Ada Lovelace")) == "Ada Lovelace"


@pytest.mark.parametrize("cookie", [None, "", "Ada", "IkFkYSI.forged", "💥"])
def test_a_cookie_without_our_signature_names_nobody(home: Home, cookie: str | None) -> None:
    assert identity.read(home, cookie) is None


def test_a_cookie_of_another_home_names_nobody(home: Home, tmp_path: Path) -> None:
    assert identity.read(home, identity.sign(Home(tmp_path / "other"), "Ada")) is None


def test_the_key_is_readable_by_its_owner_alone_and_stays(home: Home) -> None:
    first = identity.sign(home, "Ada")
    assert stat.S_IMODE(home.cookie_key.stat().st_mode) == 0o600
    assert identity.sign(home, "Ada") == first
    assert list(home.path.glob("cookie.key.*")) == []


def test_a_proof_is_no_cookie_and_a_cookie_is_no_proof(home: Home) -> None:
    assert identity.take_over(home, identity.hand_over(home, "Ada")) == "Ada"
    assert identity.read(home, identity.hand_over(home, "Ada")) is None
    assert identity.take_over(home, identity.sign(home, "Ada")) is None


def test_an_old_proof_names_nobody(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    proof = identity.hand_over(home, "Ada")
    monkeypatch.setattr(identity, "HANDOVER_AGE_S", -1)
    assert identity.take_over(home, proof) is None


BAD = [("", "at least one"), ("   ", "at least one"), (None, "at least one"), ("x" * 41, "at most 40"), ("a\x00b", "control")]


@pytest.mark.parametrize(("text", "word"), BAD)
def test_a_bad_name_is_refused_with_a_sentence(text: object, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        checked_name(text)


def test_a_name_is_trimmed() -> None:
    assert checked_name("  Ada \n Lovelace ") == "Ada Lovelace"
