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
    data="a part of the set for each trainer",
    momentum=lambda config: "one, the server's",
    tests="by the server, while all train on",
)
