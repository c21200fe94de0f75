"""Send due notices, in a thread of the runner with its own store connection: it never delays a run, and its errors stay
here.

All state is in the store, so the next runner continues. A message can arrive twice (if its sender was killed before
recording the delivery), with the same key; it is never lost.
"""

import asyncio
import logging
import random
import traceback

from engine.access.receivers import checked_recipient, checked_webhook
from engine.errors import ConfigError, StoreError
from engine.home import Home
from engine.notices import mail, webhook
from engine.notices.daemon_thread import apart
from engine.notices.formats import BODIES, as_email
from engine.notices.mail_server import mail_server
from engine.notices.notice import Notice, notice_of
from engine.notices.outcome import DeliveryOutcome
from engine.notices.public_url import public_url
from engine.store import ProcessIdentity, Reader, Store
from engine.store.notices.delivery import Due
from engine.store.store import StoreThread, Work
from engine.system.runner_process import lives

log = logging.getLogger(__name__)

LOOK_S = 0.5
"""Polling interval."""
FIRST_S, LONGEST_S = 5.0, 4 * 3600.0
"""Wait after the first failed attempt, doubled after each further one up to the maximum."""


def wait_before_next(attempts: int, asked_s: float = 0.0) -> float:
    """Return the seconds before the next attempt: exponential backoff with jitter, and at least the receiver's
    Retry-After.
    """
    longest = min(LONGEST_S, FIRST_S * 2.0 ** min(attempts - 1, 30))
    return max(asked_s, longest * random.uniform(0.6, 1.0))


def delivery_thread(home: Home, process: ProcessIdentity) -> StoreThread:
    """Return the thread that delivers the messages of one home."""

    def begin(store: Store) -> Work:
        free_dead(store)
        sender = Delivering(home, process)
        return lambda: 0.0 if sender.deliver(store) else LOOK_S

    return StoreThread(home, "notices", begin)


class Delivering:
    """Delivers the messages of one home."""

    def __init__(self, home: Home, process: ProcessIdentity) -> None:
        self._home = home
        self._lease = lease_of(process)

    def deliver(self, store: Store) -> int:
        """Send due messages, one per channel and several channels concurrently; return the number of attempts."""
        if not store.delivery.has_due():
            return 0
        taken = store.delivery.take_due(self._lease)
        if taken:
            asyncio.run(self._send_all(store, taken))
        return len(taken)

    async def _send_all(self, store: Store, taken: list[Due]) -> None:
        """Send messages concurrently, so that a hanging receiver delays only its own; record each when it ends."""

        async def one(due: Due) -> None:
            note(store, due, self._lease, await attempt(self._home, due))

        for ended in await asyncio.gather(*(one(due) for due in taken), return_exceptions=True):
            if isinstance(ended, BaseException):
                raise ended


async def attempt(home: Home, due: Due) -> DeliveryOutcome:
    """Send one message once."""
    try:
        with Reader.open(home) as reader:
            notice, receivers = notice_of(reader, due, public_url()), reader.channels.receivers()
            account = reader.channels.account_address(due.owner) if due.channel_kind == "email" else None
        if due.channel_kind == "email":
            recipient = checked_recipient(due.address, account, receivers)
            return await apart(lambda: _mail(home, notice, recipient))
        hook = checked_webhook(due.channel_kind, due.address, receivers)
    except ConfigError as error:
        return DeliveryOutcome(
            str(error), refused=not any(problem.field not in ("address", "channel") for problem in error.problems)
        )
    except StoreError as error:
        return DeliveryOutcome(str(error))
    except Exception as bug:
        log.error(
            "a notice can't be composed, %s:\n%s", type(bug).__name__, "".join(traceback.format_tb(bug.__traceback__))
        )
        return DeliveryOutcome(f"Internal error ({type(bug).__name__}). See the runner's log.")
    return await webhook.post(hook, BODIES[due.channel_kind](notice), due.key)


def _mail(home: Home, notice: Notice, recipient: str) -> DeliveryOutcome:
    server = mail_server(home)
    if server is None:
        return DeliveryOutcome("This lab has no mail server. Ask an admin to set one up (docs/notifications.md).")
    return mail.send(server, as_email(notice, server.sender, recipient), recipient)


def note(store: Store, due: Due, lease: str, outcome: DeliveryOutcome) -> None:
    """Record the outcome of an attempt."""
    what = f"{due.kind} {due.run_id or due.sweep_id or due.duel_id or ''}".strip()
    if outcome.delivered:
        store.delivery.note_delivered(due, lease)
        log.info("notified channel %d of %s", due.channel_id, what)
    elif outcome.refused:
        store.delivery.note_refused(due, lease, outcome.error)
        log.warning("channel %d refuses messages and is paused: %s", due.channel_id, outcome.error)
    else:
        store.delivery.note_failed(due, lease, outcome.error, wait_before_next(due.attempts, outcome.wait_s))
        log.info(
            "channel %d could not be notified of %s, attempt %d: %s", due.channel_id, what, due.attempts, outcome.error
        )


def free_dead(store: Store) -> None:
    """Release the messages of dead senders for another attempt."""
    leases = store.delivery.leases()
    if leases and (
        freed := store.delivery.free_leases([each for each in leases if lives(store.db.home, _process_of(each))])
    ):
        log.info("%d notices are sent again: their sender was killed before it recorded the delivery", freed)


def lease_of(process: ProcessIdentity) -> str:
    """Return the lease name of a process."""
    return f"{process.boot_id} {process.pid} {process.started_ticks} {process.pid_namespace or ''}".rstrip()


def _process_of(lease: str) -> ProcessIdentity:
    boot_id, *numbers = lease.split()
    return ProcessIdentity(boot_id, *map(int, numbers))
