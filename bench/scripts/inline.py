# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy"]
# ///
"""A linear classifier in NumPy, which uv installs; argparse."""

import argparse
import json

import numpy as np

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--steps", type=int, default=3_000)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

draw = np.random.default_rng(args.seed)
centres = draw.normal(size=(10, 64))
weights = np.zeros((64, 10))
for step in range(args.steps):
    labels = draw.integers(10, size=2_000)
    points = centres[labels] + 2 * draw.normal(size=(2_000, 64))
    scores = points @ weights
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    loss = -np.log(shares[np.arange(2_000), labels]).mean()
    shares[np.arange(2_000), labels] -= 1
    weights -= args.lr * points.T @ shares / 2_000
    if step % 50 == 0:
        print(json.dumps({"step": step, "loss": float(loss)}))
