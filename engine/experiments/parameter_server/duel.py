"""How the batch-updating parameter server takes part in duels. Torch-free."""

from engine.experiment.contender import Contender, Ready
from engine.training.duel import served

CONTENDER = Contender(
    length="epochs",
    pace=lambda config: served(config, config.batch_update_size),
    strategies={"parameter_server": Ready("Parameter server")},
    data="a part of the set for each trainer",
    momentum=lambda config: "one, the server's",
    tests="by the server, while all train on",
    gradients=lambda config: config.batch_update_size,
    given=lambda settings: {"batch_update_size": settings["trainers"]},
)
