"""How asynchronous SGD takes part in duels. Torch-free."""

from engine.experiment.contender import Contender, Ready
from engine.training.duel import served

CONTENDER = Contender(
    length="epochs",
    pace=served,
    strategies={
        "async_sgd": Ready("Asynchronous SGD"),
        "async_scaled": Ready("Asynchronous SGD, staleness-scaled", {"rule": "staleness_scaled"}),
    },
    data="one part of the data per trainer",
    momentum=lambda config: "one, on the server",
    tests="by the server, while all trainers continue",
)
