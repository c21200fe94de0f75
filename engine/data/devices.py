"""A run's device: check that torch can use it, and wait for its work."""

import torch

from engine.errors import DeviceError


def usable(asked: str, given: str) -> torch.device:
    """Return the device a run was given; raises DeviceError if torch can't use it or it is not the requested one."""
    device = torch.device(given)
    if asked not in ("auto", device.type):
        raise DeviceError(
            f"device is '{asked}', but the run was given '{given}'. Choose device auto or cpu, or wait for a free GPU."
        )
    if device.type == "cuda" and not torch.cuda.is_available():
        why = (
            "was built without CUDA"
            if torch.version.cuda is None
            else f"(CUDA {torch.version.cuda}) finds no driver that works with it"
        )
        raise DeviceError(
            f"The run was given an NVIDIA GPU, but torch {torch.__version__} {why}. Choose device "
            "cpu, or install a torch build that fits the driver."
        )
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise DeviceError(
            f"The run was given device '{given}', but torch can use only {torch.cuda.device_count()} of the run's "
            "GPUs. Check with nvidia-smi whether one does not respond, then launch the run again."
        )
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise DeviceError(
            f"device is 'mps', but torch {torch.__version__} can't use an Apple GPU here. Choose device cpu."
        )
    return device


def finish(device: torch.device) -> None:
    """Wait until a GPU has done what this thread asked of it: calls return before. Does nothing for a CPU, or in a
    process that has not used its GPU.
    """
    if device.type == "cuda" and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.current_stream(device).synchronize()
