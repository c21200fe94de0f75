"""What an experiment states about itself: its card, presets and roles, how it scales, how it takes part in duels."""
