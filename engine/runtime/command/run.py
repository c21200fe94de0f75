"""One run of a command in its worker: from its start to a status with its cause. Torch-free."""

import json
import logging
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine.commands.kept_files import FOLDER as FILES
from engine.errors import RankFailed, StoreBusy, StoreFull
from engine.hang.stacks import last_stacks
from engine.home import Home
from engine.recorder import Point
from engine.runtime.command import snapshot
from engine.runtime.command.cause import cause_of, rank_exits
from engine.runtime.command.process import CommandProcess, forget_pids
from engine.runtime.command.sources.readings import PRINTED, Reading, by_rank
from engine.runtime.command.sources.sources import Sources
from engine.runtime.command.standstill import StandstillWatch
from engine.runtime.command.start import Start, prepared
from engine.runtime.usage import Disturbance, Telemetry
from engine.runtime.worker.progress_writer import ProgressWriter
from engine.runtime.worker.session import Execution, disturbance_of
from engine.runtime.worker.sink import Sink, StopRequested, StopSwitch
from engine.script.command import Command
from engine.script.lengths import LengthProgress, ScriptPace
from engine.script.settings import plain
from engine.store import Store
from engine.store.records import RankBatch, RankRow, RankState, Run
from engine.store.timestamps import now
from engine.store.worker_writes import StoreSink
from engine.system.confinement import confinement
from engine.system.out_of_memory import kernel_kills
from engine.system.processes import describe_exit
from engine.system.run_files import tail
from engine.trace.health import BAD, Verdict

log = logging.getLogger(__name__)

GRACE_S = 2.5
"""Seconds that a command has to exit after SIGTERM; the runner kills the worker `STOP_DEADLINE_S` after it."""
LAST_S = 10.0
"""Seconds after the end of a command for which its code and its interpreter are still looked at."""
INTERPRETER_S = 10.0
"""Seconds after the start from which on a command counts as none that Python interprets."""
WATCH_S, HEALTH_S = 1.0, 5.0
"""Interval of looks for ranks that show no sign of life, and of recording what was seen."""
ENDED = "The run was ended, as its option says for a run that hangs."
NOTE_S, MOST_NOTED = 1.0, 300
"""Interval in which new metrics are recorded with their sources, and how many of them."""
LOOK_S = 0.05
"""Interval of looks for a request to stop."""


def execution_of(store: Store, run: Run, folder: Path, began: float, switch: StopSwitch) -> "CommandExecution":
    """Return the execution of a run with a command."""
    assert run.command is not None
    sink = StoreSink(store.db, run.id)
    known = (run.command, run.config, run.id, folder, run.gpus, sink, switch, disturbance_of(run), began)
    return CommandExecution(*known, end_when_hung=run.terms.end_when_hung)


@dataclass
class CommandExecution(Execution):
    """A run of a command; `progress` is there once it has started."""

    command: Command
    values: Mapping[str, Any]
    """The values of its fields."""
    run_id: int
    folder: Path
    """The run's folder."""
    gpus: Sequence[int | str] | None
    """The GPUs that it sees; None leaves that to its environment."""
    sink: Sink
    switch: StopSwitch
    disturbance: Disturbance
    began: float
    end_when_hung: bool = False
    """Whether the run fails when none of its ranks shows a sign of life for long."""
    lab: Home = field(default_factory=Home.find)
    """The home that its processes don't see, but for the run's folder and the data sets."""
    hidden: Sequence[Path] = ()
    """Further folders that they don't see."""
    progress: "CommandProgress | None" = None
    looked_beside: bool = False
    """Whether its code and its interpreter are looked at."""

    def run(self) -> None:
        """Run the command; raises RunFailed where it can't start, RankFailed where it fails, StopRequested."""
        if self.switch.is_requested():
            raise StopRequested("The run was asked to stop.")
        logs = self.folder / "logs"
        for each in (logs, self.folder / FILES):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        start = prepared(self.command, self.values, self.run_id, self.folder, self.gpus)
        first = "launcher" if self.command.launcher == "torchrun" else "script"
        confined = confinement(self.lab, self.folder, start.folder, self.hidden)
        process, kills = CommandProcess(start, self.folder, first, confined), kernel_kills()
        since, zero = time.time(), time.monotonic()
        process.begin()
        sources = Sources(self.folder, start.folder, since=since, pids=lambda: process.pids)
        process.is_read = sources.has_read
        self.progress = progress = CommandProgress(self, process, sources)
        ended: int | None = None
        try:
            progress.begin(zero)
            self.disturbance.begin([process.pid])
            self._note(start, process)
            if start.interpreter:
                self._look_beside(process)
            ended = self._until_ended(process, progress)
        finally:
            self._finish(process, progress, ended)
        if ended:
            raise self._failure(process, progress, ended, kills)

    @property
    def execution_time_s(self) -> float | None:
        """Return how long the command ran; None if it did not start."""
        return self.progress.execution_time_s if self.progress else None

    def _note(self, start: Start, process: CommandProcess) -> None:
        """Record what runs, and have its code looked at beside it."""
        log.info("%s (pid %d) in %s", " ".join(start.argv), process.pid, start.folder)
        self.sink.log_file(process.log_name, f"logs/{process.log_name}.log")
        names = [*self.command.environment, *(each.name for each in self.command.fields if each.style == "environment")]
        about = {"argv": list(start.argv), "folder": str(start.folder), "environment": sorted(set(names))}
        self.sink.note("command", about)
        self.sink.note("confinement", str(process.confinement))

    def _look_beside(self, process: CommandProcess, *, at_once: bool = False) -> None:
        """Have the command's code and its interpreter looked at, once; the interpreter may be known only later."""
        if self.looked_beside:
            return
        interpreter = process.start.interpreter or process.interpreter()
        if interpreter or at_once:
            self.looked_beside = True
            asked = {
                "folder": str(process.start.folder),
                "run_folder": str(self.folder),
                "interpreter": interpreter,
                "environment": dict(process.start.environment),
            }
            process.look_beside([sys.executable, "-I", str(snapshot.__file__)], json.dumps(asked))

    def _until_ended(self, process: CommandProcess, progress: "CommandProgress") -> int:
        """Return the command's exit code, minus the signal that killed it."""
        next_look, until = time.monotonic() + WATCH_S, time.monotonic() + INTERPRETER_S
        while (code := process.wait(0.0 if progress.sources.behind else LOOK_S)) is None:
            if self.switch.is_requested():
                raise StopRequested("The run was asked to stop.")
            progress.write_if_due()
            progress.watch(self.end_when_hung)
            if not self.looked_beside and time.monotonic() >= next_look:
                next_look = time.monotonic() + WATCH_S
                self._look_beside(process, at_once=next_look > until)
            self._note_found(process)
        return code

    def _note_found(self, process: CommandProcess, within_s: float | None = None) -> None:
        for name, value in process.found_beside(within_s).items():
            self.sink.note(name, value)

    def afterwards(self) -> None:
        """Record what is still looked at: nobody waits for it."""
        if self.progress:
            self._note_found(self.progress.process, 0.0 if self.switch.requested else LAST_S)

    def _finish(self, process: CommandProcess, progress: "CommandProgress", code: int | None) -> None:
        """End what is left of the command, and store the rest of what it recorded; on every exit path."""
        self._look_beside(process, at_once=code is not None)
        if code is None:
            left = process.end(GRACE_S)
        else:
            names, left = process.end_rest()
            if names:
                sentence = f"The command ended and left processes behind, which were ended: {', '.join(names)}."
                log.info("%s", sentence)
                self.sink.event("processes ended", sentence)
        if left:
            self.sink.event("process outlived kill", f"These are still running: {', '.join(left)}.")
        progress.end(code)
        progress.read_all()
        progress.write(final=True)
        forget_pids(self.folder)
        progress.note_sources()
        for sentence in progress.sources.left_out:
            log.warning("%s", sentence)

    def _failure(
        self, process: CommandProcess, progress: "CommandProgress", code: int, kills: int | None
    ) -> RankFailed:
        """Return the failure, with the last lines of the rank that failed first."""
        exits = rank_exits(tail(process.logs / f"{process.log_name}.log", 40_000))
        role, pid, how = process.log_name, process.pid, code
        if exits and exits[0].rank in progress.seen:
            role, pid, how = progress.seen[exits[0].rank].role, exits[0].pid, exits[0].code
        words = tail(process.logs / f"{role}.log") or tail(process.logs / f"{process.log_name}.log")
        number = f"{role} (pid {pid})"
        sentence = f"{number[0].upper()}{number[1:]} {describe_exit(how)}.{cause_of(words, how, process.start, kills)}"
        return RankFailed(role, sentence, words)


@dataclass
class SeenRank:
    """One rank of a command, or the command itself if it has no ranks."""

    rank: int
    role: str
    pid: int
    device: str
    state: RankState = "running"
    exit_code: int | None = None
    last_step: int | None = None
    heard_at: str | None = None
    memory_mb: float | None = None
    cpu_percent: float | None = None

    def row(self) -> RankRow:
        """Return the rank as stored."""
        return RankRow(
            self.rank,
            self.role,
            self.pid,
            self.device,
            self.state,
            self.last_step,
            self.heard_at,
            self.exit_code,
            self.memory_mb,
            self.cpu_percent,
        )


class CommandProgress(ProgressWriter):
    """The progress of a command, from its sources and its processes."""

    def __init__(self, run: CommandExecution, process: CommandProcess, sources: Sources) -> None:
        super().__init__(run.folder, run.began, run.sink, run.disturbance, Telemetry([]))
        self.process, self.sources = process, sources
        self.device = "cuda" if run.gpus else "cpu"
        self.seen: dict[int, SeenRank] = {}
        self.logged: set[str] = {process.log_name}
        self.phases: dict[int | None, dict[str, float]] = {}
        self.readings: list[Reading] = []
        """Readings that are not written yet."""
        self.polled_at = self.noted_at = 0.0
        self.standstill, self.verdict = StandstillWatch(run.folder), Verdict("STARTING")
        self.watched_at = self.health_at = 0.0
        self.by_length, self.pace = LengthProgress(run.command.defaults() | dict(run.values)), ScriptPace()
        self.logged_step: int | None = None
        """The last step that the script logged, other than by printing."""
        self.noted = 0
        """Number of recognised metrics that are recorded."""
        if not process.start.is_spread:
            self._see(0, process.log_name, process.pid)

    def _see(self, rank: int, role: str, pid: int) -> None:
        known = self.seen.get(rank)
        if known is None or known.role != role:
            self.seen[rank] = SeenRank(rank, role, pid, self.device, last_step=known.last_step if known else None)
        else:
            known.pid = pid
        if role not in self.logged:
            self.sink.log_file(role, f"logs/{role}.log")
            self.logged.add(role)

    def look(self) -> None:
        """Find the ranks and their processes."""
        ranks = self.process.ranks(is_rough=True)
        for rank, pids in ranks.items():
            self._see(rank, f"rank {rank}", pids[0])
        every = self.process.live
        self.disturbance.include(every)
        trees = {pids[0]: pids for pids in ranks.values()}
        if not ranks and (alone := self.seen.get(0)):
            trees = {alone.pid: every}
        self.telemetry.follow(trees)

    def write_if_due(self) -> None:
        """Look for new readings when they are due, and write what is new; each second write in any case."""
        if self.sources.behind or time.monotonic() - self.polled_at >= self.interval_s:
            self.readings += self.sources.poll()
            self.polled_at = time.monotonic()
            if self.readings or self.telemetry.due():
                self.write()

    def watch(self, end_when_hung: bool) -> None:
        """Look each second for ranks that show no sign of life; raises RankFailed for a hung run that is to end."""
        if not self.seen or time.monotonic() - self.watched_at < WATCH_S:
            return
        self.watched_at = time.monotonic()
        verdict, before = self.standstill.look(list(self.seen.values())), self.verdict
        is_new = (verdict.state, verdict.rank, verdict.cause) != (before.state, before.rank, before.cause)
        with suppress(StoreBusy, StoreFull):  # it is recorded at the next look
            if is_new and verdict.state in BAD:
                self.sink.standstill(verdict.state.lower(), verdict.sentence)
            if self.standstill.health and (is_new or time.monotonic() - self.health_at >= HEALTH_S):
                self.sink.health(self.standstill.health)
                self.health_at = time.monotonic()
            self.verdict = verdict
        if verdict.state == "HUNG" and end_when_hung:
            stacks = "\n".join(f"{role}:\n{last_stacks(self.folder, role)}" for role in self.logged)
            raise RankFailed(verdict.rank, f"{verdict.sentence} {ENDED}", stacks)

    def read_all(self) -> None:
        """Read and write what the sources still have after the command's end."""
        while True:
            self.readings += self.sources.poll(final=True)
            if not self.sources.behind:
                break
            self.write()

    def note_sources(self) -> None:
        """Record which metrics were recognised and where, so that a person can see it."""
        found = self.sources.recognised
        self.noted, self.noted_at = len(found), time.monotonic()
        shown = {name: asdict(found[name]) for name in list(found)[:MOST_NOTED]}
        self.sink.note("recognised", shown)
        if given := self.sources.hyperparameters:
            self.sink.note("hyperparameters", {name: plain(value) for name, value in given.items()})

    def note_stored(self, batches: Sequence[RankBatch], final: bool) -> None:
        """Record new metrics; a script keeps its checkpoints itself."""
        if not final and len(self.sources.recognised) != self.noted and time.monotonic() - self.noted_at > NOTE_S:
            self.note_sources()

    def collect(self, final: bool) -> tuple[list[RankBatch], list[Point]]:
        """Return new readings, those of ranks as batches."""
        if self.telemetry.due() and not final:
            self.look()
        readings, self.readings = self.readings, []
        for each in readings:
            if each.source != PRINTED:
                self.logged_step = max(self.logged_step or 0, each.point.step)
        of_ranks, at = by_rank(readings), now()
        for rank, points in of_ranks.items():
            if seen := self.seen.get(rank or 0):
                seen.last_step = max(seen.last_step or 0, *(point.step for point in points))
                seen.heard_at = at
        phases, self.phases = self.phases, self.sources.phases
        changed = {rank: each for rank, each in self.phases.items() if each != phases.get(rank)}
        ranks = sorted({rank or 0 for rank in changed} | {rank for rank in of_ranks if rank is not None})
        batches = [
            RankBatch(
                rank,
                of_ranks.get(rank, ()),
                {**(changed.get(None, {}) if rank == 0 else {}), **changed.get(rank, {})},
                last_step=self.seen[rank].last_step if rank in self.seen else None,
            )
            for rank in ranks
        ]
        return batches, of_ranks.get(None, [])

    def rows(self) -> list[RankRow]:
        """Return the ranks as they are stored."""
        return [each.row() for each in self.seen.values()]

    def totals(self) -> tuple[int, int, str]:
        """Return how far the script says it is, or else how far it is by the setting that is its length."""
        found = self.sources.progress
        if not found[1]:
            step, epoch = self.sources.position
            found = self.by_length.at(self.logged_step if step is None else step, epoch)
        elif (epoch := self.sources.epoch_of_progress) is not None:
            found = self.by_length.over_epochs(found, epoch)
        self.pace.add(found, time.monotonic())
        return found

    def rate(self, done: int, elapsed_s: float) -> float | None:
        """Return the pace between the first and the last progress: before that, the script only starts."""
        return self.pace.per_second

    def note_use(self) -> None:
        """Take each rank's use of the machine, of its whole process tree."""
        for each in self.seen.values():
            each.memory_mb, each.cpu_percent = self.telemetry.of(each.pid)

    @property
    def log_names(self) -> Sequence[str]:
        """Return only the worker's own: the others are kept short all the time."""
        return ("worker",)

    def end(self, code: int | None) -> None:
        """Note how the ranks ended; None if the command was ended."""
        if self.zero is not None:
            self.execution_time_s = (self.process.ended_at or time.monotonic()) - self.zero
        if not self.seen:
            self._see(0, self.process.log_name, self.process.pid)
        listed = rank_exits(tail(self.process.logs / f"{self.process.log_name}.log", 40_000))
        exits, root = {each.rank: each.code for each in listed}, listed[0].rank if listed else 0
        for each in self.seen.values():
            is_first = each.pid == self.process.pid
            each.exit_code = code if is_first or code == 0 else exits.get(each.rank, self.process.orphans.get(each.pid))
            was_ended = each.exit_code is None or (each.exit_code == -signal.SIGTERM and each.rank != root)
            each.state = "ended" if was_ended else "failed" if each.exit_code else "done"
