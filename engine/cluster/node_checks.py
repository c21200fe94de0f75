"""Judge what the nodes of a cluster see: a pure function from their answers to findings."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from engine.access.quotas import ALLOW_HOST_NETWORK
from engine.cluster.probe import CodeVersions, NodeAnswer
from engine.cluster.targets import Cluster
from engine.doctor.machine import Finding, State
from engine.errors import counted
from engine.system.network_isolation import LEVEL_WORDS

SKEW_WARN_S, SKEW_FAIL_S = 1.0, 60.0
SLOW_FILE_S = 5.0
"""Delay of files from which on live charts lag visibly."""


@dataclass(frozen=True)
class FileEcho:
    """A file from here that a node has answered with a file of its own."""

    delay_s: float
    """Until the answer was seen here."""
    skew_s: float
    """The node's clock minus this machine's, in the middle of that time."""

    @property
    def certain_skew_s(self) -> float:
        """Return the least difference of the clocks that the delay allows."""
        return max(0.0, abs(self.skew_s) - self.delay_s / 2)


def judge(
    cluster: Cluster, here: CodeVersions, answers: Sequence[NodeAnswer], echoes: Sequence[FileEcho | None]
) -> list[Finding]:
    """Judge the answers of all nodes, with the echo of each."""
    found = [
        _files(cluster, answers, echoes),
        _clocks(answers, echoes),
        _code(cluster, here, answers),
        _python(cluster, here, answers),
        _cores(cluster, answers),
        _gpus(cluster, answers),
        _interfaces(cluster, answers),
    ]
    if len(answers) > 1:
        found += [_ports(cluster, answers), _trust(cluster)]
    return [*found, _data(cluster, answers), _network(answers)]


def _files(cluster: Cluster, answers: Sequence[NodeAnswer], echoes: Sequence[FileEcho | None]) -> Finding:
    silent = [answer.node for answer, echo in zip(answers, echoes, strict=True) if echo is None]
    if silent:
        return Finding(
            "shared files",
            "fail",
            f"A file of this machine in {cluster.shared} did not appear on {_and(silent)} within a minute.",
            "Mount the same file system on both sides, with a shorter attribute cache (NFS: actimeo=3).",
        )
    delay = max(echo.delay_s for echo in echoes if echo)
    text = f"{_all(answers)} and this machine see each other's files in {cluster.shared} within {delay:.1f} s."
    if delay > SLOW_FILE_S:
        cure = "Charts of running runs lag by that. Shorten the attribute cache of the mount (NFS: actimeo=3)."
        return Finding("shared files", "warn", text, cure)
    return Finding("shared files", "ok", text)


def _clocks(answers: Sequence[NodeAnswer], echoes: Sequence[FileEcho | None]) -> Finding:
    known = [(answer.node, echo) for answer, echo in zip(answers, echoes, strict=True) if echo]
    if not known:
        return Finding("clocks", "warn", "Unknown: no node answered a file.", "Repair the shared folder first.")
    apart = max(echo.certain_skew_s for _, echo in known)
    state: State = "fail" if apart > SKEW_FAIL_S else "warn" if apart > SKEW_WARN_S else "ok"
    listed = ", ".join(f"{node} {echo.skew_s:+.1f} s (within {echo.delay_s / 2:.1f} s)" for node, echo in known)
    cure = "Times of runs would be wrong. Synchronize the clocks: timedatectl set-ntp true, on this machine and on each node."  # noqa: E501
    return Finding("clocks", state, f"Compared with this machine: {listed}.", "" if state == "ok" else cure)


def _code(cluster: Cluster, here: CodeVersions, answers: Sequence[NodeAnswer]) -> Finding:
    other = _unlike(answers, lambda answer: answer.code.version != here.version or answer.code.code != here.code)
    if other:
        named = ", ".join(f"{one.node} has {one.code.version} ({one.code.code})" for one in other)
        return Finding(
            "code",
            "fail",
            f"Nodes have other code than this machine, {here.version} ({here.code}), in {cluster.checkout}: {named}.",
            "Install the same version there, or set the key checkout of the cluster to a folder with this code.",
        )
    return Finding("code", "ok", f"{_all(answers)}: version {here.version}, the same code as here ({here.code}).")


def _python(cluster: Cluster, here: CodeVersions, answers: Sequence[NodeAnswer]) -> Finding:
    other = _unlike(answers, lambda one: (one.code.python, one.code.torch) != (here.python, here.torch))
    if other:
        named = ", ".join(f"{one.node} has {_versions(one.code)}" for one in other)
        return Finding(
            "python and torch",
            "warn",
            f"{named}; this machine has {_versions(here)}. Results of runs here and there may differ.",
            f"Install locks/ of this version into the environment of {cluster.python}.",
        )
    return Finding("python and torch", "ok", f"{_all(answers)}: {_versions(here)}, as here.")


def _versions(code: CodeVersions) -> str:
    return f"Python {code.python} with torch {code.torch or 'missing'}"


def _cores(cluster: Cluster, answers: Sequence[NodeAnswer]) -> Finding:
    listed = ", ".join(f"{answer.node} {answer.cores}" for answer in answers)
    if _unlike(answers, lambda answer: answer.cores < cluster.cores):
        return Finding(
            "cores",
            "warn",
            f"A job that asks for {counted(cluster.cores, 'core')} may use fewer: {listed}. Ranks share them and are "
            "slower.",
            "Set the key cores of the cluster to the smallest number, or choose larger nodes with constraint.",
        )
    return Finding("cores", "ok", f"A job that asks for {cluster.cores} may use: {listed}.")


def _gpus(cluster: Cluster, answers: Sequence[NodeAnswer]) -> Finding:
    listed = ", ".join(f"{one.node} {len(one.gpus)}{f' ({one.gpus[0]})' if one.gpus else ''}" for one in answers)
    if short := _unlike(answers, lambda answer: len(answer.gpus) < cluster.gpus):
        masks = ", ".join(f"'{one.visible_gpus}'" for one in short if one.visible_gpus is not None)
        return Finding(
            "GPUs",
            "fail",
            f"A job that asks for {counted(cluster.gpus, 'GPU')} sees fewer: {listed}"
            f"{f'; CUDA_VISIBLE_DEVICES is {masks}' if masks else ''}.",
            "Set the key gpus to what a node has, name a partition with GPUs, and with a container give it the driver "
            "(apptainer: --nv).",
        )
    return Finding("GPUs", "ok", f"Asked for: {cluster.gpus}; seen: {listed}.")


def _interfaces(cluster: Cluster, answers: Sequence[NodeAnswer]) -> Finding:
    listed = "; ".join(
        f"{one.node}: {', '.join(f'{name} {places[0]}' for name, places in one.interfaces.items() if places)}"
        for one in answers
    )
    lost = [one for one in answers if cluster.interface and cluster.interface not in one.interfaces]
    if lost:
        return Finding(
            "interfaces",
            "fail" if cluster.nodes > 1 else "warn",
            f"{_and(one.node for one in lost)} has no interface {cluster.interface}. There are: {listed}.",
            "Set the key interface of the cluster to a name that every node has, or remove it.",
        )
    routes = [(one, one.route) for one in answers if one.route]
    if failed := [f"{one.node}: {route.error}" for one, route in routes if route.error]:
        return Finding(
            "interfaces",
            "fail",
            f"The interface between nodes is unknown. {'; '.join(failed)}.",
            "Set the key interface of the cluster to the interface of the network between nodes.",
        )
    if len({one.host for one in answers}) > 1 and any(route.address.startswith("127.") for _, route in routes):
        return Finding(
            "interfaces",
            "fail",
            f"Nodes would reach each other by loopback, which leads nowhere. There are: {listed}.",
            "Set the key interface, or correct NodeAddr in slurm.conf or the node's line in /etc/hosts.",
        )
    ways = ", ".join(f"{one.node} by {route.interface or 'no interface'} ({route.address})" for one, route in routes)
    return Finding("interfaces", "ok", f"{listed}." + (f" Between nodes: {ways}." if ways else ""))


def _ports(cluster: Cluster, answers: Sequence[NodeAnswer]) -> Finding:
    failed = [f"{one.node}: {one.port_error}" for one in answers if one.port_error]
    if failed:
        return Finding(
            "ports",
            "fail",
            f"No connection to a free port of {answers[0].node}: {'; '.join(failed)}.",
            "Open the ports of net.ipv4.ip_local_port_range between nodes, or set the key interface to a network "
            "without a firewall.",
        )
    others = _and(answer.node for answer in answers[1:])
    return Finding("ports", "ok", f"A connection from {others} to a free port of {answers[0].node} works.")


def _trust(cluster: Cluster) -> Finding:
    if cluster.trusted:
        return Finding("trust", "ok", "trusted = true: everyone who reaches the nodes' network is trusted.")
    return Finding(
        "trust",
        "warn",
        "Ranks on several nodes talk without authentication: whoever reaches the nodes' network could run commands as "
        "this user. Runs over several nodes are refused.",
        "If everyone who reaches that network may be trusted, set trusted = true.",
    )


def _data(cluster: Cluster, answers: Sequence[NodeAnswer]) -> Finding:
    lost = [answer.node for answer in answers if answer.data_sets is None]
    if lost:
        return Finding(
            "data sets",
            "warn",
            f"{cluster.data_folder} does not exist on {_and(lost)}. Runs with digits and environments work; others "
            "try to download.",
            f"Copy the folders of the data sets, such as MNIST, to {cluster.data_folder}, or set the key data.",
        )
    common = sorted(set.intersection(*({*answer.data_sets} for answer in answers if answer.data_sets is not None)))
    text = f"{cluster.data_folder}: {', '.join(['digits', *common])}."
    if common:
        return Finding("data sets", "ok", text)
    cure = f"Copy the folders of the data sets, such as MNIST, to {cluster.data_folder}, or set the key data."
    return Finding("data sets", "warn", f"{text} Others are downloaded, if nodes can reach the internet.", cure)


def _network(answers: Sequence[NodeAnswer]) -> Finding:
    open_nodes = [answer for answer in answers if answer.network == "host"]
    if open_nodes:
        return Finding(
            "network",
            "warn",
            f"Ranks on {_and(one.node for one in open_nodes)} listen on {LEVEL_WORDS['host']}, who could run commands "
            f"as this user: can't create a namespace ({open_nodes[0].network_why}).",
            "Allow network namespaces for ordinary users on the nodes (sysctl user.max_net_namespaces above 0), or use "
            f"whole nodes with exclusive = true. {ALLOW_HOST_NETWORK}",
        )
    return Finding("network", "ok", f"Ranks on one node listen on {LEVEL_WORDS[answers[0].network]}.")


def _unlike(answers: Sequence[NodeAnswer], is_unlike: Callable[[NodeAnswer], bool]) -> list[NodeAnswer]:
    return [answer for answer in answers if is_unlike(answer)]


def _all(answers: Sequence[NodeAnswer]) -> str:
    return _and(answer.node for answer in answers)


def _and(names: Iterable[str]) -> str:
    return ", ".join(names)
