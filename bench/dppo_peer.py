"""DPPO through the bounded queue against stable-baselines3's PPO: same environment, networks, number of environments
and gradient steps.

Run: python -m bench.dppo_peer [--rounds 5]
"""

import argparse
import json
import subprocess
import sys
import time
from typing import Any

from bench.measuring import alternate, finish, last_values, ratio, save, served_home
from engine.home import ROOT

STEPS, COLLECTORS, ENVIRONMENTS, BATCH_STEPS, EPOCHS, MINIBATCHES, RATE = 100_000, 2, 8, 64, 10, 4, 0.0025
OURS: dict[str, Any] = {
    "environment": "CartPole-v1",
    "collectors": COLLECTORS,
    "envs_per_collector": ENVIRONMENTS,
    "batch_steps": BATCH_STEPS,
    "total_steps": STEPS,
    "epochs": EPOCHS,
    "minibatches": MINIBATCHES,
    "learning_rate": RATE,
    "stop_when_solved": False,
    "evaluate_every_s": 0,
    "render_every_s": 0,
}


def main() -> None:
    """Measure, print and save; with --peer, train once with stable-baselines3 in this process."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--peer", type=int, default=None, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.peer is not None:
        print(json.dumps(peer(chosen.peer)))
        return
    rewards: dict[str, list[float]] = {"dppo": [], "stable_baselines3": []}
    with served_home() as home:

        def ours() -> float:
            run = finish(home, "dppo", "quick", OURS | {"seed": len(rewards["dppo"]) + 1})
            last = last_values(home, run)
            rewards["dppo"].append(last["test/episodic_return"])
            return last["perf/env_steps_per_second"]

        def theirs() -> float:
            command = [sys.executable, "-m", "bench.dppo_peer", "--peer", str(len(rewards["stable_baselines3"]) + 1)]
            found = json.loads(
                subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout.splitlines()[-1]
            )
            rewards["stable_baselines3"].append(found["reward"])
            return float(found["rate"])

        rates = alternate(chosen.rounds, dppo=ours, stable_baselines3=theirs)
    figures = {"settings": OURS, "env_steps_per_second": rates, "greedy_reward_of_100_episodes": rewards}
    save("dppo_peer", figures | {"dppo_over_stable_baselines3": ratio(rates["dppo"], rates["stable_baselines3"])})


def peer(seed: int) -> dict[str, float]:
    """Return stable-baselines3's env steps per second and the mean of 100 greedy episodes after them."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    torch.set_num_threads(1)
    environments = make_vec_env("CartPole-v1", COLLECTORS * ENVIRONMENTS, seed=seed)
    model = PPO(
        "MlpPolicy",
        environments,
        learning_rate=lambda left: RATE * left,
        n_steps=BATCH_STEPS,
        batch_size=BATCH_STEPS * ENVIRONMENTS // MINIBATCHES,
        n_epochs=EPOCHS,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.0,
        seed=seed,
        device="cpu",
    )
    began = time.monotonic()
    model.learn(STEPS)
    seconds = time.monotonic() - began
    reward, _ = evaluate_policy(model, make_vec_env("CartPole-v1", 16, seed=1000 + seed), 100)
    return {"rate": model.num_timesteps / seconds, "reward": float(reward)}


if __name__ == "__main__":
    main()
