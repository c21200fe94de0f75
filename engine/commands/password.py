"""Another password for somebody who knows the present one: all their sign-ins end, and the browser that asked gets a
new one.
"""

from engine.access import passwords
from engine.commands.sign_in import at_once, patience
from engine.errors import ConfigError, Problem, SignInRefused
from engine.home import Home
from engine.store import Reader, Store


def change_password(home: Home, name: str, present: str, new: str, *, browser: str = "") -> str:
    """Return the secret that the browser's cookie is to hold from now on.

    Raises SignInRefused where the present password is another one or was tried too often, ConfigError for a new one
    that does not do. Wrong tries count as failed sign-ins: a browser that somebody left open must not become a place to
    guess at.
    """
    attempt = patience.begin(str(home.path), name, "", f"password of {name}")
    with Reader.open(home) as reader:
        kept, stored = reader.sign_ins.password_of(name)
    with at_once:
        fits = passwords.fits(present, stored)
    if not fits:
        with Store.open(home, timeout_s=5.0) as store:
            store.sign_ins.refuse(kept, "wrong present password, where another one was asked for")
        raise SignInRefused("The present password is another one. Nothing was changed.")
    patience.forgive(attempt)
    if new == present:
        raise ConfigError([Problem("password", "The new password is the present one. Choose another one.")])
    with at_once, Store.open(home, timeout_s=5.0) as store:
        store.people.set_password(kept, new, by=kept)
        return store.sign_ins.begin(kept, "password", browser=browser)
