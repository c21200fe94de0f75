"""The exhibits, one per module: the sign, the wrong and the right code, and what measures both."""
