"""Data sets and environments that an admin adds: looked at then, offered everywhere at once, and missed with the cure
once they have gone.
"""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from app.links.launch import read_link
from engine.catalogue import FILES, catalogue, choices
from engine.commands.catalogue import add_dataset, add_environment, remove
from engine.config import choices_of
from engine.data.added_files import checksum, files_used
from engine.data.sets import read
from engine.errors import ConfigError, DataError, EngineError, Forbidden, UnknownName
from engine.experiments.hogwild.config import HogwildConfig
from engine.home import Home
from engine.registry import experiment
from engine.store import Store

SIZES = {"train": 90, "t10k": 20}
Lay = Callable[..., Path]


@pytest.fixture
def lay(home: Home, monkeypatch: pytest.MonkeyPatch) -> Lay:
    """Write four files in MNIST's format into a folder of the home's own data folder."""
    monkeypatch.delenv("PARALLAB_DATA", raising=False)

    def write(folder: str = "LETTERS", *, side: int = 28, most: int = 9, labels: int = 0) -> Path:
        place = home.data / folder
        place.mkdir(parents=True, exist_ok=True)
        draw = np.random.default_rng(3)
        for part, count in SIZES.items():
            images = draw.integers(0, 256, count * side * side, np.uint8).tobytes()
            (place / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, side, side) + images)
            marked = (np.arange(count + labels) % (most + 1)).astype(np.uint8).tobytes()
            (place / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count + labels) + marked)
        return place

    return write


def test_a_data_set_that_was_added_is_offered_everywhere_and_read_as_it_lies(home: Home, lay: Lay) -> None:
    place = lay()
    add_dataset(home, "letters", "LETTERS", by="ada", title="Ten letters")
    for name in ("reference", "parameter_server", "async_sgd", "sync_sgd", "hogwild", "pipeline"):
        assert choices_of(experiment(name).config.model_fields["dataset"])[-1] == "letters"
    assert read_link("hogwild", None, ["dataset:letters"]).changes == {"dataset": "letters"}
    config = HogwildConfig.check({"dataset": "letters", "batch_size": 90})
    assert config.samples == 90 and config.trains_on == "letters"
    with pytest.raises(ConfigError, match="batch_size must be at most the 90 training samples of letters"):
        HogwildConfig.check({"dataset": "letters", "batch_size": 91})
    pixels = read("letters", home)
    raw = (place / FILES[0]).read_bytes()[16:]
    assert (pixels.train_pixels.numpy().tobytes(), pixels.train_labels.tolist()[:11]) == (raw, [*range(10), 0])
    assert (len(pixels.test_labels), pixels.mean) == (20, pytest.approx(np.frombuffer(raw, np.uint8).mean() / 255))
    used = files_used("letters", home)
    assert (
        list(used) == [f"LETTERS/{name}" for name in FILES]
        and used[f"LETTERS/{FILES[0]}"] == f"{16 + 90 * 784} bytes, SHA-256 {checksum(place / FILES[0], home)}"
    )


def test_what_is_gone_or_changed_is_a_sentence_with_the_cure(home: Home, lay: Lay) -> None:
    place = lay()
    add_dataset(home, "letters", "LETTERS", by="ada")
    last = place / FILES[3]
    whole = last.read_bytes()
    last.write_bytes(whole[:-1] + b"\x01")
    with pytest.raises(
        DataError, match=r"is not the file that was added\. .* catalogue add-dataset letters --folder LETTERS"
    ):
        read("letters", home)
    last.unlink()
    with pytest.raises(DataError, match=r"doesn't exist\. Restore it, ask an admin to remove letters from"):
        read("letters", home)
    last.write_bytes(whole)
    assert read("letters", home).classes == 10
    remove(home, "letters", by="ada")
    with pytest.raises(
        ConfigError,
        match=(
            r"dataset must be one of 'mnist', 'fashion_mnist', 'digits' or 'synthetic', got 'letters'\. An admin "
            r"can add one"
        ),
    ):
        HogwildConfig.check({"dataset": "letters"})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"side": 32}, r"images of 32x32 pixels; the nets need 28x28"),
        ({"most": 10}, r"labels from 0 to 10; the nets classify 10 classes"),
        ({"most": 0}, r"labels from 0 to 0"),
        ({"labels": 1}, r"has 90 images in train-images-idx3-ubyte and 91 labels"),
    ],
)
def test_a_folder_that_cannot_be_trained_on_is_refused(
    home: Home, lay: Lay, change: dict[str, int], sentence: str
) -> None:
    lay(**change)
    with pytest.raises(DataError, match=sentence):
        add_dataset(home, "letters", "LETTERS", by="ada")
    assert not catalogue(home).datasets


def test_a_file_that_is_cut_off_packed_or_missing_is_refused(home: Home, lay: Lay) -> None:
    for spoil, sentence in (
        (lambda data: data[:-1], "which does not match 90 entries"),
        (lambda data: b"\x1f\x8b" + data, "If it is compressed"),
        (None, "doesn't exist"),
    ):
        first = lay() / FILES[0]
        first.unlink() if spoil is None else first.write_bytes(spoil(first.read_bytes()))
        with pytest.raises(DataError, match=sentence):
            add_dataset(home, "letters", "LETTERS", by="ada")


@pytest.mark.parametrize(
    "folder", ["../elsewhere", "/etc", ".hidden", "a/../b", "a//b", "", "a\nb", "a/b/c/d/e", "~", "a\x00"]
)
def test_a_folder_is_only_ever_one_below_the_data_folder(home: Home, lay: Lay, folder: str) -> None:
    with pytest.raises(ConfigError, match="folder must be relative to"):
        add_dataset(home, "letters", folder, by="ada")


def test_a_link_that_leads_out_of_the_data_folder_is_refused(home: Home, lay: Lay, tmp_path: Path) -> None:
    (home.data).mkdir(parents=True)
    (home.data / "OUT").symlink_to(tmp_path)
    with pytest.raises(DataError, match="is outside the data folder"):
        add_dataset(home, "letters", "OUT", by="ada")


@pytest.mark.parametrize("name", ["mnist", "random", "synthetic", "Letters", "a b", "../x", "", "x" * 41, "1a", "a\n"])
def test_a_name_that_is_taken_or_none_is_refused(home: Home, lay: Lay, name: str) -> None:
    lay()
    with pytest.raises(ConfigError, match="The name of a data set must"):
        add_dataset(home, name, "LETTERS", by="ada")


def test_an_environment_is_looked_at_before_it_can_be_chosen(home: Home) -> None:
    dppo = experiment("dppo")
    with pytest.raises(
        ConfigError, match=r"must be one of 'CartPole-v1', .* got 'CliffWalking-v1'\. .*catalogue add-environment"
    ):
        dppo.config.check({"environment": "CliffWalking-v1"})
    assert add_environment(home, "CliffWalking-v1", by="ada").choices == 4
    assert choices("environments")[-1] == "CliffWalking-v1"
    assert dppo.config.check({"environment": "CliffWalking-v1"}).model_dump()["environment"] == "CliffWalking-v1"
    for name, sentence in (
        ("os path:CartPole-v1", "must be an id such as CliffWalking-v1 or ale_py:ALE/Pong-v5"),
        ("os:Nothing-v1", "must be a gymnasium id, got .os:Nothing-v1."),
        ("Nothing-v0", "must be a gymnasium id"),
        ("HalfCheetah-v5", "needs a package that is not installed"),
        ("CliffWalking-v1", "is already in the catalogue"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            add_environment(home, name, by="ada")
    remove(home, "CliffWalking-v1", by="ada")
    with pytest.raises(UnknownName):
        remove(home, "CliffWalking-v1", by="ada")


def test_only_an_admin_extends_the_catalogue(home: Home, lay: Lay) -> None:
    lay()
    with Store.open(home) as store:
        store.people.add("ada", "admin", by="root")
        store.people.add("mo", "member", by="ada")
        for act in (
            lambda: add_dataset(home, "letters", "LETTERS", by="mo"),
            lambda: add_environment(home, "CliffWalking-v1", by="mo"),
        ):
            with pytest.raises(
                Forbidden,
                match="Only admins can extend the catalogue of environments and data sets",
            ):
                act()
        assert not home.catalogue.exists()
        add_dataset(home, "letters", "LETTERS", by="ada")
        assert [
            row["detail"]
            for row in store.db.rows("SELECT detail FROM audit WHERE command = 'extend catalogue' AND refused = ''")
        ] == ["dataset=letters, folder=LETTERS"]


def test_a_catalogue_that_is_not_ours_leaves_what_is_built_in(home: Home) -> None:
    for text in ("", "{", "[]", json.dumps({"datasets": {"mnist": {}}}), json.dumps({"environments": ["../os:x-v1"]})):
        home.catalogue.write_text(text)
        with pytest.raises(EngineError, match=r"The catalogue .* can't be read"):
            catalogue(home)
        assert choices("datasets") == ("mnist", "fashion_mnist", "digits", "synthetic")
