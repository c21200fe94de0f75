"""Cost of a duel before launch: its number of runs and their total run time, from comparable runs on this machine.
Torch-free.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from engine.cluster.targets import machine_for
from engine.duel.plan import DuelCell, judging_cells, tuning_cells
from engine.duel.spec import Duel
from engine.launch_options import USUAL, LaunchOptions
from engine.queue.estimates import History
from engine.store.store import Reader
from engine.system.machine import Machine, demand

START_S = 4.0
"""Start-up and shutdown time of a run, in addition to a budget of seconds."""


@dataclass(frozen=True)
class DuelOutlay:
    """Estimated cost of a duel."""

    tuning: int
    judging: int
    seconds: float | None
    """Total run time in seconds; None where some strategy has no comparable run."""
    unknown: tuple[str, ...]
    """Strategies without comparable runs."""
    cut: tuple[str, ...] = ()
    """Strategies whose runs are expected to reach their time limit before they spend the budget."""


def outlay(store: Reader, duel: Duel, terms: LaunchOptions = USUAL) -> DuelOutlay:
    """Return the estimated cost; raises ConfigError for an invalid config, DeviceError if no run of it can start there.

    The runs of a cluster have no estimate: comparable ones ran on this machine.
    """
    tune, judge = tuning_cells(duel), judging_cells(duel, [duel.rates[0]] * len(duel.strategies))
    firsts = [next(cell for cell in tune if cell.strategy == place) for place in range(len(duel.strategies))]
    each = _seconds(store, duel, firsts, machine_for(store.db.home, terms))
    limit_s = terms.max_run_time_s or inf
    unknown = tuple(one.name for one, known in zip(duel.strategies, each, strict=True) if known is None)
    whole = None if unknown else sum(min(each[cell.strategy] or 0.0, limit_s) for cell in (*tune, *judge))
    cut = tuple(
        one.name for one, known in zip(duel.strategies, each, strict=True) if known is not None and known > limit_s
    )
    return DuelOutlay(len(tune), len(judge), whole, unknown, cut)


def _seconds(store: Reader, duel: Duel, firsts: Sequence[DuelCell], here: Machine) -> list[float | None]:
    """Return the estimated seconds of one run per strategy, None where unknown."""
    history = History(store, socket.gethostname())
    found: list[float | None] = []
    for cell in firsts:
        asked = demand(cell.config, here)
        if duel.budget.kind == "seconds":
            found.append(duel.budget.amount + START_S)
            continue
        like = history.estimate(duel.strategies[cell.strategy].experiment, cell.config.model_dump(mode="json"), asked)
        found.append(like.median if like else None)
    return found
