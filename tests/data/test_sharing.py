"""Tensors that processes share."""

from pathlib import Path

import pytest
import torch

from engine.data.tensors import shared_zeros
from tests import rank_functions as functions
from tests.doubles import MemorySink, process_ranks


@pytest.mark.processes
def test_shared_zeros_are_zeros_that_another_process_writes_to(tmp_path: Path) -> None:
    whole, bits = shared_zeros(3, 5), shared_zeros(4, dtype=torch.uint8)
    assert whole.is_shared() and (whole.shape, whole.dtype, bits.dtype) == ((3, 5), torch.float32, torch.uint8)
    assert not whole.any() and not bits.any()
    process_ranks(("writer",), ("cpu",), 1, 0, tmp_path, MemorySink()).run(functions.fill, whole[1], 2.5)
    assert whole.sum() == 12.5 and whole[1].tolist() == [2.5] * 5
