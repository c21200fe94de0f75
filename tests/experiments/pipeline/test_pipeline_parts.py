"""The parts of a pipeline by themselves: cuts, slots, feeds, rules, and whom a late stage's neighbours blame."""

from typing import Any

import pytest
import torch

from engine.data.nets import drawn_from, resnet
from engine.errors import ConfigError, DeviceError, PeerLost, RunFailed
from engine.experiments.pipeline.config import RESNETS, PipelineConfig
from engine.experiments.pipeline.micro_batches import MicroBatches
from engine.experiments.pipeline.monitor import is_out_of_memory, named
from engine.experiments.pipeline.partition import Stage, best_cut, boundaries, largest_boundary
from engine.experiments.pipeline.scheduled import links as rpc_links
from engine.experiments.pipeline.scheduled.links import AHEAD, Links, slot_of
from engine.pipelining import Layout, Schedule, actions
from engine.registry import experiment
from engine.runtime.worker.ranks import Rank
from tests.doubles import LocalRanks

CPU = torch.device("cpu")


def config_of(**changes: Any) -> PipelineConfig:
    found = experiment("pipeline").configure(None, {"image_size": 32, "batch_size": 8, "classes": 5} | changes)
    assert isinstance(found, PipelineConfig)
    return found


def problem(**changes: Any) -> str:
    with pytest.raises(ConfigError) as found:
        config_of(**changes)
    return str(found.value)


def test_rules_name_the_value_the_rule_and_the_cure() -> None:
    assert problem(splits=9) == "splits must be at most batch_size (8), got 9: each micro-batch needs a sample."
    assert "splits must divide batch_size (8)" in problem(mode="torch_pipelining", splits=3)
    assert "splits must be at least stages (3)" in problem(
        mode="torch_pipelining", peer_schedule="1f1b", stages=3, splits=2
    )
    assert problem(mode="torch_pipelining", peer_schedule="zb_h1", splits=1) == (
        "splits must be a multiple of stages (2) for torch's zb_h1, got 1. Choose a multiple, or mode zb_h1."
    )
    assert "Choose at most 4, larger images, or batch_norm frozen." in problem(splits=8)
    assert config_of(splits=8, batch_norm="frozen").splits == config_of(splits=8, image_size=33).splits == 8
    assert problem(mode="interleaved", splits=3) == (
        "splits must be a multiple of stages (2) for interleaved schedules, got 3: stages take turns on as many "
        "micro-batches. Choose a multiple, or mode 1f1b or zb_h1."
    )
    assert problem(mode="interleaved", chunks=4) == (
        "chunks must be at most 3 for 2 stages of small_resnet, which has 6 layers, got 4."
    )
    assert "sleep_ms must be 0 for mode rpc, got 5.0" in problem(mode="rpc", sleep_ms=5)
    assert problem(model="gpt", loss="cross_entropy") == (
        "dataset must be a dataset of text for model gpt, got 'random'. Choose stdlib."
    )
    assert problem(dataset="stdlib") == "model must be gpt for a dataset of text, got 'small_resnet'."
    assert "loss must be cross_entropy for model gpt" in problem(model="gpt", dataset="stdlib")
    assert problem(model="vit", blocks=3, mode="interleaved", stages=4).startswith("chunks must be at most 1 for 4")
    assert "got '2,1'" in problem(stages=3, cut="2,1")
    assert "got 'two'" in problem(cut="two")
    assert "cut must be 1 of the layers 1 to 5" in problem(cut="6")
    assert "cut must be 3 of the layers 1 to 5" in problem(mode="interleaved", cut="3")
    assert problem(cut="1,2,3,4,5,6") == "cut must make at most 6 stages, the layers of small_resnet, got 7."
    assert "fault_stage must be at most stages (2), got 3" in problem(fault_stage=3)


@pytest.mark.parametrize(("model", "layers"), RESNETS.items())
def test_a_net_is_torchvisions_bit_for_bit_as_a_list_of_layers(model: Any, layers: int) -> None:
    from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet  # seconds

    counts = {"resnet50": [3, 4, 6, 3], "resnet18": [2, 2, 2, 2], "small_resnet": [1, 1, 1, 1]}[model]
    with drawn_from(3):
        theirs = ResNet(Bottleneck if model == "resnet50" else BasicBlock, counts, num_classes=5)
    ours, images = resnet(model, 5, seed=3), torch.randn(2, 3, 32, 32)
    assert len(ours) == layers
    assert torch.equal(ours(images), theirs(images))
    for net in (ours, theirs):
        net(images).square().sum().backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other) and torch.equal(mine.grad, other.grad)


def test_boundaries_are_the_shapes_of_what_goes_into_each_layer() -> None:
    assert boundaries(config_of()) == ((3, 32, 32), (64, 8, 8), (64, 8, 8), (128, 4, 4), (256, 2, 2), (512, 1, 1))
    assert largest_boundary(config_of()) == 64 * 8 * 8
    assert largest_boundary(config_of(cut="4")) == 256 * 2 * 2


@pytest.mark.parametrize(
    ("costs", "stages", "cuts"),
    [([1, 1, 1, 1], 2, (2,)), ([5, 1, 1, 1], 2, (1,)), ([1, 2, 3, 4, 5], 3, (3, 4)), ([1, 1, 9, 1, 1], 4, (1, 2, 3))],
)
def test_the_best_cut_makes_the_slowest_stage_as_fast_as_it_can_be(
    costs: list[float], stages: int, cuts: tuple[int, ...]
) -> None:
    parts = [
        sum(costs[a:b])
        for a, b in zip((0, *best_cut(costs, stages)), (*best_cut(costs, stages), len(costs)), strict=True)
    ]
    expected = [sum(costs[a:b]) for a, b in zip((0, *cuts), (*cuts, len(costs)), strict=True)]
    assert max(parts) == max(expected)
    assert len(parts) == stages


def test_a_slot_keeps_the_numbers_and_the_layout_of_images() -> None:
    slots = torch.zeros(2, 1000)
    images = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    slot_of(slots, 3, (2, 3, 4, 5)).copy_(images)
    found = slot_of(slots, 1, (2, 3, 4, 5))
    assert torch.equal(found, images)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert not slots[0].any()


@pytest.mark.parametrize("dataset", ["random", "digits"])
def test_a_feed_gives_the_same_images_however_they_are_split(dataset: str) -> None:
    batches = []
    for splits in (1, 3, 4):
        feed = MicroBatches.create(config_of(dataset=dataset, splits=splits, loss="cross_entropy"))
        images, targets = feed.images(CPU), feed.targets(CPU)
        batches.append([torch.cat([next(source) for _ in range(2 * splits)]) for source in (images, targets)])
    for images, targets in batches[1:]:
        assert torch.equal(targets, batches[0][1])
        assert images.shape == (16, 3, 32, 32)
    if dataset == "digits":
        assert torch.equal(batches[1][0], batches[0][0])


def test_random_targets_are_drawn_once_and_images_anew() -> None:
    feed = MicroBatches.create(config_of(splits=1))
    images, targets = feed.images(CPU), feed.targets(CPU)
    assert not torch.equal(next(images), next(images))
    assert torch.equal(next(targets), next(targets))


def test_an_epochs_rest_goes_into_the_next_batch() -> None:
    feed = MicroBatches.create(config_of(dataset="digits", batch_size=1000, splits=1, loss="cross_entropy"))
    labels = feed.targets(CPU)
    assert [len(next(labels)) for _ in range(4)] == [1000] * 4
    assert feed.passes_after(1) == pytest.approx(1000 / 1437)


def test_who_waits_too_long_names_the_stage_that_all_wait_for() -> None:
    links = Links.create(config_of(stages=4), over_rpc=True, devices=("cpu",) * 4)
    links.waits.stages[:] = torch.tensor([1, 2, -1, 2])
    told = str(links.waits.timeout_error(0, "the gradient of micro-batch 1, batch 2"))
    assert told.startswith(
        "stage3 timed out sending after 60 s (timeout_s), which stage2 waits for too: stage1 waited for"
    )
    assert str(links.waits.timeout_error(3, "activations")).startswith(
        "stage3 timed out sending after 60 s (timeout_s): stage4 waited for activations."
    )
    links.waits.stages[:] = torch.tensor([1, 2, 1, 2])
    assert str(links.waits.timeout_error(0, "a gradient")).startswith("stage3 timed out sending")
    assert str(links.waits.timeout_error(1, "a gradient")).startswith(
        "stage3 timed out sending after 60 s (timeout_s): stage2 waited for a gradient."
    )


def test_a_stage_that_hears_nothing_over_rpc_gives_up_after_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_links, "LOOK_S", 0.01)
    links = Links.create(config_of(stages=2, transport="rpc", timeout_s=1), over_rpc=True, devices=("cpu",) * 2)
    rpc_links.clear_mail()
    with pytest.raises(
        RunFailed, match=r"stage2 timed out sending after 1 s \(timeout_s\): stage1 waited for a gradient"
    ):
        rpc_links.RpcLink(links.waits, 0, 1, 0, AHEAD).wait(0, "a gradient")


def test_memory_that_could_not_be_had_is_told_with_the_stage_and_how_much_was_asked() -> None:
    with (
        pytest.raises(
            RunFailed,
            match=(
                r"stage2 ran out of memory allocating 4503599627370496 bytes in the backward of "
                r"micro-batch 1, batch 3"
            ),
        ) as told,
        named("stage2", "backward", 2, 1),
    ):
        torch.empty(2**50)
    assert is_out_of_memory(told.value.__cause__ or told.value)
    assert "choose mode 1f1b" in str(told.value)
    gpu = torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.00 GiB"
    )
    with pytest.raises(RunFailed, match=r"allocating 20\.00 GiB"), named("stage1", "forward", 0, 0):
        raise gpu


# ---- GPUs, without one


def rank_of(role: str, device: str) -> Rank:
    """Return a rank that computes on a device, as a method sees it."""
    return LocalRanks((role,), device=device)._rank(0, role)


def test_a_stage_on_a_gpu_sends_to_the_gpu_of_each_other_stage() -> None:
    config = config_of(stages=3, mode="rpc")
    gpus = ("cuda:0", "cuda:1", "cuda:0")
    first, second = torch.device("cuda:0"), torch.device("cuda:1")
    assert rpc_links.device_maps(config, gpus, rank_of("stage2", "cuda:1")) == {
        "stage1": {second: first},
        "stage3": {second: first},
    }
    assert rpc_links.device_maps(config, gpus, rank_of("stage1", "cuda:0")) == {
        "stage2": {first: second},
        "stage3": {first: first},
    }
    assert rpc_links.device_maps(config, ("cpu",) * 3, rank_of("stage1", "cpu")) is None


def test_nccl_needs_a_gpu_for_each_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.experiments.pipeline.torch import stage as torch_pipelining  # takes seconds

    config = config_of(mode="torch_pipelining")
    assert torch_pipelining._backend(rank_of("stage1", "cpu"), config) == "gloo"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert torch_pipelining._backend(rank_of("stage1", "cuda:0"), config) == "nccl"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(DeviceError, match="needs a GPU for each of the 2 stages"):
        torch_pipelining._backend(rank_of("stage1", "cuda:0"), config)


@pytest.mark.parametrize(("schedule", "chunks"), [("interleaved", 2), ("zb_h1", 1)])
@pytest.mark.parametrize("layout", [(2, 2), (2, 6), (4, 4), (4, 12)])
def test_torchs_tables_are_the_engines(schedule: Schedule, chunks: int, layout: tuple[int, int]) -> None:
    """What both are measured by is then how they carry them out."""
    from engine.experiments.pipeline.torch.stage import SCHEDULES  # takes seconds

    stages, splits = layout
    ours = Layout(stages, splits, chunks)
    peer = SCHEDULES[schedule].__new__(SCHEDULES[schedule])  # its __init__ needs a process group
    peer.pp_group_size, peer.n_local_stages, peer._n_microbatches = stages, chunks, splits
    peer.number_of_rounds, peer.microbatches_per_round = splits // stages, stages
    letters = {"forward": "F", "backward": "B", "input_gradient": "I", "weight_gradient": "W"}
    for stage in range(stages):
        peer.rank = stage
        theirs = [str(each) for each in peer._calculate_single_rank_operations(stage) if each is not None]
        order = actions(schedule, stage, ours)
        assert theirs == [f"{ours.part(stage, each.chunk)}{letters[each.what]}{each.micro_batch}" for each in order]


@pytest.mark.parametrize(
    ("error", "told"),
    [(torch.OutOfMemoryError("full"), torch.OutOfMemoryError), (RuntimeError("closed"), PeerLost)],
)
def test_a_full_gpu_is_no_lost_neighbour(error: Exception, told: type[Exception]) -> None:
    from engine.experiments.pipeline.torch import stage as torch_pipelining  # takes seconds

    stage = Stage(config_of(), 0, [[torch.nn.Linear(1, 1)]], CPU)
    with pytest.raises(told), torch_pipelining._named(stage):
        raise error
