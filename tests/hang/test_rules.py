"""The hang doctor's verdicts on made pictures of a run, each with a known cause and a known rank."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.hang.rules import HALTED, Doing, RunState, cycle, edges, judge, roots
from engine.trace.health import RankState
from engine.trace.layout import EVERYBODY, NOBODY
from engine.trace.ring_reader import OpenOperation

LIMIT_S = 10.0


def operation(kind: str, name: str = "", peer: int = NOBODY, number: int = 0, lane: int = 0) -> OpenOperation:
    return OpenOperation(0, kind, name, peer, number, 0, lane)


AVERAGE = operation("collective", "average", EVERYBODY, 41)
TRAINED = operation("barrier", "trained", EVERYBODY)
COMPUTE = operation("compute")
REQUESTS = operation("wait", "requests", EVERYBODY)
IDLE = operation("wait")


def push(number: int = 7) -> OpenOperation:
    return operation("communicate", "push", 0, number)


def picture(
    doing: Mapping[str, Sequence[OpenOperation]],
    quiet_s: float = 30.0,
    started: bool = True,
    holders: Mapping[str, int] | None = None,
    **special: dict[str, Any],
) -> RunState:
    """Return a picture of ranks by role, all quiet for that long; `special` replaces fields of a rank's state."""
    state = {rank: special.get(role, {}).get("state") for rank, role in enumerate(doing)}
    of = {rank: Doing.of(operations) for rank, operations in enumerate(doing.values()) if state[rank] != "ended"}
    halted = [rank for rank in of if state[rank] in HALTED]
    graph, states = edges(of, halted, holders, [rank for rank in state if rank not in of]), []
    for rank, role in enumerate(doing):
        own = of.get(rank, Doing())
        inner = own.innermost
        facts: dict[str, Any] = {
            "state": "sleeping",
            "phase": own.main[0].kind if own.main else "",
            "operation": f"{inner.kind} {inner.name}" if inner else "",
            "since_s": quiet_s,
            "step": 5,
        }
        states.append(RankState(rank, role, 100 + rank, **{**facts, **special.get(role, {})}))
    return RunState(states, of, graph, LIMIT_S, started)


def verdict(*given: Any, **special: Any) -> tuple[str, str, str]:
    found = judge(picture(*given, **special))
    return found.state, found.rank, found.cause


TOGETHER = [operation("communicate"), AVERAGE]
WAITING_FOR_ONE = {"trainer1": TOGETHER, "trainer2": [COMPUTE], "trainer3": TOGETHER}


def test_a_stopped_rank_that_others_wait_for_is_named_with_what_it_has_not_entered() -> None:
    found = judge(picture(WAITING_FOR_ONE, trainer2={"state": "stopped", "place": "take(), batches.py:52"}))
    assert (found.state, found.rank, found.cause) == ("HUNG", "trainer2", "stopped")
    assert found.sentence == (
        "trainer2 has not entered the collective 'average' (#41): it is stopped (SIGSTOP), in take(), batches.py:52, "
        "since 30 s; trainer1 and trainer3 wait for it."
    )


@pytest.mark.parametrize(
    ("state", "cause"), [("stopped", "stopped"), ("dead", "dead"), ("disk wait", "disk wait"), ("sleeping", "stuck")]
)
def test_the_state_of_the_process_is_the_cause(state: str, cause: str) -> None:
    assert verdict(WAITING_FOR_ONE, trainer2={"state": state}) == ("HUNG", "trainer2", cause)


def test_a_rank_that_works_is_not_hung_whatever_it_does() -> None:
    for inner, cause in ((operation("evaluate"), "evaluate"), (COMPUTE, "work")):
        ranks = {**WAITING_FOR_ONE, "trainer2": [inner]}
        assert verdict(ranks, trainer2={"works": True, "state": "running"}) == ("WAITING", "trainer2", cause)


@pytest.mark.parametrize("state", ["sleeping", "disk wait"])
@pytest.mark.parametrize(
    ("inner", "cause"),
    [
        ([operation("data")], "data"),
        ([operation("evaluate")], "evaluate"),
        ([operation("other", "checkpoint")], "other"),
        ([operation("compute", "env step", number=3)], "work"),
        ([operation("compute", "rollout", number=3)], "work"),
        ([COMPUTE, operation("compute", "sleep")], "work"),
        ([REQUESTS, operation("compute", "rollout", lane=1)], "work"),
    ],
)
def test_a_rank_that_waits_for_something_outside_the_run_is_slow_not_hung(
    inner: list[OpenOperation], cause: str, state: str
) -> None:
    ranks = {**WAITING_FOR_ONE, "trainer2": inner}
    assert verdict(ranks, trainer2={"state": state}) == ("WAITING", "trainer2", cause)
    assert verdict(ranks, 299.0, trainer2={"state": state}) == ("WAITING", "trainer2", cause)
    assert verdict(ranks, 301.0, trainer2={"state": state})[:2] == ("HUNG", "trainer2")
    assert verdict(ranks, trainer2={"state": "stopped"}) == ("HUNG", "trainer2", "stopped")
    moving = {"since_s": 0.1}
    assert verdict({**ranks, "helper": [COMPUTE]}, trainer2={"state": state}, helper=moving)[:2] == ("SLOW", "trainer2")
    alone = {"trainer1": [COMPUTE], "trainer2": inner}
    assert verdict(alone, trainer1=moving, trainer2={"state": state}) == ("RUNNING", "", "")


def test_slow_data_is_told_with_its_limit() -> None:
    found = judge(picture({**WAITING_FOR_ONE, "trainer2": [operation("data")]}, 12.0))
    assert found.sentence == (
        "trainer2 has been in data for 12 s, which may take up to 300 s; trainer1 and trainer3 wait for it."
    )


@pytest.mark.parametrize(
    "others",
    [
        {"ps": [REQUESTS], "trainer1": [COMPUTE], "trainer3": [push()]},  # async_sgd: a push is answered at once
        {"main": [IDLE], "learner": [operation("wait", "batch", EVERYBODY)], "collector2": [COMPUTE]},  # dppo, unlocked
        {"trainer1": [operation("lock", "weights")], "trainer3": [COMPUTE]},  # hogwild
    ],
    ids=["async_sgd", "dppo", "hogwild"],
)
def test_ranks_that_make_progress_wait_for_nobody(others: dict[str, list[OpenOperation]]) -> None:
    moving: dict[str, Any] = {role: {"since_s": 0.1} for role in others}
    found = judge(picture({**others, "trainer2": [COMPUTE]}, trainer2={"state": "stopped"}, **moving))
    assert (found.state, found.rank) == ("STALLED", "trainer2")
    assert found.sentence == "trainer2 makes no progress: it is stopped (SIGSTOP), in compute , since 30 s."


def test_a_collector_whose_batch_is_due_is_the_cause_though_others_could_go_on() -> None:
    """DPPO with a bounded lag and strict FIFO: the learner waits for it, the other collector for the learner."""
    due, held = operation("wait", "batch", 2), operation("wait", "newer policy", 1)
    ranks = {"main": [IDLE], "learner": [due], "collector1": [COMPUTE], "collector2": [held]}
    assert verdict(ranks, collector1={"state": "stopped"}) == ("HUNG", "collector1", "stopped")
    assert verdict(ranks, collector1={"state": "stopped"}, main={"since_s": 0.1})[1:] == ("collector1", "stopped")


def test_trainers_that_a_bound_holds_back_do_wait() -> None:
    """Async SGD with a staleness bound."""
    ranks = {"ps": [REQUESTS], "trainer1": [push()], "trainer2": [COMPUTE], "trainer3": [COMPUTE]}
    found = judge(picture(ranks, trainer2={"state": "stopped"}, trainer3={"since_s": 0.1}))
    assert found.state == "STALLED" and found.sentence.endswith("; ps and trainer1 wait for it.")


def test_nobody_waits_for_an_idle_rank() -> None:
    ranks = {"main": [IDLE], "learner": [operation("wait", "batch", EVERYBODY)], "collector1": [COMPUTE]}
    assert edges(picture(ranks).doing)[1] == {2}


def test_nothing_is_wrong_below_the_limit() -> None:
    assert verdict(WAITING_FOR_ONE, 9.9) == ("RUNNING", "", "")
    assert verdict(WAITING_FOR_ONE, 9.9, False) == ("STARTING", "", "")


def test_one_that_stands_still_while_others_do_not_is_stalled() -> None:
    free = {"trainer1": [COMPUTE], "trainer2": [operation("update")]}
    moving = {"since_s": 0.1, "state": "running"}
    assert verdict(free, trainer1=moving, trainer2={"state": "stopped"}) == ("STALLED", "trainer2", "stopped")
    assert verdict(free, trainer1=moving, trainer2={"works": True}) == ("RUNNING", "", "")


def test_one_that_waits_for_a_rank_that_moves_is_not_stalled() -> None:
    ends = {"trainer1": [TRAINED], "trainer2": [COMPUTE]}
    assert verdict(ends, trainer2={"since_s": 0.2}) == ("RUNNING", "", "")
    queue = {"main": [IDLE], "learner": [operation("update")], "collector1": [operation("wait", "free slot", 1)]}
    assert verdict(queue, learner={"since_s": 0.5}) == ("RUNNING", "", "")


def test_a_slow_rank_that_works_is_named_while_others_wait_and_some_move() -> None:
    ranks = {"trainer1": [operation("communicate"), AVERAGE], "trainer2": [COMPUTE], "helper": [COMPUTE]}
    found = judge(picture(ranks, trainer2={"works": True}, helper={"since_s": 0.0}))
    assert (found.state, found.rank) == ("SLOW", "trainer2") and "trainer1" in found.sentence


def test_a_server_that_waits_for_one_push_blames_that_trainer() -> None:
    ranks = {"ps": [REQUESTS], "trainer1": [push()], "trainer2": [COMPUTE], "trainer3": [push()]}
    assert verdict(ranks, trainer2={"state": "stopped"}) == ("HUNG", "trainer2", "stopped")
    assert edges(picture(ranks).doing)[0] == {2}


def test_a_stopped_server_is_the_cause_though_it_was_waiting() -> None:
    ranks = {"ps": [REQUESTS], "trainer1": [push()], "trainer2": [push()]}
    assert verdict(ranks, ps={"state": "stopped"}) == ("HUNG", "ps", "stopped")


def test_a_server_stuck_in_a_request_is_the_cause() -> None:
    ranks = {
        "ps": [
            REQUESTS,
        ],
        "trainer1": [push()],
        "trainer2": [push()],
    }
    ranks["ps"] = [REQUESTS, operation("serve", "request", 1, 7, lane=1)]
    assert verdict(ranks) == ("HUNG", "ps", "stuck")


def test_different_collectives_are_an_order_mismatch_and_the_rarer_one_is_the_cause() -> None:
    ranks = {f"trainer{number}": [AVERAGE] for number in (1, 2, 3)} | {
        "trainer4": [operation("collective", "broadcast", EVERYBODY, 2)]
    }
    assert verdict(ranks) == ("HUNG", "trainer4", "order mismatch")


def test_one_that_was_stopped_inside_what_the_others_have_left_is_the_cause() -> None:
    ranks = {"trainer1": [TRAINED], "trainer2": TOGETHER}
    assert verdict(ranks, trainer2={"state": "stopped"}) == ("HUNG", "trainer2", "stopped")


def test_one_that_has_left_the_loop_is_named_with_the_barrier_that_it_is_in() -> None:
    ranks = {"trainer1": [AVERAGE], "trainer2": [AVERAGE], "trainer3": [TRAINED]}
    found = judge(picture(ranks))
    assert (found.state, found.rank, found.cause) == ("HUNG", "trainer3", "unequal steps")
    assert "the ranks have different numbers of steps" in found.sentence


def test_a_cycle_is_a_deadlock_and_all_its_ranks_are_named() -> None:
    ranks = {
        "stage1": [operation("wait", "gradient", 1)],
        "stage2": [operation("wait", "activations", 0)],
        "stage3": [operation("wait", "activations", 1)],
    }
    found = judge(picture(ranks))
    assert (found.state, found.cause) == ("HUNG", "deadlock")
    assert (
        found.sentence
        == "Deadlock since 30 s: stage1 waits for stage2 in wait gradient, stage2 waits for stage1 in wait activations."
    )


def test_a_chain_of_waits_leads_to_its_end() -> None:
    ranks = {
        "stage1": [operation("wait", "gradient", 1)],
        "stage2": [operation("wait", "gradient", 2)],
        "stage3": [COMPUTE],
    }
    found = judge(picture(ranks))
    assert (found.state, found.rank) == ("HUNG", "stage3") and "stage1 and stage2 wait for it" in found.sentence


def test_one_that_waits_for_a_lock_is_named_so() -> None:
    assert verdict({"trainer1": [COMPUTE], "trainer2": [operation("lock", "weights")]}, trainer1={"since_s": 0.0}) == (
        "STALLED",
        "trainer2",
        "lock",
    )


def test_one_that_waits_for_a_lock_waits_for_who_holds_it() -> None:
    waiting = Doing.of([operation("lock", "weights")])
    assert edges({0: waiting, 1: Doing.of([COMPUTE])}, holders={"weights": 1}) == {0: {1}, 1: set()}
    assert edges({0: waiting, 1: Doing.of([COMPUTE])}, holders={"queue": 1}) == {0: set(), 1: set()}


def test_before_all_are_ready_the_missing_one_has_not_joined() -> None:
    ready = operation("barrier", "ready", EVERYBODY)
    found = judge(picture({"trainer1": [ready], "trainer2": []}, started=False))
    assert (found.state, found.rank, found.cause) == ("HUNG", "trainer2", "not joined")


def test_a_rank_that_loads_from_a_slow_disk_while_it_starts_is_waited_for() -> None:
    ranks = {"trainer1": [operation("barrier", "ready", EVERYBODY)], "trainer2": []}
    slow = {"state": "disk wait"}
    assert verdict(ranks, started=False, trainer2=slow) == ("WAITING", "trainer2", "work")
    assert verdict(ranks, 301.0, started=False, trainer2=slow) == ("HUNG", "trainer2", "disk wait")


def test_waits_are_followed_to_their_ends_and_cycles_are_found() -> None:
    graph: dict[int, set[int]] = {0: {1}, 1: {2, 3}, 2: set(), 3: {0}}
    assert roots(graph, 0) == {2} and roots(graph, 2) == {2}
    assert cycle(graph) == [0, 1, 3]
    assert cycle({0: {1}, 1: set()}) == []


def test_an_idle_rank_is_neither_a_cause_nor_needed_for_a_hang() -> None:
    ranks = {"main": [IDLE], "trainer1": TOGETHER, "trainer2": [COMPUTE]}
    assert verdict(ranks, trainer2={"state": "stopped"}) == ("HUNG", "trainer2", "stopped")
    assert verdict(ranks, main={"since_s": 0.1}, trainer2={"state": "stopped"}) == ("HUNG", "trainer2", "stopped")


@pytest.mark.parametrize("looking", [IDLE, operation("serve"), operation("serve", "push", 1)])
def test_a_server_that_looks_for_requests_and_answers_none_is_the_cause(looking: OpenOperation) -> None:
    asking = [operation("communicate", "center", 0)]
    ranks, moving = {"server": [looking], "trainer1": asking, "trainer2": asking}, {"since_s": 0.0}
    assert verdict(ranks, server=moving) == ("HUNG", "server", "silent")
    said = judge(picture(ranks, server=moving)).sentence
    assert said.startswith("server has not answered 'center'") and "trainer1 and trainer2 wait for it" in said
    assert verdict(ranks, server=moving, trainer2=moving) == ("RUNNING", "", ""), "it answers some"


OPERATIONS = st.builds(
    operation,
    st.sampled_from(["wait", "communicate", "compute", "collective", "barrier", "lock", "serve", "queue", "evaluate"]),
    st.sampled_from(["", "step", "put"]),
    st.sampled_from([NOBODY, 0, 1, 2, EVERYBODY]),
    st.integers(0, 1),
    st.sampled_from([0, 0, 0, 1]),
)


@given(
    ranks=st.lists(
        st.tuples(
            st.lists(OPERATIONS, min_size=1, max_size=1) | st.lists(OPERATIONS, max_size=2),
            st.sampled_from(["sleeping", "sleeping", "sleeping", "stopped", "dead", "disk wait", "ended"]),
            st.sampled_from([0.0, 6.0, 30.0, 30.0, 30.0, 400.0]),
            st.sampled_from([False, False, False, True]),
        ),
        min_size=1,
        max_size=3,
    ),
    started=st.just(True) | st.booleans(),
    holder=st.integers(0, 3),
)
@settings(max_examples=400, deadline=None)
def test_every_picture_has_a_verdict(ranks: list[Any], started: bool, holder: int) -> None:
    doing = {f"rank{number}": operations for number, (operations, _, _, _) in enumerate(ranks)}
    special = {
        f"rank{number}": {"state": state, "since_s": since_s, "works": works}
        for number, (_, state, since_s, works) in enumerate(ranks)
    }
    found = judge(picture(doing, started=started, holders={"step": holder}, **special))
    assert bool(found.sentence) == (found.state not in ("RUNNING", "STARTING"))


def test_a_rank_stopped_while_it_waits_for_one_that_moves_is_stalled() -> None:
    ranks = {"ps": [REQUESTS], "trainer1": [COMPUTE], "trainer2": [push()]}
    moving = {"since_s": 0.1}
    assert verdict(ranks, ps=moving, trainer1=moving) == ("RUNNING", "", "")
    assert verdict(ranks, ps=moving, trainer1=moving, trainer2={"state": "stopped"}) == (
        "STALLED",
        "trainer2",
        "stopped",
    )


def test_of_two_ranks_the_one_with_fewer_steps_has_left_the_loop_and_otherwise_nobody_is_named() -> None:
    ranks = {"trainer1": [AVERAGE], "trainer2": [TRAINED]}
    assert verdict(ranks, trainer2={"step": 4}) == ("HUNG", "trainer2", "unequal steps")
    assert verdict(ranks) == ("HUNG", "", "unequal steps")


def test_one_that_has_a_batch_more_than_all_others_is_named() -> None:
    ranks = {"trainer1": [TRAINED], "trainer2": [AVERAGE], "trainer3": [TRAINED]}
    assert verdict(ranks) == ("HUNG", "trainer2", "unequal steps")


def test_a_rank_stopped_inside_a_collective_is_the_cause_though_the_others_have_left_it() -> None:
    ranks = {"trainer1": [TRAINED], "trainer2": [AVERAGE], "trainer3": [TRAINED]}
    assert verdict(ranks, trainer2={"state": "stopped"}) == ("HUNG", "trainer2", "stopped")


def test_one_that_does_its_own_work_is_the_cause_though_others_wait_at_different_places() -> None:
    ranks = {"trainer1": [TRAINED], "trainer2": [AVERAGE], "trainer3": [COMPUTE]}
    assert verdict(ranks) == ("HUNG", "trainer3", "stuck")


@pytest.mark.parametrize(("more", "state"), [({}, "HUNG"), ({"helper": [COMPUTE]}, "STALLED")])
def test_one_that_has_finished_while_others_wait_for_it_is_named(
    more: dict[str, list[OpenOperation]], state: str
) -> None:
    ranks = {"trainer1": TOGETHER, "trainer2": [], "trainer3": TOGETHER} | more
    found = judge(picture(ranks, trainer2={"state": "ended", "since_s": 0.0}, helper={"since_s": 0.1}))
    assert (found.state, found.rank, found.cause) == (state, "trainer2", "exited")
    assert found.sentence == (
        "trainer2 has not entered the collective 'average' (#41): it has finished its work and left; trainer1 and "
        "trainer3 wait for it."
    )


def test_nobody_is_named_where_all_are_in_one_collective() -> None:
    found = judge(picture({"trainer1": TOGETHER, "trainer2": TOGETHER}))
    assert (found.state, found.rank, found.cause) == ("HUNG", "", "collective")
    assert "all ranks are in it, perhaps with different shapes or data types" in found.sentence


def test_one_that_keeps_a_lock_is_told_from_one_that_is_only_stuck() -> None:
    ranks = {"trainer1": [COMPUTE], "trainer2": [operation("lock", "weights")]}
    assert verdict(ranks, holders={"weights": 0}) == ("HUNG", "trainer1", "lock kept")


def test_one_that_takes_nothing_from_a_full_queue_is_the_cause() -> None:
    full = operation("wait", "free slot", 0)
    assert verdict({"learner": [COMPUTE], "collector1": [full], "collector2": [full]}) == (
        "HUNG",
        "learner",
        "full queue",
    )


def test_a_call_within_a_call_that_is_never_answered_is_named() -> None:
    handled = [operation("serve", "outer", 0, lane=1), operation("rpc", "inner", 2, lane=1)]
    ranks = {
        "worker1": [operation("rpc", "outer", 1)],
        "worker2": [TRAINED, *handled],
        "worker3": [TRAINED],
    }
    found = judge(picture(ranks))
    assert (found.state, found.rank, found.cause) == ("HUNG", "worker2", "nested calls")
    assert "the threads that handle calls wait for calls themselves" in found.sentence


def test_a_deadlock_of_some_ranks_is_found_while_others_continue() -> None:
    ranks = {"a": [operation("wait", "x", 1)], "b": [operation("wait", "y", 0)], "c": [COMPUTE]}
    assert verdict(ranks, c={"since_s": 0.1}) == ("STALLED", "a", "deadlock")
    assert verdict({**ranks, "b": [operation("wait", "y", 2)]}, c={"since_s": 0.1}) == ("RUNNING", "", "")
