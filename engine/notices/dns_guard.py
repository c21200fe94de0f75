"""Where a webhook's name leads: the addresses it has at this moment, none of them inside a network that the lab did not
mean.

A name that was fine when it was listed can lead elsewhere later, so this is asked right before each message, and the
connection is made to the very address that was looked at.
"""

import ipaddress
import socket
from collections.abc import Sequence

from engine.access.receivers import Webhook
from engine.errors import EngineError

IP = ipaddress.IPv4Address | ipaddress.IPv6Address
MOST = 4
"""So many addresses of a name are tried."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_OF_A_NETWORK = ipaddress.IPv6Network("64:ff9b:1::/48")
_SPECIAL = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "100:0:0:1::/64", "3fff::/20", "5f00::/16"))
)
"""Ranges of IANA's registries of special addresses that not every Python knows: assignments of protocols, the relays of
6to4, documentation, segments.
"""
_METADATA = tuple(
    map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
"""Where clouds tell a machine its secrets, besides the link-local address: nobody lists these as a receiver."""


class UnsafeAddress(EngineError):
    """A name leads to an address that no notice may be sent to."""


def looked_up(hook: Webhook) -> list[str]:
    """Return the addresses to connect to, in the resolver's order; raises UnsafeAddress, OSError where the name is
    unknown.
    """
    found = socket.getaddrinfo(hook.host, hook.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    addresses = list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))
    refuse_unsafe(hook, addresses)
    return addresses[:MOST]


def refuse_unsafe(hook: Webhook, addresses: Sequence[str]) -> None:
    """Raise UnsafeAddress where one of a name's addresses is not out in the world, or for a listed internal receiver
    not even in a network.
    """
    allowed = _is_of_a_network if hook.internal else _is_public
    if not addresses or not all(allowed(ipaddress.ip_address(each)) for each in addresses):
        where = "no address that anything can be sent to" if hook.internal else "an address inside a private network"
        raise UnsafeAddress(
            f"The name {hook.host} leads to {where}, so nothing was sent. An admin can list an internal "
            "receiver with its port."
        )


def _is_public(address: IP) -> bool:
    inner = _carried(address)
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:  # Python takes that range itself for reserved
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
    """Say whether an admin may have meant this address: loopback and private ones are fine, link-local ones (a cloud's
    own service) never are.
    """
    real = _carried(address) or address
    return real not in _METADATA and not (
        real.is_link_local or real.is_multicast or real.is_unspecified or (real.is_reserved and not real.is_loopback)
    )


def _carried(address: IP) -> ipaddress.IPv4Address | None:
    """Return the address of version 4 that one of version 6 leads to, by mapping, 6to4, Teredo or NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
