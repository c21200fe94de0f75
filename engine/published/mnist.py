"""Test accuracies on MNIST: a parameter server, Hogwild!, and synchronous SGD."""

from engine.published.figure import PASSES, Figure, PublishedSeries, Version
from engine.published.order_rules import OrderRule
from engine.published.value_rules import Beyond, Near, Plausible

ACCURACY, LOSS = "test/accuracy", "test/loss"
_POINTS = 0.3
"""Tolerance of accuracies: 30 of the 10,000 test images, about three times the spread over seeds."""
_SERVER_POINTS = 0.6
"""Tolerance of the server: twice the standard deviation over its seeds (0.28 points: 96.98, 96.90, 96.44, 96.94, 96.30,
96.69 %); the published value is a single run's.
"""
_SERVER, _HOGWILD = 96.96, 98.98
_SYNC = {4.0: 97.34, 8.0: 97.94, 12.0: 97.96}
_SYNC_LOSS = {4.0: 0.0858, 8.0: 0.0723, 12.0: 0.0732}


def _learned(passes: float, least: float) -> Plausible:
    return Plausible(
        ACCURACY, f"Test accuracy is at least {least:g} % after {passes:g} passes (chance: 10 %)", least, x=passes
    )


SERVER = Figure(
    name="parameter_server",
    title="Parameter server on MNIST: 96.96 %",
    claim="A server that averages the trainers' gradients reaches 96.96 % test accuracy in 10 epochs.",
    source="A blog series on parallel SGD in PyTorch, which calls the method asynchronous: 96.96 %.",
    experiment="parameter_server",
    axis=PASSES,
    number=ACCURACY,
    published=(PublishedSeries("published", {10.0: _SERVER}),),
    rules=(
        _learned(10, 90),
        Near(ACCURACY, 10, _SERVER, _SERVER_POINTS, "passes"),
        OrderRule(
            ACCURACY, {1.0: 1.0, 10.0: 2.0}, "Accuracy rises by at least 0.3 points from the first to the last pass"
        ),
        Beyond(ACCURACY, _HOGWILD, "below", "Final accuracy is at least 0.3 points below Hogwild!'s 98.98 %", x=10),
    ),
    versions={
        "full": Version("published", {"trainers": (4,)}, seeds=10),
        "reduced": Version(
            "published",
            {"trainers": (4,)},
            {"epochs": 3},
            reduced=("3 passes over the data instead of 10.",),
            values_count=False,
            rules=(
                _learned(3, 80),
                OrderRule(
                    ACCURACY,
                    {1.0: 1.0, 2.0: 2.0, 3.0: 3.0},
                    "Accuracy rises by at least 0.3 points per pass",
                ),
                Beyond(
                    ACCURACY,
                    _HOGWILD,
                    "below",
                    "Accuracy after 3 passes is at least 0.3 points below Hogwild!'s 98.98 %",
                    x=3,
                ),
            ),
        ),
    },
    assumed="4 trainers and a batch size of 32",
    chosen="the batch size of 32: with 64, runs end about 2 points below the published value",
    note="Each step waits for all gradients, so the method is synchronous.",
)

HOGWILD = Figure(
    name="hogwild",
    title="Hogwild! on MNIST: 98.98 %",
    claim=(
        "Four processes with lock-free shared weights reach 98.98 % test accuracy, more than the parameter server's "
        "96.96 %."
    ),
    source=(
        "A blog series on parallel SGD in PyTorch: 98.98 % test accuracy and a test loss of 0.0325 with 4 processes "
        "and 10 epochs each."
    ),
    experiment="hogwild",
    axis=PASSES,
    number=ACCURACY,
    published=(PublishedSeries("published", {40.0: _HOGWILD}),),
    rules=(
        _learned(40, 90),
        Near(ACCURACY, 40, _HOGWILD, _POINTS, "passes"),
        Near(LOSS, 40, 0.0325, 0.005, "passes"),
        Beyond(
            ACCURACY,
            _SERVER,
            "above",
            "Final accuracy is at least 0.3 points above the parameter server's 96.96 %",
            x=40,
        ),
    ),
    versions={
        "full": Version("published", {"trainers": (4,)}, tested_every=4),
        "reduced": Version(
            "published",
            {"trainers": (4,)},
            {"epochs": 2},
            reduced=("2 epochs per process instead of 10: 8 passes over the data instead of 40.",),
            values_count=False,
            tested_every=4,
            rules=(
                _learned(8, 90),
                Beyond(
                    ACCURACY,
                    _SERVER,
                    "above",
                    "Accuracy after 8 passes is at least 0.3 points above the parameter server's 96.96 %",
                    x=8,
                ),
            ),
        ),
    },
    note="The source attributes the difference to 96.96 % to the method, but Hogwild! also makes four times the "
    "passes, twice the gradients and eight times the updates.",
)

SYNC = Figure(
    name="sync_sgd",
    title="Synchronous SGD on MNIST: 97.34, 97.94, 97.96 %",
    claim=(
        "Trainers that average their weights reach 97.34, 97.94 and 97.96 % test accuracy over 3 epochs of the "
        "published loop."
    ),
    source="A blog series on parallel SGD in PyTorch: these accuracies, and test losses of 0.0858, 0.0723 and 0.0732.",
    experiment="sync_sgd",
    axis=PASSES,
    number=ACCURACY,
    published=(PublishedSeries("published", _SYNC),),
    rules=(
        _learned(12, 90),
        *(Near(ACCURACY, x, value, _POINTS, "passes") for x, value in _SYNC.items()),
        *(Near(LOSS, x, value, 0.01, "passes") for x, value in _SYNC_LOSS.items()),
        OrderRule(
            ACCURACY,
            _SYNC,
            (
                "Accuracy rises by at least 0.3 points from the first test to both later ones (the last two differ by "
                "0.02)"
            ),
        ),
    ),
    versions={
        "full": Version("published", {"trainers": (4,)}, tested_every=4),
        "reduced": Version(
            "published",
            {"trainers": (4,)},
            {"rounds": 3, "evaluate_every": 1},
            reduced=("3 averaging rounds instead of 12, with a test after each instead of after 4, 8 and 12.",),
            values_count=False,
            rules=(
                _learned(3, 80),
                OrderRule(
                    ACCURACY,
                    {1.0: 97.34, 2.0: 97.94, 3.0: 97.96},
                    "Accuracy rises by at least 0.3 points from the first of three tests to both later ones",
                ),
            ),
        ),
    },
    assumed="learning rate 0.01, momentum 0.5 and a batch size of 64",
    note=(
        "In the published code all workers share one storage, so it actually runs Hogwild!; it also tests before "
        "averaging."
    ),
)
