"""A device that can't be used is refused with the reason."""

import pytest
import torch

from engine.data.tensors import finish, usable
from engine.errors import DeviceError


def test_auto_takes_what_the_run_was_given() -> None:
    assert usable("auto", "cpu") == torch.device("cpu")


def test_another_device_than_asked_for_is_never_taken_silently() -> None:
    with pytest.raises(DeviceError, match="device is 'cuda', but the run was given 'cpu'"):
        usable("cuda", "cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch can use a GPU here, so there is nothing to refuse")
def test_a_gpu_that_torch_cannot_use_is_refused_with_torchs_version() -> None:
    with pytest.raises(DeviceError, match=rf"torch {torch.__version__[:4]}.* (was built without CUDA|finds no driver)"):
        usable("cuda", "cuda:0")


@pytest.mark.skipif(
    torch.backends.mps.is_available(), reason="torch can use an Apple GPU here, so there is nothing to refuse"
)
def test_an_apple_gpu_elsewhere_is_refused() -> None:
    with pytest.raises(DeviceError, match="can't use an Apple GPU here"):
        usable("mps", "mps")


def test_a_gpu_that_does_not_respond_any_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert usable("auto", "cuda:0") == torch.device("cuda:0")
    with pytest.raises(DeviceError, match="was given device 'cuda:1', but torch can use only 1 of the run's GPUs"):
        usable("auto", "cuda:1")


def test_a_process_that_has_not_used_its_gpu_has_nothing_to_finish() -> None:
    """An observer's device is a GPU that only the agent computes on: to wait for it would take memory there."""
    finish(torch.device("cpu"))
    if not torch.cuda.is_initialized():
        finish(torch.device("cuda:0"))
        assert not torch.cuda.is_initialized()
