"""Random streams: one separate stream per purpose, rank and seed. Torch-free.

Every run records its rule (`seeding`): 1, before streams: rank r used seed + r for everything; 2: `seed_of`.
"""

from collections.abc import Collection, Sequence

SEEDING = 2
"""The current rule. A new rule needs a new number: runs of different rules are never averaged, paired or resumed."""
WEIGHTS, ORDER, DROPOUT, ENVIRONMENT, EVALUATION, PARTITION, COMPRESSION = range(7)
"""Streams: initial weights; sample order; dropout and other uses of torch's generator, such as actions; episodes;
evaluation (test episodes, sampled weights); data partition; first factors of compressed gradients. Never renumber them:
that would change every run.
"""
FIRST_SERVER = 1 << 16


def seed_of(seed: int, stream: int, place: int = 0, *further: int) -> int:
    """Return the seed (64 bits) of one stream of a run with this `seed`, for the rank at `place`; streams shared by all
    ranks have place 0.

    `further` numbers distinguish draws of one stream, such as the step from which a trainer resumes.
    """
    from numpy import uint64  # slow to import, and not needed by the command line
    from numpy.random import SeedSequence

    return int(SeedSequence(seed, spawn_key=(stream, place, *further)).generate_state(1, uint64)[0])


def why_not_resumable(seeding: int) -> str:
    """Return why a run of this rule can't resume from its checkpoint, empty if it can."""
    if seeding == SEEDING:
        return ""
    return (
        f"it used random number rule {seeding} (seeding), but this version uses rule {SEEDING}. Retry it, "
        "which repeats it from the start."
    )


def place_of(index: int, roles: Sequence[str], servers: Collection[str]) -> int:
    """Return a rank's place in its streams: compute ranks count from 0, so that the first matches `reference`; ranks
    with `servers` roles are numbered separately.
    """
    before = sum(role in servers for role in roles[:index])
    return FIRST_SERVER + before if roles[index] in servers else index - before
