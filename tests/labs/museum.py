"""Runs of the museum as a lab's store would hold them: exhibits in every state, written through the real store."""

from collections.abc import Sequence

from engine.home import Home
from engine.museum.exhibit import BROKEN, ERROR, HELD, UNSEEN, WAYS, sign
from engine.recorder import Point
from engine.registry import experiment
from engine.store import Launch, RankBatch, RankRow, Store
from engine.store.timestamps import now
from engine.system.machine import demand, machine
from tests.stand_in import worker


def queued(home: Home, exhibit: str, owner: str = "Ada") -> int:
    """Queue a run of the museum and return its id."""
    config = experiment("fault_museum").configure(changes={"exhibit": exhibit})
    with Store.open(home) as store:
        return store.runs.add(
            Launch("fault_museum", config.model_dump(mode="json"), owner, demand=demand(config, machine()))
        )


def visited(
    home: Home,
    exhibit: str,
    shown: Sequence[str],
    *,
    wrong: float = 3.0,
    caught: bool = True,
    ended: bool = True,
    owner: str = "Ada",
    older: bool = False,
) -> int:
    """Add a run of `exhibit` (a name, or all) that has shown some exhibits; the numbers of each are 7 the right way and
    `wrong` the wrong one.

    An `older` run has numbers that these exhibits do not measure any more.
    """
    run_id = queued(home, exhibit, owner)
    visit(home, run_id, shown, wrong=wrong, caught=caught, ended=ended, older=older)
    return run_id


def visit(
    home: Home,
    run_id: int,
    shown: Sequence[str],
    *,
    wrong: float = 3.0,
    caught: bool = True,
    ended: bool = True,
    older: bool = False,
) -> None:
    """Have a queued run show exhibits, as `visited` says."""
    with Store.open(home) as store:
        store.claims.claim(run_id, worker(), [])
        store.worker.begin(run_id, worker(), {"python": "3.11"})
        store.worker.add_ranks(
            run_id, [RankRow(rank, way, None, "cpu", "running", 9, now(), None) for rank, way in enumerate(WAYS)]
        )
        store.worker.mark_running(run_id, 1.0)
        for name in shown:
            found = sign(name)
            for rank, value in enumerate((7.0, wrong)):
                numbers = [
                    Point(f"{found.metric}.gone" if older else found.metric_of(number), 1, value, 1.0)
                    for number in found.numbers
                ]
                store.worker.write(
                    run_id, [RankBatch(rank, [*numbers, *(Point(found.metric, x, value * x, 1.0) for x in (1, 2, 4))])]
                )
            store.runs.add_event(run_id, HELD, "worker", f"{name}: The invariant held in 1 of 1.")
            store.runs.add_event(
                run_id,
                BROKEN if caught else UNSEEN,
                "worker",
                f"{name}: {'It <must> be 7.' if caught else 'The fault did not occur in 1 of 1.'}",
            )
            if caught:
                store.runs.add_event(run_id, ERROR, "worker", f"{name}: TypeError: of the wrong way")
        if ended:
            store.claims.end(run_id, "finished", "Completed successfully", execution_time_s=2.0)
