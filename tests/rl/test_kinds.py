"""What is known of an environment before a run, and what is said of one that can't be played."""

import pytest

from engine.config import RuleBroken
from engine.rl.kinds import SHOWN, kind_of
from tests.rl import lab_environments as lab


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
    assert (lake.observation, lake.choices, kind_of("Blackjack-v1").observation) == (16, 4, 32 + 11 + 2)


@pytest.mark.parametrize("name", SHOWN)
def test_environments_that_are_proposed_can_be_had(name: str) -> None:
    assert kind_of(name).name == name


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Cartpole-v1", "Did you mean: 'CartPole'"),
        ("CartPole-v7", "versioned environments"),
        ("Nothing-v0", "Always available: CartPole-v1"),
        ("Nowhere/Pong-v5", "needs the module that registers it in front, such as ale_py:"),
        ("HalfCheetah-v5", "needs a package that is not installed"),
        (
            "nothing_like_it:Pole-v0",
            "needs a module that can't be imported: No module named 'nothing_like_it'. Install",
        ),
        ("os:Nothing-v0", "must be a gymnasium id, got 'os:Nothing-v0'"),
        ("", "environment must be a gymnasium id"),
        (f"{lab.__name__}:lab/unmade-v0", "can't be created: TypeError"),
        *((f"{lab.__name__}:lab/refused-{name}-v0", words) for name, (_, _, words) in lab.REFUSED.items()),
    ],
)
def test_an_environment_that_cannot_be_played_is_refused_with_a_cure(name: str, sentence: str) -> None:
    with pytest.raises(RuleBroken, match="environment") as error:
        kind_of(name)
    assert sentence in str(error.value)
    assert error.value.field == "environment"
