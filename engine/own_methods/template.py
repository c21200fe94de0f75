"""The files that `python -m engine new NAME` writes: an experiment that runs at once. Torch-free."""

CONFIG = '''"""Settings and card of NAME. Torch-free: pages show them."""

from engine.plugin import Clock, DatasetName, Experiment, Flow, Preset, TrainersConfig, Work, data_set, setting


class Settings(TrainersConfig):
    """Settings of trainers that share one set of weights."""

    work_fields = ("epochs",)

    epochs: int = setting(10, "Passes of each trainer over the training set.", low=1, high=1000)
    batch_size: int = setting(32, "Samples per mini-batch.", low=1, high=10_000, unit="samples")
    learning_rate: float = setting(0.05, "Learning rate of SGD.", above=0, high=10)
    dataset: DatasetName = setting("digits", "Training data.")


EXPERIMENT = Experiment(
    name="NAME", title="TITLE", tagline="In at most 60 characters", sentence="What it does, in one sentence.",
    source="The paper, in one line", pattern="shared memory", flows=(Flow("trainers", "weights", "updates"),),
    config=Settings, axis="trainers", counts={"trainers": "trainer"}, update_clock=Clock("train/loss"),
    presets={"quick": Preset("Two trainers on the bundled digits.", {"trainers": 2, "threads_per_rank": 1})},
    work=lambda c: Work("epochs", c.epochs * c.trainers * data_set(c.dataset).train, passes=c.epochs * c.trainers),
)
'''
METHOD = '''"""What NAME does, as the paper says it. Roles: trainer1 to trainerN, all alike."""

import torch
from torch.nn.functional import nll_loss

from engine.plugin import DROPOUT, ORDER, WEIGHTS, Batches, FlatSgd, StepLog
from engine.plugin import bind, evaluate, flat_weights, load, mnist_net, seed_of, shared
from .config import Settings


def run(config: Settings, ranks) -> None:
    """Prepare what the ranks share, then call `_train` in each of them."""
    weights = shared(flat_weights(mnist_net(seed_of(config.seed, WEIGHTS))))
    ranks.run(_train, config, load(config.dataset), weights, StepLog.shared_counters(config.trainers))


def _train(rank, config: Settings, data, weights, counters) -> None:
    net, record = mnist_net(seed_of(config.seed, WEIGHTS)), rank.recorder
    gradient = bind(net, weights)
    optimizer = FlatSgd(weights, gradient, config.learning_rate, 0.0)
    batches = Batches(data.train_images, data.train_labels, config.batch_size, rank.seed_of(ORDER))
    log = StepLog(rank, counters, pass_size=data.size, total=config.epochs * data.size, advice="Lower learning_rate.")
    torch.manual_seed(rank.seed_of(DROPOUT))
    rank.ready()  # time counts from here
    for epoch in range(config.epochs):
        for positions in batches.epoch():
            images, labels = batches.take(positions)
            with record.phase("compute"):
                gradient.zero_()
                loss = nll_loss(net(images), labels)
                loss.backward()
            with record.phase("update"):
                optimizer.step()
            log.log_step(loss.item(), len(labels))
        rank.barrier("trained")
        if rank.index == 0:
            log.log_score(evaluate(net, data.test_images, data.test_labels))
'''
