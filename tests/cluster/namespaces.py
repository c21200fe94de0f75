"""Network namespaces as separate nodes: one per node, joined by a bridge, so that the link of one node can be cut.

Only root may make them. The machine's own namespace holds the bridge and, on its address, the controller.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
NETWORKS = range(256)


class NodeNamespaces:
    """Nodes n1, n2, … at 10.213.k.2, 10.213.k.3, …; the bridge has 10.213.k.1. `k` is the first that is free."""

    def __init__(self, nodes: int = 2) -> None:
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.controller = ""
        self.addresses: dict[str, str] = {}
        self._network = 0

    def __enter__(self) -> Self:
        self._network = self._add_bridge()
        self.controller = f"10.213.{self._network}.1"
        self.addresses = {node: f"10.213.{self._network}.{last}" for last, node in enumerate(self.nodes, start=2)}
        try:
            self._ip("address", "add", f"{self.controller}/24", "dev", self._bridge)
            self._ip("link", "set", self._bridge, "up")
            for node in self.nodes:
                self._add(node)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def enter(self, node: str) -> list[str]:
        """Return a prefix for a command line that runs on a node, whose name is the host's name there.

        `ip netns exec` would mount another /sys, without the cgroups that slurmd needs.
        """
        return ["nsenter", f"--net=/run/netns/{self._namespace(node)}", *_host(node)]

    def control(self, hosts: Path) -> list[str]:
        """Return a prefix for slurmctld: its host `controller` has the bridge's address, so it listens on no other.

        `hosts` is written, and takes the place of /etc/hosts there.
        """
        hosts.write_text(f"{self.controller} controller\n127.0.0.1 localhost\n")
        return _host("controller", f"mount --bind {shlex.quote(str(hosts))} /etc/hosts; ")

    def cut(self, node: str) -> None:
        """Take the link of a node down: packets from and to it are lost."""
        self._ip("link", "set", self._port(node), "down")

    def heal(self, node: str) -> None:
        """Take the link of a node up again."""
        self._ip("link", "set", self._port(node), "up")

    @property
    def _bridge(self) -> str:
        return f"plab{self._network}"

    def _namespace(self, node: str) -> str:
        return f"{self._bridge}-{node}"

    def _port(self, node: str) -> str:
        return f"{self._bridge}-{node}"

    def _add_bridge(self) -> int:
        """Add a bridge under a name that no other lab has: the kernel refuses a second of the same name."""
        for network in NETWORKS:
            if not Path(f"/sys/class/net/plab{network}").exists():
                try:
                    self._ip("link", "add", f"plab{network}", "type", "bridge")
                except OSError:
                    continue
                return network
        raise OSError("All 256 networks 10.213.k.0/24 are taken: remove bridges plab0 to plab255 that are not in use.")

    def _add(self, node: str) -> None:
        namespace, port = self._namespace(node), self._port(node)
        self._ip("netns", "add", namespace)
        self._ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        self._ip("link", "set", port, "master", self._bridge, "up")
        self._ip("-n", namespace, "address", "add", f"{self.addresses[node]}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            self._ip("-n", namespace, "link", "set", link, "up")

    def _remove(self) -> None:
        for command in (
            *(("link", "delete", self._port(node)) for node in self.nodes),
            *(("netns", "delete", self._namespace(node)) for node in self.nodes),
            ("link", "delete", self._bridge),
        ):
            try:
                self._ip(*command)
            except OSError:
                continue

    @staticmethod
    def _ip(*arguments: str) -> None:
        done = subprocess.run(["ip", *arguments], env=os.environ | {"PATH": PATH}, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"ip {' '.join(arguments)} failed: {done.stderr.strip()}")


def _host(name: str, commands: str = "") -> list[str]:
    script = f'set -e; echo {name} > /proc/sys/kernel/hostname; {commands}exec "$@"'
    return ["unshare", "--uts", "--mount", "sh", "-c", script, name]


def refusal() -> str:
    """Return why this process cannot make namespaces, or nothing."""
    if os.geteuid():
        return "Network namespaces need root: run the tests as root."
    if lacking := [name for name in ("ip", "nsenter", "unshare") if not shutil.which(name, path=PATH)]:
        return f"Network namespaces need {', '.join(lacking)} (Debian: apt install iproute2 util-linux)."
    bridge = ["unshare", "--net", "ip", "link", "add", "trial", "type", "bridge"]
    done = subprocess.run(bridge, env=os.environ | {"PATH": PATH}, capture_output=True, text=True)
    return f"This machine allows no bridge in a network namespace: {done.stderr.strip()}" if done.returncode else ""
