"""Signing in with a name and a password: one answer for every way that it can fail, and as much work for a name that nobody has."""

from threading import BoundedSemaphore

from engine.access import passwords
from engine.errors import SignInRefused
from engine.home import Home
from engine.store import Reader, Store
from engine.store.sign_ins import NOBODY, TRIES_S

_at_once = BoundedSemaphore(2)
"""A check takes 64 MiB and a core for a moment, so that a crowd of them must not take the machine."""


def sign_in(home: Home, name: str, password: str, *, browser: str = "") -> str:
    """Return the secret that the browser's cookie is to hold. Raises SignInRefused with the same sentence whatever was wrong; both are in the audit log."""
    name = " ".join(name.split())[:200]
    with Reader.open(home) as reader:
        waits = reader.has_to_wait(name)
        kept, stored = reader.password_of(name)
    if waits:
        raise SignInRefused(f"Too many sign-ins failed under that name. Wait {TRIES_S / 60:.0f} minutes, or ask an admin for another password.")
    with _at_once:
        fits = passwords.fits(password, stored)
    with Store.open(home, timeout_s=5.0) as store:
        if not fits:
            store.refuse_sign_in(kept, "wrong name or password")
            raise SignInRefused(NOBODY)
        if stored and passwords.is_outdated(stored):
            store.renew_password(kept, passwords.hashed(password))
        return store.begin_sign_in(kept, "password", browser=browser)
