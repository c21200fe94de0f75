"""Sign-in with name and password, which fails with the same answer and the same work for any cause (only the right
password of a disabled account gets another answer), or through a provider; and the change of a person's own password,
which ends all their sessions.
"""

from threading import BoundedSemaphore

from engine.access import passwords
from engine.access.confusables import plain
from engine.access.rate_limit import Patience
from engine.commands.oidc_claims import Vouched
from engine.errors import ConfigError, Problem, SignInRefused
from engine.home import Home
from engine.store import Reader, Store
from engine.store.access.sign_ins import NOBODY

AT_ONCE = 2
"""A check briefly needs 64 MiB and a core; the limit protects the machine from many at once."""
at_once = BoundedSemaphore(AT_ONCE)
patience = Patience()


def sign_in(home: Home, name: str, password: str, *, browser: str = "", address: str = "", known: str = "") -> str:
    """Return the secret for the browser's cookie. Raises SignInRefused with the same sentence for any cause, except for
    the right password of a disabled account; both are in the audit log.

    `address` is the browser's address; `known` identifies a browser on which that person has signed in before.
    """
    name = plain(name)[:200]
    attempt = patience.begin(str(home.path), name, address, known)
    with Reader.open(home) as reader:
        kept, stored, is_disabled = reader.sign_ins.password_of(name)
        admins = [each.name for each in reader.people.everyone() if each.role == "admin" and each.active]
    with at_once:
        fits = passwords.fits(password, stored)
    with Store.open(home, timeout_s=5.0) as store:
        if not fits:
            store.sign_ins.refuse(kept, "wrong name or password", address=address)
            raise SignInRefused(NOBODY)
        if is_disabled:
            store.sign_ins.refuse(kept, "account disabled", address=address)
            patience.forgive(attempt)
            raise SignInRefused(f"The account {kept} is disabled. Ask an admin to enable it: {', '.join(admins)}.")
        if stored and passwords.is_outdated(stored):
            store.sign_ins.renew_password(kept, passwords.hashed(password))
        secret = store.sign_ins.begin(kept, "password", browser=browser)
    patience.forgive(attempt)
    return secret


def sign_in_by_provider(home: Home, who: Vouched, *, browser: str = "") -> str:
    """Return the secret for the browser's cookie after a sign-in at a provider. Raises SignInRefused; both are in the
    audit log.
    """
    with Store.open(home, timeout_s=5.0) as store:
        try:
            person = store.oidc.known_by_provider(who.issuer, who.subject, who.name, who.email, who.role)
            return store.sign_ins.begin(person.name, "provider", browser=browser)
        except SignInRefused as error:
            store.sign_ins.refuse(f"{who.name or who.email or who.subject} at {who.issuer}", str(error))
            if who.unverified:
                raise SignInRefused(
                    f"{error} Your e-mail address was ignored: the provider has not verified it."
                ) from None
            raise


def change_password(home: Home, name: str, present: str, new: str, *, browser: str = "") -> str:
    """Change the password and return the new secret for the browser's cookie.

    Raises SignInRefused for a wrong current password or too many attempts, ConfigError for an invalid new one. Wrong
    attempts count as failed sign-ins, so that an unattended browser can't be used for guessing.
    """
    attempt = patience.begin(str(home.path), name, "", f"password of {name}")
    with Reader.open(home) as reader:
        kept, stored, _ = reader.sign_ins.password_of(name)
    with at_once:
        fits = passwords.fits(present, stored)
    if not fits:
        with Store.open(home, timeout_s=5.0) as store:
            store.sign_ins.refuse(kept, "password change: wrong current password")
        raise SignInRefused("Current password is incorrect. Nothing was changed.")
    patience.forgive(attempt)
    if new == present:
        raise ConfigError([Problem("password", "The new password must differ from the current one.")])
    with at_once, Store.open(home, timeout_s=5.0) as store:
        store.people.set_password(kept, new, by=kept)
        return store.sign_ins.begin(kept, "password", browser=browser)
