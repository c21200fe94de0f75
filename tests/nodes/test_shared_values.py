"""Arguments of ranks on another node arrive as they were, and small shared tensors stay the same on all nodes."""

import pytest
import torch
from torch import Tensor

from engine.runtime.nodes.messages import SMALL_BYTES, SharedFlags, dumps, loads
from engine.runtime.transport.request_reply import Disconnects
from engine.trace.ring import TraceMemory


def flags(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.zeros(*shape, dtype=dtype).share_memory_()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).reshape(3, 4).t(),
        torch.tensor([float("nan"), -0.0]),
        torch.ones(5, dtype=torch.bfloat16),
        torch.zeros(0),
        torch.arange(8, dtype=torch.uint8),
        torch.rand(100, 100).share_memory_(),  # type: ignore[no-untyped-call]
    ],
)
def test_a_tensor_arrives_with_its_values(tensor: Tensor) -> None:
    (found,) = loads(dumps((tensor,), SharedFlags()), SharedFlags())
    assert found.dtype == tensor.dtype and found.shape == tensor.shape
    assert torch.equal(found.nan_to_num(), tensor.nan_to_num())
    assert found.is_shared() == tensor.is_shared()


def test_a_part_of_a_large_tensor_is_sent_without_the_rest() -> None:
    whole = torch.zeros(1_000_000)
    assert len(dumps(whole[:10], SharedFlags())) < 10_000


def test_what_one_node_writes_the_other_reads() -> None:
    ours, theirs = SharedFlags(), SharedFlags()
    tensor = flags(4, 2)
    copy, again = loads(dumps((tensor, tensor), ours), theirs)
    assert copy.data_ptr() == again.data_ptr(), "one tensor stays one"
    copy[1, 1] = 7
    tensor[3, 0] = -9
    for change in theirs.changes():
        ours.take(change)
    for change in ours.changes():
        theirs.take(change)
    assert tensor.tolist() == copy.tolist() == [[0, 0], [0, 7], [0, 0], [-9, 0]]
    assert not [*ours.changes()] and not [*theirs.changes()], "a change does not echo"


def test_a_change_reaches_all_nodes_through_the_worker() -> None:
    tensor = flags(3, dtype=torch.uint8)
    nodes = [(SharedFlags(), SharedFlags()) for _ in range(2)]
    copies = [loads(dumps(tensor, here), there) for here, there in nodes]
    copies[0][2] = 1
    for _ in range(2):
        for here, there in nodes:
            for change in there.changes():
                here.take(change)
            for change in here.changes():
                there.take(change)
    assert tensor.tolist() == [*copies[0].tolist()] == [*copies[1].tolist()] == [0, 0, 1]


def test_tensors_that_come_later_have_numbers_of_their_own() -> None:
    ours, theirs = SharedFlags(), SharedFlags()
    first, second = flags(2), flags(3)
    loads(dumps(first, ours), theirs)
    copy_of_first, copy_of_second = loads(dumps((first, second), ours), theirs)
    second[1] = 5
    for change in ours.changes():
        theirs.take(change)
    assert (copy_of_first.tolist(), copy_of_second.tolist()) == ([0, 0], [0, 5, 0])


def test_large_shared_tensors_are_copied_not_followed() -> None:
    ours = SharedFlags()
    large = flags(SMALL_BYTES // 8 + 1)
    loads(dumps(large, ours), SharedFlags())
    large[0] = 1
    assert not [*ours.changes()]


def test_the_list_of_departures_is_followed() -> None:
    ours, theirs = SharedFlags(), SharedFlags()
    goodbyes = Disconnects.create((1, 2))
    copy = loads(dumps(goodbyes, ours), theirs)
    copy.said[1] = 1
    for change in theirs.changes():
        ours.take(change)
    assert goodbyes.said.tolist() == [0, 1]


def test_a_trace_gets_memory_of_its_own_node() -> None:
    found = loads(dumps(TraceMemory(), SharedFlags()), SharedFlags())
    assert isinstance(found, TraceMemory) and found.descriptor >= 0
    found.close()
