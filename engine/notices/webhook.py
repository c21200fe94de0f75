"""Send one notice to a webhook: to the checked address, without redirects, in bounded time, reading a bounded response.

Messages of httpx are never passed on, as they can contain the address, which is a secret; its log is disabled for the
same reason.
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
"""Timeouts of the connection, of each read, and of the whole request."""
MOST_BYTES = 64_000
"""Maximum size of a response."""
LONGEST_WAIT_S = 6 * 3600.0
LATER = frozenset({408, 409, 421, 423, 425, 429})
"""Temporary failures, besides all codes from 500 on."""
USER_AGENT = "Parallab"
_WORD = re.compile(r"[a-z]+(?:_[a-z]+){1,5}")
"""Slack's error codes, such as no_service."""


async def post(
    hook: Webhook, body: Mapping[str, Any], key: str, context: ssl.SSLContext | None = None
) -> DeliveryOutcome:
    """Send a body as JSON and return the outcome; never raises for receiver or network errors."""
    try:
        async with asyncio.timeout(WHOLE_S):
            addresses = await apart(lambda: looked_up(hook))
            return await _to_first(hook, addresses, body, key, context or ssl.create_default_context())
    except UnsafeAddress as error:
        return DeliveryOutcome(str(error), refused=True)
    except TimeoutError:
        return DeliveryOutcome(f"{hook.host} did not answer within {WHOLE_S:g} s.")
    except (OSError, UnicodeError):
        return DeliveryOutcome(f"The host name {hook.host} could not be resolved.")


async def _to_first(
    hook: Webhook, addresses: list[str], body: Mapping[str, Any], key: str, context: ssl.SSLContext
) -> DeliveryOutcome:
    """Send to the first reachable address of a host."""
    unreachable = DeliveryOutcome(f"{hook.host} could not be reached: no connection.")
    for address in addresses:
        try:
            return await _send(hook, address, body, key, context)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            certificate = isinstance(_root(error), ssl.SSLError)
            unreachable = DeliveryOutcome(
                f"{hook.host} could not be reached: {'invalid certificate' if certificate else 'no connection'}."
            )
        except httpx.TimeoutException:
            return DeliveryOutcome(f"{hook.host} did not answer within {ANSWER_S:g} s.")
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError):
            return DeliveryOutcome(f"{hook.host} closed the connection or sent an invalid HTTP response.")
    return unreachable


async def _send(
    hook: Webhook, address: str, body: Mapping[str, Any], key: str, context: ssl.SSLContext
) -> DeliveryOutcome:
    """Send to one address; the name is used for the Host header and the certificate check."""
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
    reason = f" ({word})" if _WORD.fullmatch(word) and word not in hook.path else ""
    if 300 <= code < 400:
        return DeliveryOutcome(
            (f"{hook.host} answered {code}: redirects are not followed. Create a channel with the new address."),
            refused=True,
        )
    wait_s = _asked_to_wait(response.headers.get("Retry-After", ""))
    if code in LATER or code >= 500 or code < 200:
        return DeliveryOutcome(f"{hook.host} answered {code}{reason}.", wait_s=wait_s)
    return DeliveryOutcome(
        (
            f"{hook.host} answered {code}{reason}: the receiver no longer accepts messages at this address, or "
            "rejects this kind."
        ),
        refused=True,
    )


def _asked_to_wait(text: str) -> float:
    """Return the seconds of a Retry-After header, a number or a date; 0 for anything else."""
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
    """Return the root cause of an error."""
    seen: set[int] = set()
    while (inner := error.__cause__ or error.__context__) is not None and id(inner) not in seen:
        seen.add(id(inner))
        error = inner
    return error
