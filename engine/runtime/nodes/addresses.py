"""Addresses and interfaces of nodes. Torch-free."""

import socket
import subprocess

import psutil

from engine.errors import RunFailed

PORT_OF_NOTHING = 9
"""Connecting a UDP socket sends nothing: it only finds the route."""


def own_address(other: str, interface: str = "") -> tuple[str, str]:
    """Return this node's address towards another one, and its interface: the given one, or that of the route.

    Raises RunFailed.
    """
    found = psutil.net_if_addrs()
    if interface:
        addresses = [one.address for one in found.get(interface, ()) if one.family == socket.AF_INET]
        if not addresses:
            raise RunFailed(
                f"Node {socket.gethostname()} has no interface '{interface}' with an IPv4 address; it has "
                f"{', '.join(sorted(found))}. Correct interface in clusters.toml."
            )
        return addresses[0], interface
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            any_socket.connect((other, PORT_OF_NOTHING))
        except OSError as error:
            raise RunFailed(f"Node {socket.gethostname()} has no route to {other}: {error.strerror}.") from error
        address = any_socket.getsockname()[0]
    name = next((name for name, all_ in found.items() for one in all_ if one.address == address), "")
    if not name:
        raise RunFailed(f"No interface of node {socket.gethostname()} has the address {address}.")
    return address, name


def slurm_address(node: str) -> str:
    """Return a node's address as Slurm knows it; raises RunFailed."""
    try:
        done = subprocess.run(
            ["scontrol", "show", "node", node, "--oneliner"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise RunFailed(f"scontrol does not say the address of node {node}: {error}") from error
    words = dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)
    try:
        return socket.gethostbyname(words["NodeAddr"])
    except (KeyError, OSError) as error:
        raise RunFailed(f"The address of node {node} is unknown: {words.get('NodeAddr', 'no NodeAddr')}.") from error
