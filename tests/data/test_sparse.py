"""Facts about the sparse samples: sizes, sharing, lengths, and labels that follow a true weight vector but for the
noise.
"""

import pytest
import torch

from engine.data.sparse import LABEL_NOISE, random_subsets, sparse_problem


def test_sizes_are_those_asked_for_and_all_lies_in_shared_memory() -> None:
    problem = sparse_problem(500, 70, 6)
    for part, count in ((problem.train, 500), (problem.test, 100)):
        assert part.indices.shape == part.values.shape == (count, 6)
        assert part.labels.unique().tolist() == [-1, 1]
        assert 0 <= int(part.indices.min()) <= int(part.indices.max()) < 70
        assert all(tensor.is_shared() for tensor in (part.indices, part.values, part.labels))
        torch.testing.assert_close(part.values.norm(dim=1), torch.ones(count))


def test_two_calls_give_the_same_samples() -> None:
    one, other = sparse_problem(200, 50, 3), sparse_problem(200, 50, 3)
    for name in ("indices", "values", "labels"):
        assert torch.equal(getattr(one.train, name), getattr(other.train, name))
        assert torch.equal(getattr(one.test, name), getattr(other.test, name))


@pytest.mark.parametrize(("features", "size"), [(10, 1), (10, 10), (8, 3), (1000, 50)])
def test_a_subset_names_no_feature_twice_and_each_equally_often(features: int, size: int) -> None:
    subsets = random_subsets(2000, features, size, torch.Generator().manual_seed(3))
    assert all(len(set(row)) == size for row in subsets.tolist())
    counts, mean = torch.bincount(subsets.flatten(), minlength=features), 2000 * size / features
    assert float((counts - mean).abs().max()) < 6 * mean**0.5


def test_labels_follow_one_weight_vector_but_for_the_noise() -> None:
    train = sparse_problem(20_000, 10, 5).train
    dense = torch.zeros(20_000, 10).scatter_(1, train.indices, train.values)
    found = torch.linalg.lstsq(dense, train.labels.unsqueeze(1)).solution.squeeze(1)
    agreed = float(((dense @ found) * train.labels > 0).double().mean())
    assert agreed == pytest.approx(1 - LABEL_NOISE, abs=0.02)
