"""What the tests of accounts and sign-ins share: passwords that cost little."""

from tests.cheap import cheap_passwords

__all__ = ["cheap_passwords"]
