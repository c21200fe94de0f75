"""Signing in: with a name and a password, which fails with one answer and after the same work whatever was wrong, or by
the word of a provider.
"""

from threading import BoundedSemaphore

from engine.access import passwords
from engine.access.confusables import plain
from engine.access.rate_limit import Patience
from engine.commands.oidc_claims import Vouched
from engine.errors import SignInRefused
from engine.home import Home
from engine.store import Reader, Store
from engine.store.access.sign_ins import NOBODY

AT_ONCE = 2
"""A check takes 64 MiB and a core for a moment, so that a crowd of them must not take the machine."""
at_once = BoundedSemaphore(AT_ONCE)
patience = Patience()


def sign_in(home: Home, name: str, password: str, *, browser: str = "", address: str = "", known: str = "") -> str:
    """Return the secret that the browser's cookie is to hold. Raises SignInRefused with the same sentence whatever was
    wrong; both are in the audit log.

    `address` is where the browser is; `known` tells it from others, where that person has signed in on it before.
    """
    name = plain(name)[:200]
    attempt = patience.begin(str(home.path), name, address, known)
    with Reader.open(home) as reader:
        kept, stored = reader.sign_ins.password_of(name)
    with at_once:
        fits = passwords.fits(password, stored)
    with Store.open(home, timeout_s=5.0) as store:
        if not fits:
            store.sign_ins.refuse(kept, "wrong name or password", address=address)
            raise SignInRefused(NOBODY)
        if stored and passwords.is_outdated(stored):
            store.sign_ins.renew_password(kept, passwords.hashed(password))
        secret = store.sign_ins.begin(kept, "password", browser=browser)
    patience.forgive(attempt)
    return secret


def sign_in_by_provider(home: Home, who: Vouched, *, browser: str = "") -> str:
    """Return the secret for the browser of somebody whom a provider has just vouched for. Raises SignInRefused; either
    answer is in the audit log.
    """
    with Store.open(home, timeout_s=5.0) as store:
        try:
            person = store.oidc.known_by_provider(who.issuer, who.subject, who.name, who.email, who.role)
            return store.sign_ins.begin(person.name, "provider", browser=browser)
        except SignInRefused as error:
            store.sign_ins.refuse(f"{who.name or who.email or who.subject} at {who.issuer}", str(error))
            if who.unverified:
                raise SignInRefused(
                    f"{error} The provider has not verified your e-mail address, so it was not looked at."
                ) from None
            raise
