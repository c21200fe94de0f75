"""How the batch-updating parameter server takes part in duels. Torch-free."""

from engine.experiment.contender import Contender, Ready
from engine.training.duel import served

CONTENDER = Contender(
    length="epochs",
    pace=lambda config: served(config, config.batch_update_size),
    strategies={"parameter_server": Ready("Parameter server")},
    data="one part of the data per trainer",
    momentum=lambda config: "one, on the server",
    tests="by the server, while all trainers continue",
    gradients=lambda config: config.batch_update_size,
    given=lambda settings: {"batch_update_size": settings["trainers"]},
)
