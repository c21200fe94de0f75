"""What is known of an environment before a run, and what is said of one that can't be played."""

import pytest

from engine.config import RuleBroken
from engine.rl.kinds import SHOWN, kind_of


def test_sizes_of_choices_and_vectors() -> None:
    pole, pendulum, lake = kind_of("CartPole-v1"), kind_of("Pendulum-v1"), kind_of("FrozenLake-v1")
    assert (pole.observation, pole.choices, pole.action, pole.solved_at, pole.limit) == (4, 2, 1, 475.0, 500)
    assert (pendulum.observation, pendulum.choices, pendulum.action, pendulum.low, pendulum.high) == (
        3,
        None,
        1,
        (-2.0,),
        (2.0,),
    )
    assert (lake.observation, lake.one_hot, lake.choices) == (16, True, 4)


@pytest.mark.parametrize("name", SHOWN)
def test_environments_that_are_proposed_can_be_had(name: str) -> None:
    assert kind_of(name).name == name


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Cartpole-v1", "Did you mean: 'CartPole'"),
        ("CartPole-v7", "versioned environments"),
        ("Nothing-v0", "Always available: CartPole-v1"),
        ("HalfCheetah-v5", "needs a package that is not installed"),
        ("Blackjack-v1", "has observation space Tuple"),
        ("os:CartPole-v1", "an id without a module"),
        ("", "environment must be a gymnasium id"),
    ],
)
def test_an_environment_that_cannot_be_played_is_refused_with_a_cure(name: str, sentence: str) -> None:
    with pytest.raises(RuleBroken, match="environment") as error:
        kind_of(name)
    assert sentence in str(error.value)
    assert error.value.field == "environment"
