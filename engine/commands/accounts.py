"""Accounts from a list of names with printable passwords, and the end of an account together with its runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from engine.access import passwords
from engine.errors import ConfigError, Problem
from engine.store import Person, Store
from engine.store.access.people import NewPerson

MOST = 200
"""Number of accounts that one list may create."""
_SHEET = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Accounts</title><style>
:root {{ color-scheme: light; }}
body {{ margin: 0; padding: 1rem; font: 15px/1.5 system-ui, sans-serif; color: #0d1720; background: #fff; }}
main {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(min(20rem, 100%), 1fr)); gap: 0.75rem; }}
section {{ border: 1px dashed #7b8791; border-radius: 0.4rem; padding: 0.8rem 1rem; break-inside: avoid; }}
dl {{ display: grid; grid-template-columns: auto 1fr; gap: 0.15rem 0.9rem; margin: 0; overflow-wrap: anywhere; }}
dt {{ color: #55606a; }} dd {{ margin: 0; }} p {{ margin: 0.5rem 0 0; font-size: 0.85rem; color: #55606a; }}
.password {{ font-family: ui-monospace, monospace; font-weight: 600; white-space: nowrap; }}
@media (max-width: 22rem) {{ dl {{ grid-template-columns: 1fr; }} }}
button {{ font: inherit; color: inherit; background: none; margin: 0 0 1rem; padding: 0.35rem 0.9rem; }}
button {{ border: 1px solid #7b8791; border-radius: 0.4rem; cursor: pointer; }}
@media print {{ button {{ display: none; }} body {{ padding: 0; }} }}
</style></head><body>
<button type="button" onclick="print()">Print</button>
<main>{slips}</main>
</body></html>
"""


@dataclass(frozen=True)
class Slip:
    """A new account and its generated password, which is stored only as a hash."""

    name: str
    password: str


def from_list(text: str) -> tuple[list[NewPerson], list[Slip]]:
    """Return the accounts of a list, one `name` or `name, e-mail` per line, and their passwords.

    The hashes are made here, before any transaction. Raises ConfigError for an empty or too long list.
    """
    rows: list[tuple[int, str, str]] = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        name, _, email = line.replace("\t", ",").replace(";", ",").partition(",")
        if line.strip():
            rows.append((number, name.strip(), email.strip()))
    if not 1 <= len(rows) <= MOST:
        sentence = f"A list must have 1 to {MOST} names, one per line; got {len(rows):,}."
        raise ConfigError([Problem("names", sentence)])
    slips = [Slip(name, passwords.made()) for _, name, _ in rows]
    people = [
        NewPerson(number, name, email, passwords.hashed(slip.password))
        for (number, name, email), slip in zip(rows, slips, strict=True)
    ]
    return people, slips


def sheet(slips: Sequence[Slip], address: str = "") -> str:
    """Return a page to print, with a slip per person: name, password and the console's address."""
    where = f"<dt>Address</dt><dd>{escape(address)}</dd>" if address else ""
    return _SHEET.format(
        slips="".join(
            f"<section><dl><dt>Name</dt><dd>{escape(slip.name)}</dd><dt>Password</dt>"
            f'<dd class="password">{escape(slip.password)}</dd>{where}</dl>'
            "<p>Change the password on the page Account.</p></section>"
            for slip in slips
        )
    )


def disable_account(store: Store, name: str, *, by: str, cancel_runs: bool = False) -> tuple[Person, int]:
    """Disable an account and, if asked for, cancel its queued and live runs, in one transaction; return the person and
    the number of cancelled runs.
    """
    with store.db.change():
        person = store.read.people.one(name)
        run_ids = store.read.ownership.active_runs(person.name) if cancel_runs else []
        for run_id in run_ids:
            store.runs.cancel(run_id, by=by)
        return store.people.disable(person.name, by=by), len(run_ids)
