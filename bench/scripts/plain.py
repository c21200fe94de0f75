"""A net without a command line: what changes is in the environment."""

import os

from net import fit

LR = float(os.environ.get("LR", "0.05"))
EPOCHS = int(os.environ.get("EPOCHS", "3"))

fit(LR, EPOCHS)
