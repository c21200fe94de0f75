"""A real Slurm in one folder: munged, slurmctld and one slurmd per node, started without systemd.

Everything runs as the caller, who may be root or an ordinary user. There is no accounting: `squeue` knows the state of
a job until `MinJobAge` seconds after its end.
"""

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from tests.cluster.namespaces import NodeNamespaces
from tests.waiting import wait_until

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
"""Debian keeps the daemons in sbin, which is not on the PATH of an ordinary user."""
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
UP_WITHIN_S = 60.0
ENDED = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "TIMEOUT",
}
"""States after which Slurm keeps nothing of a job running."""

CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={controller}
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobRequeue=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,sched_min_interval=0,bf_interval=2,batch_sched_delay=0
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout={slurmd_timeout_s}
KillWait={kill_wait_s}
MinJobAge={min_job_age_s}
PropagateResourceLimits=NONE
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL GraceTime=0
PartitionName=high Nodes=ALL Default=NO MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""
"""`cred_expire`: a lost node may get the next job after seconds instead of 2 minutes. `config_overrides`: a node has
the cores that its line states, even on a smaller machine."""


class SlurmError(RuntimeError):
    """A Slurm command failed, or a daemon did not start."""


class SlurmLab:
    """A cluster of nodes n1, n2, … on this machine; with `namespaces`, each node in its own network namespace.

    `gpus` are the device files of the GPUs of each node.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int = 2,
        cores: int = 4,
        *,
        namespaces: NodeNamespaces | None = None,
        gpus: Sequence[str] = (),
        slurmd_timeout_s: int = 10,
        kill_wait_s: int = 2,
        min_job_age_s: int = 600,
    ) -> None:
        self.folder = folder.resolve()
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.cores = cores
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": PATH}
        self.pids: dict[str, int] = {}
        self._namespaces = namespaces
        self._gpus = gpus
        self._limits = {
            "slurmd_timeout_s": slurmd_timeout_s,
            "kill_wait_s": kill_wait_s,
            "min_job_age_s": min_job_age_s,
        }
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start all daemons; return when every node is idle."""
        self._prepare()
        try:
            for name in ("munged", "slurmctld", *self.nodes):
                self.restart(name)
            self.wait_for_nodes()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill the daemons, the slurmstepd processes and all processes of jobs."""
        while found := list(self.processes()):
            for process in found:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
            for daemon in self._daemons.values():
                daemon.wait()
            time.sleep(0.02)
        self.pids.clear()
        self._daemons.clear()

    def run(self, *command: str, timeout_s: float = 120) -> str:
        """Run a Slurm command on this cluster; return its standard output."""
        done = subprocess.run(
            command,
            env=self._whole_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        if done.returncode:
            raise SlurmError(f"{' '.join(command)} failed with exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def submit(self, script: str, *options: str) -> str:
        """Submit a shell command as a job that is never requeued; return its id."""
        output = str(self.folder / "job-%j.out")
        return self.run(
            "sbatch", "--parsable", "--no-requeue", f"--output={output}", *options, f"--wrap={script}"
        ).strip()

    def output(self, job: str) -> str:
        """Return what a job of `submit` has written so far."""
        return (self.folder / f"job-{job}.out").read_text()

    def jobs(self) -> dict[str, str]:
        """Return the state of each job that Slurm still knows."""
        rows = self.run("squeue", "--noheader", "--states=all", "--format=%i|%T").split()
        return dict(row.split("|") for row in rows)

    def states(self) -> dict[str, str]:
        """Return the state of each node, such as `idle`, `mixed` or `down*`."""
        rows = self.run("sinfo", "--noheader", "--Node", "--format=%N|%T").split()
        return dict(row.split("|") for row in rows)

    def kill(self, name: str, sent: signal.Signals = signal.SIGKILL) -> None:
        """End a daemon; steps of its jobs survive.

        On SIGTERM slurmctld saves its jobs; on SIGKILL it forgets those of the last seconds.
        """
        self._daemons[name].send_signal(sent)
        self._daemons[name].wait()
        self.pids.pop(name, None)

    def restart(self, name: str) -> None:
        """Start a daemon, after `kill` or for the first time; return when it answers."""
        if name in self.pids:
            self.kill(name)
        with (self.folder / f"{name}.out").open("ab") as output:
            daemon = subprocess.Popen(
                self._command(name),
                env=self._whole_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._daemons[name], self.pids[name] = daemon, daemon.pid
        if name == "munged":
            self._wait_for(self._munge_answers, name)
        elif name == "slurmctld":
            self._wait_for(lambda: self._answers("scontrol", "ping", expected="is UP"), name)

    def restore(self) -> None:
        """Restart the daemons that have ended, cancel all jobs, and wait until every node is idle."""
        for name in self._daemons:
            if self._daemons[name].poll() is not None:
                self.restart(name)
        if left := [job for job, state in self.jobs().items() if state not in ENDED]:
            self.run("scancel", *left)
        self.wait_for_nodes()

    def wait_for_nodes(self) -> None:
        """Return when every node is idle."""
        for name in self.nodes:
            self._wait_for(lambda name=name: self.states()[name] == "idle", name)  # type: ignore[misc]

    def steps(self, node: str) -> list[int]:
        """Return the pids of the slurmstepd processes of a node."""
        return [process.pid for process in psutil.process_iter() if self._is_step(process, node)]

    def processes(self) -> Iterator[psutil.Process]:
        """Yield every process of this cluster: daemons, steps and jobs."""
        mark = f"SLURM_CONF={self.environment['SLURM_CONF']}".encode()
        for process in psutil.process_iter():
            try:
                mine = mark in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if process.pid != os.getpid() and (mine or any(self._is_step(process, node) for node in self.nodes)):
                yield process

    def _is_step(self, process: psutil.Process, node: str) -> bool:
        """Return whether this is a slurmstepd that writes the log of a node: its title overwrites its environment."""
        try:
            opened = Path(f"/proc/{process.pid}/fd").iterdir() if process.name() == "slurmstepd" else ()
            return any(each.readlink() == self.folder / f"{node}.log" for each in opened)
        except (OSError, psutil.Error):
            return False

    def _prepare(self) -> None:
        for name in ("state", *(f"spool-{node}" for node in self.nodes)):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        controller = f"controller({self._namespaces.controller})" if self._namespaces else "localhost(127.0.0.1)"
        addresses = self._namespaces.addresses if self._namespaces else dict.fromkeys(self.nodes, "127.0.0.1")
        port, *ports = free_ports(1 + len(self.nodes))
        text = CONFIGURATION.format(
            folder=self.folder,
            user=pwd.getpwuid(os.getuid()).pw_name,
            controller=controller,
            port=port,
            **self._limits,
        )
        text += f"CommunicationParameters=NoCtldInAddrAny{'' if self._namespaces else ',NoInAddrAny'}\n"
        gres = f"Gres=gpu:{len(self._gpus)} " if self._gpus else ""
        for node, its_port in zip(self.nodes, ports, strict=True):
            text += (
                f"NodeName={node} NodeHostname=localhost NodeAddr={addresses[node]} Port={its_port} "
                f"CPUs={self.cores} RealMemory=16000 {gres}State=UNKNOWN\n"
            )
        if self._gpus:
            text += "GresTypes=gpu\n"
            (self.folder / "gres.conf").write_text("".join(f"Name=gpu File={file}\n" for file in self._gpus))
        Path(self.environment["SLURM_CONF"]).write_text(text)
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # version 2 asks systemd, if it is there
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))

    def _command(self, name: str) -> list[str]:
        configuration = self.environment["SLURM_CONF"]
        if name == "munged":
            files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid"}
            files |= {"log-file": "munged.log", "seed-file": "munge.seed"}
            return ["munged", "--foreground", "--force", *(f"--{key}={self.folder / at}" for key, at in files.items())]
        if name == "slurmctld":
            within = self._namespaces.control(self.folder / "hosts") if self._namespaces else []
            return [*within, "slurmctld", "-D", "-i", "-f", configuration]
        within = self._namespaces.enter(name) if self._namespaces else []
        return [*within, "slurmd", "-D", "-N", name, "-f", configuration]

    def _whole_environment(self) -> dict[str, str]:
        return {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")} | self.environment

    def _munge_answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.folder / "munge.socket")) == 0

    def _answers(self, *command: str, expected: str) -> bool:
        try:
            return expected in self.run(*command)
        except SlurmError:
            return False

    def _wait_for(self, holds: Callable[[], object], name: str) -> None:
        end = time.monotonic() + UP_WITHIN_S
        while not holds():
            code = self._daemons[name].poll()
            if code is not None or time.monotonic() > end:
                said = (self.folder / f"{name}.out").read_text()[-2000:]
                what = f"did not answer within {UP_WITHIN_S:g} s" if code is None else f"ended with exit code {code}"
                raise SlurmError(f"{name} {what}. Its output: {said}")
            time.sleep(0.05)


def missing() -> list[str]:
    """Return the programs of Slurm that this machine lacks."""
    return [name for name in PROGRAMS if not shutil.which(name, path=PATH)]


def free_ports(count: int) -> list[int]:
    """Return ports below the ephemeral range on which nothing listens, at random: other labs look for some as well."""
    found: set[int] = set()
    while len(found) < count:
        port = random.SystemRandom().randrange(15000, 32000)
        with socket.socket() as listener:
            if port not in found and not _refused(listener, port):
                found.add(port)
    return list(found)


def _refused(listener: socket.socket, port: int) -> bool:
    try:
        listener.bind(("", port))
    except OSError:
        return True
    return False


def wait_for_job(lab: SlurmLab, job: str, *states: str) -> str:
    """Return the state of a job once it is one of these, or any final one if none is named."""
    jobs: dict[str, str] = {}

    def holds() -> bool:
        jobs.update(lab.jobs())
        return jobs.get(job) in (states or ENDED)

    wait_until(holds, f"job {job} is {' or '.join(states) or 'over'}")
    return jobs[job]
