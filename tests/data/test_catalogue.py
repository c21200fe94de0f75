"""What a form and a doctor are told of the data sets, from files as they lie."""

from pathlib import Path

import pytest

from engine.data.catalogue import DATA_SETS, at_hand, damaged_files, data_set, state
from engine.errors import UnknownName
from engine.home import Home


@pytest.fixture(autouse=True)
def _data_in_the_home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "mnist" in request.fixturenames:
        request.getfixturevalue("mnist")  # it looks where PARALLAB_DATA points before that is taken away
    monkeypatch.delenv("PARALLAB_DATA", raising=False)


def lay_mnist(home: Home, missing_bytes: int = 0, name: str = "mnist") -> None:
    for path, size in data_set(name).files:
        file = home.data / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as opened:
            opened.truncate(size - missing_bytes)


def test_bundled_and_random_sets_are_always_at_hand(home: Home) -> None:
    assert [name for name in DATA_SETS if at_hand(name, home)] == ["digits", "synthetic", "stdlib", "stdlib_large"]


def test_mnist_is_at_hand_once_its_four_files_lie_there(home: Home) -> None:
    assert state("mnist", home) == "missing"
    lay_mnist(home)
    assert state("mnist", home) == "at hand"
    assert damaged_files("mnist", home) == []


def test_each_download_lies_in_a_folder_of_its_own(home: Home) -> None:
    lay_mnist(home, name="fashion_mnist")
    assert (state("mnist", home), state("fashion_mnist", home)) == ("missing", "at hand")
    assert {path.parent for path in home.data.rglob("*ubyte")} == {home.data / "FashionMNIST" / "raw"}


def test_a_file_of_another_size_is_damage_not_data(home: Home) -> None:
    lay_mnist(home, missing_bytes=1)
    assert state("mnist", home) == "damaged"
    assert len(damaged_files("mnist", home)) == 4


def test_a_set_with_one_file_short_is_missing(home: Home) -> None:
    lay_mnist(home)
    (home.data / data_set("mnist").files[2][0]).unlink()
    assert state("mnist", home) == "missing"


def test_the_real_mnist_is_at_hand(mnist: Path, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLAB_DATA", str(mnist))
    assert at_hand("mnist", home)


def test_an_unknown_set_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"Unknown data set 'minst'\. Did you mean 'mnist'\?"):
        data_set("minst")
