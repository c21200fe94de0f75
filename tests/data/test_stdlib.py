"""Text to train on: which files it is of, their split, and the name of its state."""

import sysconfig
from pathlib import Path

import pytest
import torch

from engine.analysis.result import MOST_COMMON
from engine.data.added_files import files_used
from engine.data.catalogue import DATA_SETS
from engine.data.sets import load
from engine.data.stdlib import WINDOW, checked, standard_library, text_of
from engine.errors import ConfigError, DataError
from engine.home import Home
from engine.registry import experiment


def lay(folder: Path, **more: str) -> Path:
    files = {f"module{number}.py": f"# {number}\n" for number in range(40)} | more
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_each_file_is_in_one_part_in_the_order_of_paths_whatever_else_lies_there(tmp_path: Path) -> None:
    few = text_of(lay(tmp_path / "few"))
    skipped = {"site-packages__x.py": "x", "json__tests__y.py": "y", "_sysconfigdata_m.py": "z", "notes.txt": "n"}
    assert text_of(lay(tmp_path / "many", **skipped)) == few
    lines = [text.decode().splitlines() for text in (few.train, few.test)]
    assert sorted(lines[0] + lines[1]) == sorted(f"# {number}" for number in range(40))
    assert all(part == sorted(part) and part for part in lines)
    other = text_of(lay(tmp_path / "other", **{"module7.py": "# changed\n"}))
    assert other.in_words != few.in_words and other.files == few.files == 40


@pytest.mark.parametrize("name", ["stdlib", "stdlib_large"])
def test_windows_are_those_of_the_sources_with_the_bytes_that_follow(name: str) -> None:
    data, text, card = load(name), standard_library(), DATA_SETS[name]
    assert (data.size, len(data.test_labels), data.classes) == (card.train, card.test, 256)
    for part, windows, following in (
        (text.train, data.train_images, data.train_labels),
        (text.test, data.test_images, data.test_labels),
    ):
        assert windows.dtype == torch.uint8 and windows.is_shared() and following.is_shared()
        assert torch.equal(windows[:, 1:].long(), following[:, :-1])
        assert bytes(windows[0].tolist()) == part[:WINDOW]
        last = bytes(windows[-1].tolist()) + bytes([int(following[-1, -1])])
        assert part.rfind(last) > len(part) * 0.99
    share = data.test_labels.flatten().bincount().max() / data.test_labels.numel()
    assert share < MOST_COMMON[name], "a net that always predicts a space is at chance"
    assert b"def " in text.train and card.predictions == card.test * WINDOW


def test_a_run_names_the_text_that_it_is_trained_on(home: Home) -> None:
    assert files_used("stdlib", home) == {"stdlib": standard_library().in_words}


def test_too_little_text_is_a_sentence_with_the_cure() -> None:
    with pytest.raises(
        DataError, match=rf"Standard library needs 1,280 bytes .*{sysconfig.get_path('stdlib')} has only 9"
    ):
        checked("Standard library", b"x" * 9, 10)


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        (
            "reference",
            {"dataset": "stdlib"},
            "model must be gpt or gpt_base, got 'mnist_net': stdlib is a dataset of text",
        ),
        ("sync_sgd", {"model": "gpt"}, "model must be mnist_net or vit, got 'gpt': mnist is a dataset of images"),
        (
            "sync_sgd",
            {"dataset": "stdlib", "model": "gpt", "partition": "dirichlet"},
            "partition must be contiguous or",
        ),
        (
            "sync_sgd",
            {"model": "vit", "variant": "tutorial", "start_method": "spawn"},
            "model must be mnist_net for variant",
        ),
        (
            "async_sgd",
            {"model": "gpt_base"},
            "model must be mnist_net or vit, got 'gpt_base': mnist is a dataset of im",
        ),
        (
            "parameter_server",
            {"dataset": "stdlib"},
            "model must be gpt or gpt_base, got 'mnist_net': stdlib is a dataset of text",
        ),
        (
            "parameter_server",
            {"dataset": "stdlib", "model": "gpt", "variant": "tutorial", "start_method": "spawn"},
            "model must be mnist_net or resnet50 or small_resnet for variant tutorial, which trains no other, got",
        ),
        ("hogwild", {"dataset": "stdlib"}, "dataset must be one of 'mnist'"),
        (
            "reference",
            {"dataset": "stdlib", "model": "gpt", "batch_size": 9_000},
            "at most the 6,144 training samples of",
        ),
    ],
)
def test_a_model_that_does_not_fit_the_data_is_refused(name: str, changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        experiment(name).config.check(changes)
