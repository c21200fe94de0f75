"""What a lab's own script costs as a run: whole commands beside the bare command, and event files as they are read.

With --kinds, what happens to eight kinds of commands (bench/scripts): the time of their forms, a sweep of three values,
the first point during a run, and a cancel; --python names an interpreter with torch, torchvision, accelerate, tyro,
hydra-core, lightning, jsonargparse[signatures] and tensorboard; what it lacks is left out, and named.
Run: python -m bench.own_scripts [--rounds 5] [--seconds 20] [--points 400000]
     python -m bench.own_scripts --kinds all --python /path/to/python [--rounds 5] [--parts read form runs]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psutil

from bench.command_start import cost_s
from bench.measuring import CHROMIUM, alternate, chromium, console, ratio, save, served_home, server_of, wait_until
from engine.access import command_link
from engine.home import ROOT, Home
from engine.launch import launch
from engine.recorder import Point
from engine.registry import experiment
from engine.runtime.command.sources.sources import Sources
from engine.script.command import Command, read_command
from engine.script.enrich import enriched
from engine.script.settings import definition_of
from engine.store import Launch, Reader, Store, SweepLaunch
from engine.store.records import ENDED, RankBatch
from engine.sweep.launch import launch_sweep
from engine.system.processes import variable_of
from tests.transfer.readers import events

SCRIPT = """
import sys, time
end = time.process_time() + float(sys.argv[2])
step = 0
while time.process_time() < end:
    step += 1
    total = sum(i * i for i in range(200_000))
    print(f"step {step}: loss {1 / step:.4f}", flush=True)
"""
"""Computes for some seconds of CPU time, and prints a loss about 50 times a second."""


def whole_run_s(home: Home, folder: Path, seconds: float) -> float:
    """Return the seconds from the launch of the script to the recorded end of its run."""
    command = read_command([sys.executable, "script.py", "--seconds", f"{seconds:g}"], folder=str(folder))
    begin = time.perf_counter()
    run_id = launch(home, Launch(command.name, command.defaults(), "bench", command=command), timeout_s=30)

    def ended() -> bool:
        with Reader.open(home) as reader:
            return reader.runs.one(run_id).status in ENDED

    wait_until(ended, 600, f"run {run_id}")
    took = time.perf_counter() - begin
    with Reader.open(home) as reader:
        if (run := reader.runs.one(run_id)).status != "finished":
            raise RuntimeError(run.cause)
    return took


def bare_s(folder: Path, seconds: float) -> float:
    """Return the seconds of the script alone."""
    begin = time.perf_counter()
    words = [sys.executable, "script.py", "--seconds", f"{seconds:g}"]
    subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


TAGS = 4
WRITER = """
import os, sys, time
from pathlib import Path
data = Path(sys.argv[1]).read_bytes()
name = Path(os.environ["PARALLAB_RUN_FOLDER"], f"events.out.tfevents.{int(time.time())}.host.0.0")
part = len(data) // 40 + 1
with open(name, "wb", buffering=0) as file:
    for at in range(0, len(data), part):
        file.write(data[at : at + part])
        time.sleep(0.1)
"""
"""Appends event records to a file of its run's folder during four seconds."""


def reading_rate(folder: Path, data: bytes, points: int) -> float:
    """Return the points per second that the worker's reader takes from a finished event file, in its own process."""
    run_folder = Path(tempfile.mkdtemp(dir=folder))
    (run_folder / "logs").mkdir()
    (run_folder / f"events.out.tfevents.{int(time.time())}.host.0.0").write_bytes(data)
    begin = time.perf_counter()
    found = sum(len(readings) for readings in Sources(run_folder, since=time.time() - 1).rest())
    if found != points:
        raise RuntimeError(f"{found} of {points} points were read")
    return points / (time.perf_counter() - begin)


def delays_ms(home: Home, beside: Sequence[str] = (), for_s: float = 15.0) -> list[float]:
    """Return how long another run's small writes take, 10 a second, beside a run of a command."""
    with Store.open(home) as store:
        config = experiment("hogwild").configure("quick").model_dump(mode="json")
        other = launch(home, Launch("hogwild", config, "bench"), timeout_s=30)
        store.runs.cancel(other, by="bench")  # its points are written all the same
        if beside:
            command = read_command(beside, folder=str(home.path))
            launch(home, Launch(command.name, command.defaults(), "bench", command=command), timeout_s=30)
        found: list[float] = []
        end = time.monotonic() + for_s
        while time.monotonic() < end:
            begin = time.perf_counter()
            store.worker.write(other, [RankBatch(0, [Point("train/loss", len(found), 1.0, 0.0)])])
            found.append(1000 * (time.perf_counter() - begin))
            time.sleep(0.1)
    return found


# ---- Eight kinds of commands ---------------------------------------------------------------------------------------

SCRIPTS = ROOT / "bench" / "scripts"
PARTS = ("read", "form", "runs")


@dataclass(frozen=True)
class Kind:
    """A kind of command as a lab has it."""

    text: str
    over: str
    """The setting that is swept."""
    longer: tuple[str, object]
    """The setting, and its value, with which it runs until it is cancelled."""
    packages: tuple[str, ...] = ("torch",)


KINDS = {
    "torchrun": Kind(
        "torchrun --nproc-per-node 2 ddp.py --data DATA --lr 0.05 --epochs 1 --batch-size 256",
        "lr",
        ("epochs", 1_000),
        ("torch", "torchvision"),
    ),
    "accelerate": Kind(
        "accelerate launch --num_processes 2 --cpu accelerated.py --learning_rate 0.05 --num_train_epochs 2 "
        "--with_tracking",
        "learning_rate",
        ("num_train_epochs", 1_000),
        ("accelerate", "tensorboard"),
    ),
    "tyro": Kind("python typed.py --optim.lr 0.05 --epochs 3", "optim.lr", ("epochs", 1_000), ("tyro",)),
    "hydra": Kind("python configured.py optim.lr=0.05 steps=1000", "optim.lr", ("steps", 1_000_000), ("hydra",)),
    "lightning": Kind(
        "python lit.py fit --config lit.yaml --model.lr 0.05 --trainer.max_epochs 1",
        "model.lr",
        ("trainer.max_epochs", 1_000),
        ("lightning", "jsonargparse", "tensorboard"),
    ),
    "uv": Kind("uv run inline.py --lr 0.05 --steps 2000", "lr", ("steps", 1_000_000), ("uv",)),
    "bash": Kind("LR=0.05 EPOCHS=2 bash run.sh", "LR", ("EPOCHS", 1_000), ("tyro",)),
    "plain": Kind("LR=0.05 EPOCHS=3 python plain.py", "LR", ("EPOCHS", 1_000)),
}
VALUES = (0.02, 0.05, 0.1)


def pasted(kind: Kind) -> str:
    """Return the text of a kind's command."""
    return kind.text.replace("DATA", os.environ.get("PARALLAB_DATA", str(ROOT.parent / "shared" / "data")))


def lacking(kind: Kind, python: str) -> str:
    """Return the first package of a kind that an interpreter lacks; empty if none."""
    words = [python, "-c", "import sys, importlib.util as u; sys.exit(u.find_spec(sys.argv[1]) is None)"]
    return next((each for each in kind.packages if subprocess.run([*words, each]).returncode), "")


def of_kind(kind: Kind, folder: Path, python: str) -> Command:
    """Return a kind's command with its form."""
    return enriched(read_command(pasted(kind), str(folder), python))


def reading(kind: Kind, folder: Path, python: str, rounds: int) -> dict[str, Any]:
    """Return how long the form of a command is read, alone and by `fields` as a whole process."""
    found, alone = of_kind(kind, folder, python), []
    for _ in range(rounds):
        begin = time.process_time()
        definition_of(of_kind(kind, folder, python))
        alone.append(1000 * (time.process_time() - begin))
    command = read_command(pasted(kind), str(folder))
    words = [*(f"{name}={text}" for name, text in command.environment.items()), *command.argv]
    costs = [
        cost_s(["-m", "engine", "fields", "--folder", str(folder), "--", *words], ROOT, os.environ)
        for _ in range(rounds)
    ]
    return {
        "level": found.level,
        "settings": len(found.fields),
        "read_cpu_ms": round(median(alone), 1),
        "fields_cpu_s": round(median(cpu for cpu, _ in costs), 2),
        "fields_wall_s": round(median(wall for _, wall in costs), 2),
    }


WATCH = """() => {
  delete window.pastedAt; delete window.drawnAt;
  document.addEventListener('input', () => { window.pastedAt ??= performance.now(); }, true);
  const look = () => {
    const text = document.body.innerText;
    const launch = [...document.querySelectorAll('button')].find((each) => each.innerText.trim() === 'Launch');
    if (window.pastedAt && text.includes('The command as it runs') && launch && !launch.disabled)
      window.drawnAt = performance.now();
    else requestAnimationFrame(look);
  };
  look();
}"""


def forms(kinds: Collection[str], folder: Path, python: str, rounds: int) -> dict[str, Any]:
    """Return the seconds from Ctrl-V in a warm console to the whole form with Launch enabled, and the CPU seconds of
    the console's server and of Chromium meanwhile, which say what an idle machine would take at most.
    """
    from playwright.sync_api import sync_playwright

    taken: dict[str, list[tuple[float, float, float]]] = {name: [] for name in (*kinds, "")}
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as place, sync_playwright() as playwright:
        home = Home(Path(place) / "home").create()
        with console(home) as address:
            options: dict[str, Any] = {"executable_path": chromium(), "headless": True, "args": CHROMIUM}
            browser = playwright.chromium.launch_persistent_context(f"{place}/profile", **options)
            browser.grant_permissions(["clipboard-read", "clipboard-write"])
            browser.set_default_timeout(120_000)
            page, server = browser.new_page(), server_of(address)
            page.goto(f"{address}/?{command_link.PARAMETER}={command_link.current(home).secret}")
            for name in ["", *(name for _ in range(rounds) for name in kinds)]:  # the first one warms up
                page.goto(f"{address}/launch?command=")
                field = page.get_by_role("textbox", name="Folder")
                field.fill(str(folder))
                field.press("Tab")
                page.wait_for_timeout(2_000)
                page.evaluate(WATCH)
                page.evaluate("text => navigator.clipboard.writeText(text)", pasted(KINDS[name or "tyro"]))
                page.get_by_role("textbox", name="Command", exact=True).focus()
                before = [cpu_s([server]), cpu_s(browsers())]
                page.keyboard.press("Control+V")
                page.wait_for_function("() => window.drawnAt", polling=50)
                spent = [cpu_s([server]) - before[0], cpu_s(browsers()) - before[1]]
                taken[name].append((page.evaluate("window.drawnAt - window.pastedAt") / 1000, *spent))
                print(name, *(round(each, 2) for each in taken[name][-1]), file=sys.stderr, flush=True)
            browser.close()
    columns = ("form_s", "server_cpu_s", "browser_cpu_s")
    return {
        name: {
            column: {"median": round(median(values), 2), "min": round(min(values), 2), "max": round(max(values), 2)}
            for column, values in zip(columns, zip(*taken[name], strict=True), strict=True)
        }
        for name in kinds
    }


def browsers() -> list[psutil.Process]:
    """Return the processes of Chromium below this one."""
    return [each for each in psutil.Process().children(recursive=True) if "chrom" in each.name()]


def cpu_s(processes: Sequence[psutil.Process]) -> float:
    """Return the CPU seconds of processes together."""
    return sum(sum(each.cpu_times()[:2]) for each in processes)


def processes_of(folder: Path) -> Iterator[psutil.Process]:
    """Yield the live processes of a run of a command, by the folder in their environment."""
    for each in psutil.process_iter():
        with suppress(psutil.Error):
            if variable_of(each.pid, "PARALLAB_RUN_FOLDER") == str(folder) and each.status() != psutil.STATUS_ZOMBIE:
                yield each


def swept(home: Home, kind: Kind, command: Command) -> dict[str, Any]:
    """Return what became of a sweep of three values: whether each run had a curve while it ran, and its own value in
    the words or the environment of a real process.
    """
    shared = Launch(command.name, command.defaults(), "bench", command=command)
    sweep_id = launch_sweep(home, SweepLaunch(shared, {kind.over: list(VALUES)}), timeout_s=60)
    live, written, begin = set(), {}, time.monotonic()
    with Reader.open(home) as reader:
        ids = [run.id for run in reader.sweeps.runs(sweep_id)]
        while any(reader.runs.one(each).status not in ENDED for each in ids):
            for each in ids:
                if reader.runs.one(each).status != "running":
                    continue
                if reader.details.summaries(each):
                    live.add(each)
                for process in processes_of(home.run_folder(each)) if each not in written else ():
                    with suppress(psutil.Error):
                        value = str(reader.runs.one(each).config[kind.over])
                        words = [*process.cmdline(), variable_of(process.pid, kind.over)]
                        if any(value in (word, word.partition("=")[2]) for word in words):
                            written[each] = value
            time.sleep(0.3)
        runs = [reader.runs.one(each) for each in ids]
        curves = [
            sorted({each.metric for each in reader.details.summaries(run.id) if not each.metric.startswith("perf/")})
            for run in runs
        ]
    return {
        "statuses": [run.status for run in runs],
        "causes": [run.cause for run in runs if run.status != "finished"],
        "live": len(live),
        "curves": curves,
        "values": [*written.values()],
        "seconds": round(time.monotonic() - begin),
    }


def cancelled(home: Home, kind: Kind, command: Command) -> dict[str, Any]:
    """Return the seconds from a cancel, after the first point, to the recorded end and to the last process's."""
    config = command.defaults() | dict([kind.longer])
    begin = time.monotonic()
    run_id = launch(home, Launch(command.name, config, "bench", command=command), timeout_s=60)
    folder = home.run_folder(run_id)
    with Store.open(home, timeout_s=60) as store:
        wait_until(lambda: bool(store.read.details.summaries(run_id)), 600, f"a point of run {run_id}")
        first = time.monotonic() - begin
        tree = len(list(processes_of(folder)))
        store.runs.cancel(run_id, by="bench")
        begin = time.monotonic()
        wait_until(lambda: store.read.runs.one(run_id).status in ENDED, 120, "the end")
        ended = time.monotonic() - begin
        wait_until(lambda: not list(processes_of(folder)), 120, "the last process to end")
        return {
            "first_point_s": round(first, 1),
            "processes": tree,
            "status": store.read.runs.one(run_id).status,
            "recorded_end_s": round(ended, 1),
            "nothing_left_s": round(time.monotonic() - begin, 1),
        }


def kinds_figures(names: Sequence[str], python: str, rounds: int, parts: Collection[str]) -> dict[str, Any]:
    """Return the figures of kinds of commands."""
    figures: dict[str, Any] = {name: {} for name in names}
    for name in names:
        if package := lacking(KINDS[name], python):
            figures[name] = {"left_out": f"{python} has no {package}"}
    names = [name for name in names if not figures[name]]
    with tempfile.TemporaryDirectory(prefix="parallab-bench-") as place:
        folder = Path(place, "project")
        shutil.copytree(SCRIPTS, folder)
        if "read" in parts:
            for name in names:
                figures[name]["read"] = reading(KINDS[name], folder, python, rounds)
        if "form" in parts:
            for name, found in forms(names, folder, python, rounds).items():
                figures[name]["form"] = found
        if "runs" in parts:
            with served_home() as home:
                for name in names:
                    command = replace(of_kind(KINDS[name], folder, python), python=python)
                    figures[name] |= {part.__name__: part(home, KINDS[name], command) for part in (swept, cancelled)}
                    print(name, figures[name], file=sys.stderr, flush=True)
    return figures


# ---- The benchmark -------------------------------------------------------------------------------------------------


def main() -> None:
    """Measure, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--points", type=int, default=400_000)
    options.add_argument("--kinds", nargs="+", choices=["all", *KINDS])
    options.add_argument("--python", default=sys.executable)
    options.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    chosen = options.parse_args()
    if chosen.kinds:
        names = list(KINDS) if "all" in chosen.kinds else chosen.kinds
        save("kinds_of_commands", kinds_figures(names, chosen.python, chosen.rounds, chosen.parts))
        return
    each = chosen.points // TAGS
    records = (
        events.record(events.event(time.time(), step, events.scalar(f"loss/{tag}", 1 / (step + 1))))
        for step in range(each)
        for tag in range(TAGS)
    )
    data = b"".join(records)
    with served_home() as home, tempfile.TemporaryDirectory(prefix="parallab-bench-") as place:
        folder = Path(place)
        (folder / "script.py").write_text(SCRIPT)
        (folder / "writer.py").write_text(WRITER)
        (folder / "data").write_bytes(data)
        whole_run_s(home, folder, 0.1)  # the first command of a runner also starts the worker that then waits
        seconds = alternate(
            chosen.rounds,
            run=lambda: whole_run_s(home, folder, chosen.seconds),
            bare=lambda: bare_s(folder, chosen.seconds),
        )
        rates = [reading_rate(folder, data, each * TAGS) for _ in range(chosen.rounds)]
        alone = delays_ms(home)
        words = [sys.executable, str(folder / "writer.py"), str(folder / "data")]
        beside = delays_ms(home, words)
    save(
        "own_scripts",
        {
            "whole_command_s": {name: [round(each, 2) for each in values] for name, values in seconds.items()},
            "ratio_to_bare": ratio(seconds["run"], seconds["bare"]),
            "added_s": round(median(a - b for a, b in zip(seconds["run"], seconds["bare"], strict=True)), 2),
            "points_per_second_read": round(median(rates)),
            "p95_ms_of_another_runs_writes": {
                "alone": round(quantiles(alone, n=20)[-1], 1),
                "beside": round(quantiles(beside, n=20)[-1], 1),
            },
        },
    )


if __name__ == "__main__":
    main()
