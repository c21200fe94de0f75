"""Shared by the reinforcement-learning experiments: environments, returns, advantages and policies."""
