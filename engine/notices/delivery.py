"""Send due notices, in a thread of the runner with its own store connection: it never delays a run, and its errors stay
here.

All state is in the store, so the next runner continues. A message can arrive twice (if its sender was killed before
recording the delivery), with the same key; it is never lost.
"""

import logging
import random
import re
import threading
import traceback
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any
from urllib.parse import quote, urlencode

from engine.access.channels import lab_channel
from engine.errors import EngineError
from engine.home import Home
from engine.notices.notice import Notice, notice_of
from engine.notices.public_url import public_url
from engine.store import Reader, Store
from engine.store.notices.outbox import Message
from engine.store.store import StoreThread

log = logging.getLogger(__name__)
for _name in ("apprise", "urllib3"):  # below warnings, their logs contain a channel's URL
    logging.getLogger(_name).setLevel(logging.WARNING)
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False

LOOK_S = 0.5
"""Polling interval."""
FIRST_S, LONGEST_S = 5.0, 4 * 3600.0
"""Wait after the first failed attempt, doubled after each further one up to the maximum."""
ANSWER_S, WHOLE_S = 10.0, 20.0
"""Timeouts of each read, and of a whole attempt."""
LONGEST_ERROR = 300


def wait_before_next(attempts: int) -> float:
    """Return the seconds before the next attempt: exponential backoff with jitter."""
    return min(LONGEST_S, FIRST_S * 2.0 ** min(attempts - 1, 30)) * random.uniform(0.6, 1.0)


def delivery_thread(home: Home) -> StoreThread:
    """Return the thread that delivers the messages of one home."""
    return StoreThread(home, "notices", lambda store: lambda: 0.0 if deliver(store) else LOOK_S)


def deliver(store: Store) -> int:
    """Send due messages, one per subscription and several subscriptions concurrently; return the number of attempts."""
    if not store.delivery.has_due():
        return 0
    waiting = {message.id: message for message in store.delivery.take_due()}
    taken, ends, results = len(waiting), monotonic() + WHOLE_S, SimpleQueue[tuple[Message, str]]()

    def send_one(message: Message) -> None:
        results.put((message, attempt(store.db.home, message)))

    for message in waiting.values():  # daemons, because one may hang when the runner stops
        threading.Thread(target=send_one, args=[message], name="notice", daemon=True).start()
    while waiting:
        try:
            message, error = results.get(timeout=max(0.0, ends - monotonic()))
        except Empty:
            message, error = next(iter(waiting.values())), f"The channel did not answer within {WHOLE_S:g} s."
        if waiting.pop(message.id, None):  # not one that was given up just now and ended after all
            note(store, message, error)
    return taken


def attempt(home: Home, message: Message) -> str:
    """Send one message once; return why it was not delivered, empty if it was."""
    try:
        with Reader.open(home) as reader:
            channel = lab_channel(home, message.channel)
            account = reader.subscriptions.account_address(message.owner) if channel.takes == "email" else None
            url = channel.url_to(channel.checked_address(message.address, account))
            notice = notice_of(reader, message, public_url())
        return send(url, notice, {"kind": message.kind, "at": message.made_at, **message.ids})
    except EngineError as error:
        return str(error)
    except Exception as bug:  # its words may hold the URL
        trace = "".join(traceback.format_tb(bug.__traceback__))
        log.error("a notice can't be sent, %s:\n%s", type(bug).__name__, trace)
        return f"Internal error ({type(bug).__name__}). See the runner's log."


def send(url: str, notice: Notice, about: dict[str, str]) -> str:
    """Send a notice to a URL of apprise, with fields for programs; return why it was not delivered, empty if it was."""
    import apprise  # it takes 0.4 s, and 25 MB

    kind = url.partition("://")[0].removesuffix("s")
    options = {"rto": str(ANSWER_S)}
    if kind == "mailto":
        options |= {"format": "text", "+Auto-Submitted": "auto-generated"}
    elif kind == "json":
        fields = {"id": notice.key, "bad": str(notice.bad).lower(), "link": notice.link, **about}
        options |= {"+Idempotency-Key": notice.key, **{f":{name}": value for name, value in fields.items()}}
    plain = kind in ("mailto", "json")
    behaviour: dict[str, Any] = {"http_redirects": False, "service_timeout": 0, "storage_mode": "memory"}
    asset = apprise.AppriseAsset(app_id="Parallab", app_url=notice.link, image_url_mask="", **behaviour)
    whole = f"{url}{'&' if '?' in url else '?'}{urlencode(options, quote_via=quote)}"
    service = apprise.Apprise.instantiate(whole, asset=asset)
    if service is None:
        return "apprise does not accept the channel's URL. Ask an admin to correct it in notices.toml."
    lab = apprise.Apprise(asset=asset)
    lab.add(service)
    with lab.notify(
        title=notice.subject if plain else _unmarked(notice.subject),
        body=notice.text if plain else _unmarked(notice.text),
        notify_type=apprise.NotifyType.FAILURE if notice.bad else apprise.NotifyType.SUCCESS,
        body_format=apprise.NotifyFormat.TEXT,
    ) as result:
        said = "" if result else " ".join(entry.message for entry in result.logs()) or "No reason was given."
    said = _without_secrets(said, url)[: LONGEST_ERROR - 1]
    return said if not said or said.endswith((".", "!", "?")) else f"{said}."


def _unmarked(text: str) -> str:
    """Return a text with zero-width spaces in what chats would read as a mention or a link, as a name can hold one."""
    return re.sub(r"[@!](?=\w)|\](?=\()", "\\g<0>\u200b", text)


def _without_secrets(text: str, url: str) -> str:
    """Return a text without the parts of a URL that can be secret: all but its scheme and names of hosts."""
    for part in re.split(r"[/:?&=@]+", url)[1:]:
        text = text.replace(part, "…") if len(part) > 5 and "." not in part else text
    return text


def note(store: Store, message: Message, error: str) -> None:
    """Record the outcome of an attempt."""
    what = " ".join([message.kind, *message.ids.values()])
    if not error:
        store.delivery.note_delivered(message)
        log.info("notified subscription %d of %s", message.subscription_id, what)
        return
    store.delivery.note_failed(message, error, wait_before_next(message.attempts))
    tried = (message.subscription_id, what, message.attempts, error)
    log.info("subscription %d could not be notified of %s, attempt %d: %s", *tried)
