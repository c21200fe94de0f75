"""Who starts when, and why not sooner: pure functions over what waits and what holds the machine. Torch-free."""
