"""Episodes as animated images. Torch-free."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

WIDTH = 320
FRAMES_PER_SECOND = 25
PICTURE = "episode.gif"
"""File name in the run's folder."""


def write_gif(path: Path, frames: Sequence[NDArray[np.uint8]], frames_per_second: int) -> None:
    """Write frames [height, width, 3] as a looping GIF, to a temporary name first so that readers never see a partial
    file.
    """
    every = max(1, round(frames_per_second / FRAMES_PER_SECOND))
    pictures = [_small(frame) for frame in frames[::every]]
    part = path.with_suffix(".part")
    pictures[0].save(
        part,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=1000 * every // frames_per_second,
        loop=0,
        optimize=True,
    )
    part.replace(path)


def _small(frame: NDArray[np.uint8]) -> Image.Image:
    picture = Image.fromarray(frame)
    height = round(picture.height * WIDTH / picture.width)
    return picture.resize((WIDTH, height)).quantize(32)
