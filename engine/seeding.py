"""Random streams: a run's ranks draw each purpose from a stream of its own, and no two seeds share one. Torch-free.

Every run records the rule that it drew by (`seeding`): 1 before streams, when rank r drew all it needed from seed + r;
2 by `seed_of`.
"""

from collections.abc import Collection, Sequence

SEEDING = 2
"""The rule of this version. A new rule gets a new number: runs of different rules are never averaged, paired or
resumed.
"""
WEIGHTS, ORDER, DROPOUT, ENVIRONMENT, EVALUATION, PARTITION = range(6)
"""Streams: first weights; the order of samples; dropout and whatever else torch's own generator gives, such as actions;
episodes; what is measured (test episodes, sampled weights); the cut of the data into parts. Never renumber them: it
would change every run.
"""
FIRST_SERVER = 1 << 16


def seed_of(seed: int, stream: int, place: int = 0, *further: int) -> int:
    """Return the seed (64 bits) of one stream of a run with this `seed`, for the rank at `place`; what all ranks must
    share has place 0.

    `further` numbers tell draws of one stream apart, such as the step that a resumed trainer goes on from.
    """
    from numpy import uint64  # taken late: the command line needs no draws
    from numpy.random import SeedSequence

    return int(SeedSequence(seed, spawn_key=(stream, place, *further)).generate_state(1, uint64)[0])


def why_not_resumable(seeding: int) -> str:
    """Return why a run that drew by this rule can't go on from its checkpoint, empty where it can."""
    if seeding == SEEDING:
        return ""
    return (
        f"it drew its random numbers by rule {seeding} (seeding), and this version draws by rule {SEEDING}: "
        "the rest would follow another order. "
        "Retry it, which repeats it from the start."
    )


def place_of(index: int, roles: Sequence[str], servers: Collection[str]) -> int:
    """Return a rank's place in its streams: ranks that compute count from 0, so that the first draws what `reference`
    draws; those whose roles are `servers` apart from them.
    """
    before = sum(role in servers for role in roles[:index])
    return FIRST_SERVER + before if roles[index] in servers else index - before
