"""The main process during training: it monitors the other ranks, evaluates the newest policy, and records episodes."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from engine.errors import RunFailed
from engine.experiments.dppo.config import DppoConfig
from engine.experiments.dppo.policy import FlatPolicy, PublishedPolicy
from engine.experiments.dppo.shared_state import RunThread, SharedState
from engine.rl.environments import Environments
from engine.rl.kinds import PICTURE, Kind, make
from engine.runtime.worker.ranks import Rank
from engine.seeding import EVALUATION

LOOK_S = 0.1
CONFIRM = 100
"""Number of greedy episodes that decide whether an environment is solved."""
FRAMES = 250
"""Maximum number of frames in a recorded episode."""
LONGEST = 2_000
"""Steps after which an evaluation counts an episode as it is, in an environment without a limit of its own."""
TESTS, CONFIRMATION, LAST, PICTURES = range(4)
"""The purpose of an episode; selects its random stream."""


class PolicyEvaluation:
    """The newest policy (or the one that solved the environment) in its own environments, where it acts greedily."""

    def __init__(self, rank: Rank, shared: SharedState, config: DppoConfig, kind: Kind) -> None:
        self.rank = rank
        self.shared = shared
        self.config = config
        self.kind = kind
        self.published = PublishedPolicy(shared, rank.lock)
        self.policy = FlatPolicy(config, kind)
        self.draws = config.render_every_s > 0
        """Whether episodes are recorded; turned off if the environment can't be rendered."""
        self.steps = 0
        """Env steps collected by all collectors when the policy was copied."""
        self.solved: float | None = None
        """Mean reward of the episodes by which the policy solved the environment. Further updates of the learner may
        degrade it, so that policy is kept and is the run's final one.
        """

    @torch.inference_mode()
    def mean_return(self, episodes: int, use: int) -> float:
        """Return the mean reward of `episodes` episodes, played in parallel with the current policy; each `use` has its
        own. They are whole, except in an environment without a limit of steps, where a greedy policy may never end one.
        """
        self._take()
        environments = Environments(self.kind, episodes, self.rank.seed_of(EVALUATION, use), self.rank.role)
        found: dict[int, float] = {}
        so_far = np.zeros(episodes)
        limit, steps = self.kind.limit or LONGEST, 0
        while len(found) < episodes and steps < limit:
            steps += 1
            actions = self.policy.net.best(self.policy.normalized(torch.from_numpy(environments.observations)))
            step = environments.step(actions.numpy())
            so_far += step.rewards
            for place in step.last:
                found.setdefault(place, float(so_far[place]))
        environments.close()
        return sum(found.get(place, float(so_far[place])) for place in range(episodes)) / episodes

    def solves(self, mean: float) -> bool:
        """Return whether the mean of CONFIRM episodes solves the environment; if so, report it and keep the policy."""
        goal = self.kind.solved_at
        if goal is None or mean < goal:
            return False
        self.solved = mean
        self.rank.say(
            "solved",
            (f"The mean of {CONFIRM} greedy episodes was {mean:.1f}; {self.kind.name} counts as solved at {goal:g}."),
        )
        return True

    def draw(self, path: Path) -> None:
        """Play one episode and save it as an animation. On failure the run reports it once and continues without."""
        if not self.draws:
            return
        try:
            self._draw(path)
        except Exception as error:  # an environment's own rendering may raise anything
            self.draws = False
            self.rank.say("no picture", f"No episode of {self.kind.name} is recorded: {type(error).__name__}: {error}")

    def repeat(self) -> None:
        """Test and record the newest policy periodically until the run is over, in a thread of its own, so that
        monitoring continues.
        """
        config = self.config
        tested = drawn = time.monotonic()
        while not self.shared.over:
            time.sleep(LOOK_S)
            now = time.monotonic()
            if config.evaluate_every_s and now - tested >= config.evaluate_every_s:
                self._test()
                tested = time.monotonic()
            if self.draws and now - drawn >= config.render_every_s:
                self.draw(self.rank.folder / PICTURE)
                drawn = time.monotonic()

    def _test(self) -> None:
        config, goal = self.config, self.kind.solved_at
        mean = self.mean_return(config.evaluation_episodes, TESTS)
        self.rank.recorder.log({"test/episodic_return": mean}, step=self.steps)
        self.rank.recorder.summarize("test")
        if not config.stop_when_solved or goal is None or mean < goal:
            return
        if self.solves(self.mean_return(CONFIRM, CONFIRMATION)):
            self.shared.stop()

    def _take(self) -> None:
        """Copy the newest policy, or keep the one that solved the environment."""
        if self.solved is None:
            self.steps = self.shared.counts.steps_collected
            self.published.take(self.policy.state)

    @torch.inference_mode()
    def _draw(self, path: Path) -> None:
        self._take()
        environment = make(self.kind.name, render=True)
        frames: list[NDArray[np.uint8]] = []
        played = Environments(self.kind, 1, self.rank.seed_of(EVALUATION, PICTURES), self.rank.role, [environment])
        while len(frames) < FRAMES:
            frames.append(environment.render())
            actions = self.policy.net.best(self.policy.normalized(torch.from_numpy(played.observations)))
            if played.step(actions.numpy()).last:
                break
        played.close()
        write_gif(path, frames, int(environment.metadata.get("render_fps", 30)))


def watch(rank: Rank, shared: SharedState, config: DppoConfig, kind: Kind) -> None:
    """Run the main process: end the run when the environment is solved, and fail if a collector hangs."""
    evaluation = PolicyEvaluation(rank, shared, config, kind)
    rank.ready()
    beside = RunThread(shared, "evaluation", evaluation.repeat)
    beside.start()
    looks = 0
    try:
        while not shared.over:
            with rank.recorder.phase("wait"):
                time.sleep(LOOK_S)
            looks += 1
            _report(rank, shared, config, looks)
            beside.check()
            _check_collectors(shared, config)
    finally:
        shared.stop()
        beside.join()
    beside.check()
    _report(rank, shared, config, looks + 1)
    with rank.recorder.phase("evaluate"):
        if evaluation.solved is None:
            final = evaluation.mean_return(CONFIRM, LAST)
            evaluation.solves(final)
        else:
            final = evaluation.solved
        rank.recorder.log({"test/episodic_return": final}, step=evaluation.steps)
        evaluation.draw(rank.folder / PICTURE)


def _report(rank: Rank, shared: SharedState, config: DppoConfig, look: int) -> None:
    collected = shared.counts.steps_collected
    rank.recorder.log({"perf/queue_depth": float(shared.counts.queue_depth)}, step=look)
    rank.recorder.progress(collected, max(collected, config.total_steps), "env steps")


def _check_collectors(shared: SharedState, config: DppoConfig) -> None:
    for place, role in enumerate(config.collector_roles):
        if shared.step_ns(place) > config.timeout_s * 1e9:
            raise RunFailed(
                f"{role}'s environments have been in one step for {config.timeout_s:g} s (timeout_s): "
                f"{config.environment} hangs. Check its log, try another environment, or raise "
                "timeout_s if a step takes that long."
            )


# ---- Episodes as animated images -----------------------------------------------------------------------------------

WIDTH = 320
FRAMES_PER_SECOND = 25


def write_gif(path: Path, frames: Sequence[NDArray[np.uint8]], frames_per_second: int) -> None:
    """Write frames [height, width, 3] as a looping GIF, to a temporary name first so that readers never see a partial
    file.
    """
    every = max(1, round(frames_per_second / FRAMES_PER_SECOND))
    pictures = [_small(frame) for frame in frames[::every]]
    part = path.with_suffix(".part")
    pictures[0].save(
        part,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=1000 * every // frames_per_second,
        loop=0,
        optimize=True,
    )
    part.replace(path)


def _small(frame: NDArray[np.uint8]) -> Image.Image:
    picture = Image.fromarray(frame)
    height = round(picture.height * WIDTH / picture.width)
    return picture.resize((WIDTH, height)).quantize(32)
