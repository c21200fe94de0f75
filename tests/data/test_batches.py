"""Each epoch is a permutation that the seed alone decides."""

import torch

from engine.data.tensors import Batches


def batches(seed: int = 0, count: int = 103, batch_size: int = 10) -> Batches:
    return Batches(torch.arange(count).float().view(count, 1, 1, 1), torch.arange(count), batch_size, seed)


def test_an_epoch_takes_every_sample_once() -> None:
    drawn = list(batches().epoch())
    assert sorted(torch.cat(drawn).tolist()) == list(range(103))
    assert [len(positions) for positions in drawn] == [10] * 10 + [3]


def test_epochs_differ_and_the_seed_gives_them_again() -> None:
    ours, again, other = batches(1), batches(1), batches(2)
    first, second = torch.cat(list(ours.epoch())), torch.cat(list(ours.epoch()))
    assert not torch.equal(first, second)
    assert torch.equal(first, torch.cat(list(again.epoch())))
    assert not torch.equal(first, torch.cat(list(other.epoch())))


def test_the_order_leaves_the_callers_random_state_alone() -> None:
    before = torch.get_rng_state()
    list(batches().epoch())
    assert torch.equal(torch.get_rng_state(), before)


def test_images_and_labels_of_a_batch_belong_together() -> None:
    ours = batches()
    for positions in ours.epoch():
        images, labels = ours.take(positions)
        assert images.flatten().tolist() == labels.tolist() == positions.tolist()


def test_an_epoch_goes_on_from_any_of_its_batches_and_the_next_one_follows() -> None:
    whole = batches()
    list(whole.epoch())
    order, state = list(whole.epoch()), whole.random_state
    following = torch.cat(list(whole.epoch()))
    for first in range(len(order) + 1):
        later = batches(5)
        later.restore(state)
        assert torch.equal(torch.cat([*order[:first], *later.epoch(first)]), torch.cat(order))
        assert torch.equal(torch.cat(list(later.epoch())), following)
