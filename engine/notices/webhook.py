"""Sends one notice to a webhook: to the very address that was looked at, without redirects, in bounded time, reading a
bounded answer.

No sentence of httpx is passed on: they can hold the address, which is a secret. For the same reason its log is silent.
"""

import asyncio
import logging
import re
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from engine.access.receivers import Webhook
from engine.notices.daemon_thread import apart
from engine.notices.dns_guard import UnsafeAddress, looked_up
from engine.notices.outcome import DELIVERED, DeliveryOutcome

for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).addFilter(
        lambda record: False
    )  # logging.config enables a disabled logger again, but keeps its filters

CONNECT_S, ANSWER_S, WHOLE_S = 5.0, 10.0, 20.0
"""Time for a connection, for each step of an answer, and for all of it."""
MOST_BYTES = 64_000
"""So much of an answer is read."""
LONGEST_WAIT_S = 6 * 3600.0
LATER = frozenset({408, 409, 421, 423, 425, 429})
"""Refusals that another try can overcome; so can all from 500 on."""
USER_AGENT = "Parallab"
_WORD = re.compile(r"[a-z]+(?:_[a-z]+){1,5}")
"""What Slack answers where it refuses, such as no_service."""


async def post(
    hook: Webhook, body: Mapping[str, Any], key: str, context: ssl.SSLContext | None = None
) -> DeliveryOutcome:
    """Send a body as JSON and return what became of it; never raises for what a receiver or the way to it can do."""
    try:
        async with asyncio.timeout(WHOLE_S):
            addresses = await apart(lambda: looked_up(hook))
            return await _to_first(hook, addresses, body, key, context or ssl.create_default_context())
    except UnsafeAddress as error:
        return DeliveryOutcome(str(error), refused=True)
    except TimeoutError:
        return DeliveryOutcome(f"{hook.host} did not answer within {WHOLE_S:g} s.")
    except (OSError, UnicodeError):
        return DeliveryOutcome(f"The name {hook.host} could not be looked up.")


async def _to_first(
    hook: Webhook, addresses: list[str], body: Mapping[str, Any], key: str, context: ssl.SSLContext
) -> DeliveryOutcome:
    """Send to the first of a host's addresses that can be reached."""
    unreachable = DeliveryOutcome(f"{hook.host} could not be reached: no connection.")
    for address in addresses:
        try:
            return await _send(hook, address, body, key, context)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            certificate = isinstance(_root(error), ssl.SSLError)
            unreachable = DeliveryOutcome(
                f"{hook.host} could not be reached: "
                f"{'its certificate is not valid for it' if certificate else 'no connection'}."
            )
        except httpx.TimeoutException:
            return DeliveryOutcome(f"{hook.host} did not answer within {ANSWER_S:g} s.")
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError):
            return DeliveryOutcome(f"{hook.host} closed the connection, or answered what is no HTTP.")
    return unreachable


async def _send(
    hook: Webhook, address: str, body: Mapping[str, Any], key: str, context: ssl.SSLContext
) -> DeliveryOutcome:
    """Send to one address; the name goes into the header Host and into the check of the certificate."""
    literal = f"[{address}]" if ":" in address else address
    headers = {"Host": hook.netloc, "User-Agent": USER_AGENT, "Idempotency-Key": key, "Accept-Encoding": "identity"}
    timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S)
    async with httpx.AsyncClient(verify=context, timeout=timeout, follow_redirects=False, trust_env=False) as client:
        request = client.build_request(
            "POST", f"{hook.scheme}://{literal}:{hook.port}{hook.path}", json=dict(body), headers=headers
        )
        request.extensions["sni_hostname"] = hook.host
        response = await client.send(request, stream=True)
        try:
            return _judged(hook, response, await _start_of(response))
        finally:
            await response.aclose()


async def _start_of(response: httpx.Response) -> bytes:
    read = bytearray()
    async for part in response.aiter_raw():
        read += part
        if len(read) >= MOST_BYTES:
            break
    return bytes(read[:MOST_BYTES])


def _judged(hook: Webhook, response: httpx.Response, said: bytes) -> DeliveryOutcome:
    code = response.status_code
    if 200 <= code < 300:
        return DELIVERED
    word = said[:60].decode("ascii", "replace").strip()
    told = f" ({word})" if _WORD.fullmatch(word) and word not in hook.path else ""
    if 300 <= code < 400:
        return DeliveryOutcome(
            (
                f"{hook.host} answered {code}: it sends to another address, which is not followed. Make a channel "
                "with the new one."
            ),
            refused=True,
        )
    wait_s = _asked_to_wait(response.headers.get("Retry-After", ""))
    if code in LATER or code >= 500 or code < 200:
        return DeliveryOutcome(f"{hook.host} answered {code}{told}.", wait_s=wait_s)
    return DeliveryOutcome(
        f"{hook.host} answered {code}{told}: it takes no messages at this address any more, or not such ones.",
        refused=True,
    )


def _asked_to_wait(text: str) -> float:
    """Return the seconds of a header Retry-After, which is a number or a date; 0 where it is neither."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            at = parsedate_to_datetime(text)
        except (ValueError, TypeError):
            return 0.0
        seconds = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
    return min(max(seconds, 0.0), LONGEST_WAIT_S) if seconds == seconds else 0.0


def _root(error: BaseException) -> BaseException:
    """Return what an error began with."""
    seen: set[int] = set()
    while (inner := error.__cause__ or error.__context__) is not None and id(inner) not in seen:
        seen.add(id(inner))
        error = inner
    return error
