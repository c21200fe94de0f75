"""The data sets and their availability on this machine, including those added by an admin. Torch-free, for the form and
the doctor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from engine.catalogue import Listed, catalogue, chosen_from
from engine.data.stdlib import WINDOW
from engine.errors import UnknownName
from engine.home import Home

DatasetName = Annotated[
    str, AfterValidator(chosen_from("datasets")), Field(json_schema_extra={"catalogue": "datasets"})
]
SourceName = Annotated[str, AfterValidator(chosen_from("sources")), Field(json_schema_extra={"catalogue": "sources"})]
"""A data set name of images or text, or random images."""
SamplesName = Annotated[str, AfterValidator(chosen_from("samples")), Field(json_schema_extra={"catalogue": "samples"})]
"""A data set name of images or text."""
ModelName = Literal["mnist_net", "vit", "gpt", "gpt_base"]
"""A net that experiments with a choice of models can train; see `MODELS`."""
State = Literal["at hand", "missing", "damaged"]


@dataclass(frozen=True)
class DataSet:
    """A data set as a form shows it: the numbers of training and test samples, and a description."""

    name: str
    title: str
    sentence: str
    train: int
    test: int
    files: tuple[tuple[str, int], ...] = ()
    """Required files in the data folder, with sizes in bytes; may be empty."""
    kind: Literal["images", "text"] = "images"

    @property
    def predictions(self) -> int:
        """The number of predictions that a test counts: one per image, or one per byte of text."""
        return self.test * (WINDOW if self.kind == "text" else 1)


def _idx_files(folder: str) -> tuple[tuple[str, int], ...]:
    """Return the four files of a data set in MNIST's format, with sizes in bytes: a header, then one byte per pixel or
    label.
    """
    parts = (("train", 60_000), ("t10k", 10_000))
    kinds = (("images-idx3", 16, 784), ("labels-idx1", 8, 1))
    return tuple(
        (f"{folder}/raw/{part}-{kind}-ubyte", head + count * size)
        for part, count in parts
        for kind, head, size in kinds
    )


DATA_SETS: dict[str, DataSet] = {
    found.name: found
    for found in (
        DataSet(
            "mnist",
            "MNIST",
            "70,000 handwritten digits of 28x28 pixels. Read from the data folder, or downloaded there on first use "
            "(12 MB).",
            train=60_000,
            test=10_000,
            files=_idx_files("MNIST"),
        ),
        DataSet(
            "fashion_mnist",
            "Fashion-MNIST",
            "70,000 pieces of clothing of 28x28 pixels, in ten classes. Read from the data folder, or downloaded "
            "there on first use (31 MB).",
            train=60_000,
            test=10_000,
            files=_idx_files("FashionMNIST"),
        ),
        DataSet(
            "digits",
            "Digits",
            "1,797 real 8x8 digits included in scikit-learn, scaled to 28x28. Needs no network.",
            train=1_437,
            test=360,
        ),
        DataSet(
            "synthetic",
            "Synthetic",
            "Random images with random labels, for timing only. Needs no network.",
            train=8_192,
            test=1_024,
        ),
        DataSet(
            "stdlib",
            "Standard library",
            "0.8 MB of the sources of Python's standard library, in windows of 128 bytes. Needs no network.",
            train=6_144,
            test=512,
            kind="text",
        ),
        DataSet(
            "stdlib_large",
            "Standard library, large",
            "6.3 MB of the sources of Python's standard library, in windows of 128 bytes. Needs no network.",
            train=49_152,
            test=2_048,
            kind="text",
        ),
    )
}


@dataclass(frozen=True)
class Model:
    """A net that can be chosen: the kind of data that it takes, and how many weights and blocks it has. A block is a
    layer with weights, or a transformer's block.
    """

    kind: Literal["images", "text"]
    weights: int
    blocks: int


MODELS: dict[ModelName, Model] = {
    "mnist_net": Model("images", 21_840, 4),
    "vit": Model("images", 104_970, 6),
    "gpt": Model("text", 124_672, 5),
    "gpt_base": Model("text", 10_795_008, 9),
}


def data_set(name: str, home: Home | None = None) -> DataSet:
    """Return the data set of that name, built in or in a home's catalogue (default: this process's); raises
    UnknownName.
    """
    if name in DATA_SETS:
        return DATA_SETS[name]
    added = catalogue(home).datasets
    if name not in added:
        raise UnknownName("data set", name, [*DATA_SETS, *added], field="dataset")
    return _as_data_set(name, added[name])


def _as_data_set(name: str, listed: Listed) -> DataSet:
    files = tuple((f"{listed.folder}/{file}", lying.bytes) for file, lying in listed.files.items())
    sentence = (
        f"{listed.train + listed.test:,} images of 28x28 pixels added by an admin, in {listed.folder} "
        "of the data folder."
    )
    return DataSet(name, listed.title, sentence, listed.train, listed.test, files)


def state(name: str, home: Home) -> State:
    """Return whether the data set is complete on this machine, missing, or has a file of the wrong size."""
    sizes = [(size, _size(home.data / path)) for path, size in data_set(name, home).files]
    if any(found is None for _, found in sizes):
        return "missing"
    return "at hand" if all(found == size for size, found in sizes) else "damaged"


def at_hand(name: str, home: Home) -> bool:
    """Return whether a run can use the data set now, without a download."""
    return state(name, home) == "at hand"


def damaged_files(name: str, home: Home) -> list[Path]:
    """Return the files of the data set that have the wrong size."""
    return [
        home.data / path for path, size in data_set(name, home).files if _size(home.data / path) not in (None, size)
    ]


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None


# ---- Steps and bytes of a run, computed from its data set and model ----


def steps_of(dataset: str, batch_size: int) -> int:
    """Return the number of mini-batches in one pass over a data set."""
    return ceil(data_set(dataset).train / batch_size)


def steps_of_parts(dataset: str, trainers: int, batch_size: int) -> Sequence[int]:
    """Return the mini-batches per trainer in one pass, for equal parts with the remainder in the last."""
    size = data_set(dataset).train
    parts = [size // trainers] * (trainers - 1) + [size - size // trainers * (trainers - 1)]
    return [ceil(part / batch_size) for part in parts]


def bytes_exchanged(exchanges: float, width: int = 4, model: ModelName = "mnist_net") -> float:
    """Return the bytes of `exchanges`; in each, a trainer sends and receives the model as `width`-byte numbers."""
    return exchanges * 2 * MODELS[model].weights * width
