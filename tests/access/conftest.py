"""What the tests of accounts and sign-ins share: passwords that cost little, and the lab's store."""

from tests.app.conftest import reader
from tests.cheap import cheap_passwords

__all__ = ["cheap_passwords", "reader"]
