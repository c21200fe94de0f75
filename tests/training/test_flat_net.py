"""A net as two vectors: with numbers of its own, or with those that the state brings."""

from dataclasses import replace

import pytest
import torch

from engine.data.sets import load
from engine.training.flat_net import FlatNet, flat_state, state_size
from engine.training.workload import PartitionedData, RandomImages

SMALL = RandomImages("small_resnet", trainers=1, batch_size=2, iterations=1)


def test_a_net_without_numbers_takes_those_of_its_state_and_steps_as_the_whole_one() -> None:
    whole = FlatNet(SMALL.net(3), SMALL.loss)
    with torch.device("meta"):
        empty = SMALL.net(3)
    state, message = flat_state(SMALL.net(3)), torch.full((state_size(empty),), 7.0)
    flat = FlatNet(empty, SMALL.loss, state, message)
    assert flat.state is state
    batch = next(SMALL.batches(1, seed=0, skip=0))
    assert flat.compute_gradient(*batch) == whole.compute_gradient(*batch)
    assert torch.equal(flat.message, whole.message)
    assert torch.equal(flat.state, whole.state), "batch-norm's statistics move alike"
    counters = [int(buffer) for name, buffer in flat.module.named_buffers() if name.endswith("num_batches_tracked")]
    assert set(counters) == {1}


@pytest.mark.parametrize("classes", [30, 32])
def test_batch_norm_has_aligned_memory_and_goes_on_from_the_state(classes: int) -> None:
    """With 30 classes the statistics begin 8 bytes beside a multiple of 16, where batch-norm fails on a GPU."""
    images = replace(SMALL, classes=classes)
    flat, batch = FlatNet(images.net(3), SMALL.loss), next(images.batches(1, seed=0, skip=0))
    assert (flat.statistics.data_ptr() % 16 == 0) == (classes == 32)
    assert all(each.data_ptr() % 16 == 0 for name, each in flat.module.named_buffers() if "running" in name)
    flat.compute_gradient(*batch)
    first = flat.statistics.clone()
    flat.compute_gradient(*batch)
    second = flat.statistics.clone()
    assert not torch.equal(first, second)
    flat.state[flat.parameters :] = first
    flat.compute_gradient(*batch)
    assert torch.equal(flat.statistics, second)
    assert torch.equal(flat.message[flat.parameters :], second)


def test_a_net_without_numbers_tells_their_count() -> None:
    digits = PartitionedData(load("digits"), 1, 8, 1)
    for workload in (SMALL, digits):
        with torch.device("meta"):
            empty = workload.net(0)
        assert state_size(empty) == len(flat_state(workload.net(0)))


def test_random_images_have_no_test() -> None:
    assert not RandomImages.has_tests and PartitionedData.has_tests
