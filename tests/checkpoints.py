"""Checkpoints for tests, written as a run writes them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from engine.home import Home
from engine.runtime.rank.rank import Checkpoints
from engine.store import Reader
from tests.doubles import lone_rank


def saver(folder: Path, run: str = "", **options: Any) -> Checkpoints:
    """Return what saves the checkpoints of a run of one rank in this process."""
    folder.mkdir(parents=True, exist_ok=True)
    return Checkpoints(lone_rank(folder, uid=run, **options), 1.0)


def lay(folder: Path, step: int, *, time_s: float = 1.0, run: str = "", steps: Mapping[int, int] | None = None) -> None:
    """Write a checkpoint without tensors."""
    assert saver(folder, run).save({}, step=step, passes=step / 10, time_s=time_s, steps=steps or {})


def lay_of(home: Home, run_id: int, step: int, **more: Any) -> None:
    """Write a checkpoint into a run's folder that names it."""
    with Reader.open(home) as reader:
        lay(home.run_folder(run_id), step, run=reader.runs.one(run_id).uid, **more)


def lay_former(folder: Path, step: int, *, time_s: float = 1.0, beside: float | None = None) -> None:
    """Write the two files of an earlier version; `beside` is the time of a position that is not the state's."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"weights": torch.ones(3), "step": step, "time_s": time_s}, folder / "checkpoint.pt")
    at = step if beside is None else step - 1
    (folder / "checkpoint.json").write_text(
        f'{{"step": {at}, "passes": 0.5, "time_s": {beside or time_s}, "saved_at": "2026-01-01T00:00:00.000Z"}}'
    )
