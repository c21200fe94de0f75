"""What the reinforcement-learning experiments share: environments, returns and advantages, policies."""
