"""Passwords at next to no cost, for tests that are not about their cost: argon2's usual parameters take a tenth of a
second each.
"""

from collections.abc import Iterator

import pytest
from argon2 import PasswordHasher

from engine.access import passwords

USUAL = passwords._hasher
CHEAP = {"time_cost": 1, "memory_cost": 64, "parallelism": 1}


@pytest.fixture(scope="module", autouse=True)
def cheap_passwords() -> Iterator[None]:
    """Hash and check the passwords of this module's tests at little cost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_hasher", PasswordHasher(**CHEAP))
        passwords._dummy_hash.cache_clear()
        yield
    passwords._dummy_hash.cache_clear()
