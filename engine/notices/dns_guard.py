"""Resolve a webhook's host and refuse addresses in networks that are not allowed.

A name can resolve differently later (DNS rebinding), so it is resolved right before each message, and the connection
uses exactly the checked address.
"""

import ipaddress
import socket
from collections.abc import Sequence

from engine.access.receivers import Webhook
from engine.errors import EngineError

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
MOST = 4
"""Maximum number of addresses to try."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_OF_A_NETWORK = ipaddress.IPv6Network("64:ff9b:1::/48")
_SPECIAL = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "100:0:0:1::/64", "3fff::/20", "5f00::/16"))
)
"""Ranges of IANA's special-purpose address registries that some Python versions lack: protocol assignments, 6to4
relays, documentation, segment routing.
"""
_METADATA = tuple(
    map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
"""Metadata services of clouds, besides the link-local address: never valid as a receiver."""


class UnsafeAddress(EngineError):
    """A host name resolves to an address that notices must not go to."""


def looked_up(hook: Webhook) -> list[str]:
    """Return the addresses to connect to, in resolver order; raises UnsafeAddress, OSError for an unknown name."""
    found = socket.getaddrinfo(hook.host, hook.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    addresses = list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))
    refuse_unsafe(hook, addresses)
    return addresses[:MOST]


def refuse_unsafe(hook: Webhook, addresses: Sequence[str]) -> None:
    """Raise UnsafeAddress unless all addresses are public, or, for an internal receiver, unicast addresses."""
    allowed = _is_of_a_network if hook.internal else _is_public
    if not addresses or not all(allowed(ipaddress.ip_address(each)) for each in addresses):
        where = "no usable address" if hook.internal else "an address in a private network"
        raise UnsafeAddress(
            f"Not sent: {hook.host} resolves to {where}. An admin can list an internal receiver with its port."
        )


def _is_public(address: IP) -> bool:
    inner = _carried(address)
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:  # Python classifies that range as reserved
            return inner is not None and _is_public(inner)
        if address.is_site_local or address in _NAT64_OF_A_NETWORK:
            return False
    return all(
        each.is_global and not (each.is_multicast or each.is_reserved or _is_special(each))
        for each in (address, inner)
        if each is not None
    )


def _is_special(address: IP) -> bool:
    return address in _METADATA or any(address in each for each in _SPECIAL)


def _is_of_a_network(address: IP) -> bool:
    """Return whether an internal receiver may have this address: loopback and private ones yes, link-local ones (cloud
    metadata) never.
    """
    real = _carried(address) or address
    return real not in _METADATA and not (
        real.is_link_local or real.is_multicast or real.is_unspecified or (real.is_reserved and not real.is_loopback)
    )


def _carried(address: IP) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address embedded in an IPv6 one, by mapping, 6to4, Teredo or NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
