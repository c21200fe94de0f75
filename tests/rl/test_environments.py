"""Environments side by side: reproducible, each with a seed of its own, beginning anew when an episode ends."""

import gymnasium
import numpy as np
import pytest

from engine.errors import RunFailed
from engine.rl.environments import Environments
from engine.rl.kinds import kind_of
from tests.rl import lab_environments as lab


def cart_poles(count: int = 3, seed: int = 1) -> Environments:
    return Environments(kind_of("CartPole-v1"), count, seed, "observer2")


def test_seeds_are_distinct_over_environments_and_ranks_and_the_same_again() -> None:
    first, again, other = cart_poles(), cart_poles(), cart_poles(seed=2)
    assert np.array_equal(first.observations, again.observations)
    rows = [tuple(row) for row in np.concatenate([first.observations, other.observations])]
    assert len(set(rows)) == 6


def test_an_episode_that_ends_begins_anew_and_is_told_with_its_length() -> None:
    poles, plain = cart_poles(count=1), gymnasium.make("CartPole-v1")
    seed = int(np.random.SeedSequence(1).generate_state(1)[0])
    seen, _ = plain.reset(seed=seed)
    assert np.array_equal(poles.observations[0], seen)
    for step in range(1, 30):
        seen, _, terminated, truncated, _ = plain.step(1)
        found = poles.step(np.array([1]))
        assert bool(found.terminated[0]) == terminated and not truncated
        if terminated:
            assert np.array_equal(found.last[0], seen)
            assert poles.take_finished() == [(float(step), step)] and poles.take_finished() == []
            assert np.array_equal(poles.observations[0], plain.reset()[0])
            return
        assert np.array_equal(poles.observations[0], seen)
    pytest.fail("a pole pushed to one side all the time falls in under 30 steps")


def test_a_cut_episode_is_told_apart_from_one_that_ended() -> None:
    cars = Environments(kind_of("MountainCar-v0"), 1, 0, "observer1")
    for _ in range(199):
        assert not cars.step(np.array([1])).truncated[0]
    found = cars.step(np.array([1]))
    assert (bool(found.terminated[0]), bool(found.truncated[0])) == (False, True)
    assert cars.take_finished() == [(-200.0, 200)]


def test_vectors_are_clipped_to_their_bounds_and_one_hot_states_are_made() -> None:
    pendulum = Environments(kind_of("Pendulum-v1"), 2, 0, "observer1")
    wild, tame = Environments(kind_of("Pendulum-v1"), 2, 0, "observer1"), pendulum
    wild.step(np.array([[50.0], [-50.0]], np.float32))
    tame.step(np.array([[2.0], [-2.0]], np.float32))
    assert np.array_equal(wild.observations, tame.observations)
    lake = Environments(kind_of("FrozenLake-v1"), 1, 0, "observer1")
    assert lake.observations[0].tolist() == [1.0] + [0.0] * 15


def test_an_environment_that_raises_is_named_with_its_step() -> None:
    poles = cart_poles(count=1)
    poles.step(np.array([0]))
    with pytest.raises(RunFailed, match=r"observer2's environment CartPole-v1 raised AssertionError in step 2"):
        poles.step(np.array([7]))


@pytest.mark.parametrize("name", lab.OBSERVED)
def test_an_observation_of_any_space_is_a_vector_from_0_to_1_or_of_its_floats(name: str) -> None:
    kind, flat = kind_of(f"{lab.__name__}:lab/{name}-v0"), lab.OBSERVED[name][2]
    played = Environments(kind, 2, 0, "observer1")
    for _ in range(11):
        played.step(np.array([0, 1]))  # the environment has actions from -1 and refuses others
    assert kind.observation == len(flat)
    assert played.observations.tolist() == [pytest.approx(flat)] * 2
    assert played.take_finished() == [(10.0, 10)] * 2


def test_vectors_of_doubles_are_given_as_doubles() -> None:
    Environments(kind_of(f"{lab.__name__}:lab/continuous-v0"), 1, 0, "observer1").step(np.array([[9.0]], np.float32))


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("name", lab.BROKEN)
def test_numbers_that_are_none_and_wrong_observations_are_blamed_on_the_environment(name: str) -> None:
    played = Environments(kind_of(f"{lab.__name__}:lab/broken-{name}-v0"), 2, 0, "observer2")
    for _ in range(2):
        played.step(np.array([0, 1]))
    with pytest.raises(RunFailed, match=rf"^observer2's environment \S*:lab/broken-{name}-v0 .*{lab.BROKEN[name][1]}"):
        played.step(np.array([0, 1]))
