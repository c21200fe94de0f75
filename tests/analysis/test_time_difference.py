"""Why the fastest was faster: amounts of work first, then others' programs, then the phase that accounts for it."""

from dataclasses import replace

import pytest

from engine.analysis.scaling.targets import Goal, to_goal
from engine.analysis.scaling.time_difference import ACTIVITIES, TimeSpent, not_comparable, time_spent, why_faster
from tests.analysis.test_speedup import AROUND, run

NONE = dict.fromkeys(ACTIVITIES, 0.0)


def took(name: str, time_s: float, *, ranks: int = 2, work: float = 1_000.0, **seconds: float) -> TimeSpent:
    """Return one run whose ranks spent so many seconds on an activity; the rest is computation."""
    named = {word.replace("_", " "): spent for word, spent in seconds.items()}
    parts = NONE | {"computed": time_s - sum(named.values())} | named
    return TimeSpent(name, (time_s,), (work,), "samples", ranks, parts, time_s)


def test_the_phase_that_accounts_for_the_difference_is_named_with_its_shares() -> None:
    fast, slow = took("run 8", 12.0, waited=0.36), took("run 5", 30.0, waited=12.3)
    said = "Fastest: run 8 (12 s); slowest: run 5 (30 s). "
    assert why_faster([slow, fast, took("run 6", 20.0)]) == (
        f"{said}Ranks of the fastest waited 3 % of the time, those of the slowest 41 %."
    )
    assert why_faster([took("run 8", 12.0), took("run 5", 30.0, tested=10.0)]).endswith(
        "Ranks of the fastest tested 0 % of the time, those of the slowest 33 %."
    )
    both = why_faster([took("run 8", 10.0), took("run 5", 30.0, waited=8.0, communicated=9.0)])
    assert both.endswith(
        "Ranks of the fastest communicated 0 % of the time, those of the slowest 30 %. Ranks of the fastest waited "
        "0 % of the time, those of the slowest 27 %."
    )


def test_computation_is_given_in_seconds_and_ranks_that_share_it_are_counted() -> None:
    one = took("run 1", 8.0, ranks=1)
    assert "computed 4 s, each of the slowest 8 s." in why_faster([took("run 2", 4.0, ranks=1), one])
    assert "The computation was shared by 2 ranks in the fastest, by 1 rank in the slowest." in why_faster(
        [took("run 2", 4.0), one]
    )
    assert "(4 ranks) computed 4 s, each of the slowest (1 rank) 8 s" in why_faster([took("run 2", 4.0, ranks=4), one])
    slow = replace(took("run 3", 8.0), crowded="4 threads on 2 cores")
    shared = "Oversubscribed: run 3 (4 threads on 2 cores); these timings are not valid for speed-up."
    assert why_faster([took("run 2", 4.0), slow]).endswith(f"each of the slowest 8 s. {shared}")
    assert why_faster([took("run 2", 7.9), slow]) == f"Both took about as long: 7.9 s to 8 s. {shared}"


def test_waiting_and_communication_are_given_where_they_are_not_the_reason() -> None:
    fast, slow = took("run 2", 10.0, waited=0.5, communicated=2.0), took("run 1", 20.0, ranks=1)
    assert why_faster([fast, slow]).endswith(
        "by 1 rank in the slowest. Waiting and communication took 25 % of the time of the fastest, 0 % of that of the "
        "slowest."
    )
    named = why_faster([took("run 2", 12.0, waited=0.4), took("run 1", 30.0, waited=12.0)])
    neither = why_faster([took("run 2", 4.0, ranks=1), took("run 1", 8.0, ranks=1)])
    assert "Waiting and" not in named + neither


def test_different_amounts_of_work_come_first_and_then_work_per_second() -> None:
    fast, slow = took("trainers 2", 10.0, work=2_000.0), took("trainers 1", 8.0, ranks=1)
    assert why_faster([fast, slow]) == (
        "After unequal work, times alone do not compare. "
        "Fastest by samples per second: trainers 2 (200); slowest: trainers 1 (125). "
        "The computation was shared by 2 ranks in the fastest, by 1 rank in the slowest."
    )
    alike = why_faster([took("a", 10.0), took("b", 20.0, work=2_000.0)])
    assert alike.endswith("Both did about as much per second: 100 samples.")


def test_other_programs_are_the_reason_where_they_account_for_it_and_else_a_caution() -> None:
    slow = replace(took("run 2", 20.0, waited=11.0), disturbance=0.5)
    said = "Other programs took 50 % of the CPU time of the slowest, 0 % of that of the fastest"
    assert why_faster([took("run 1", 10.0), slow]).endswith(f"{said}: measure again without them.")
    slow = replace(slow, disturbance=0.1)
    caution = said.replace("50", "10")
    assert why_faster([took("run 1", 10.0), slow]).endswith(f"those of the slowest 55 %. {caution}.")


def test_what_no_record_explains_is_said_so() -> None:
    unrecorded = replace(took("run 2", 20.0), seconds=took("", 10.0).seconds)
    assert why_faster([took("run 1", 10.0), unrecorded]).endswith(
        "No recorded phase of their ranks explains the difference."
    )
    assert "the reason is unknown" in why_faster([took("run 1", 10.0), replace(took("run 2", 20.0), seconds={})])
    assert why_faster([took("a", 10.0), took("b", 10.4)]) == "Both took about as long: 10 s to 10.4 s."
    assert why_faster([took("a", 10.0)]) == why_faster([]) == ""
    groups = [
        replace(took(name, time_s), times_s=(time_s - 3, time_s + 3), work=(1_000.0, 1_000.0))
        for name, time_s in (("a", 10.0), ("b", 14.0))
    ]
    assert why_faster(groups) == (
        "No clear difference: on average, a took 10 s (fastest) and b 14 s (slowest), but the range of their ratio "
        "includes 1."
    )
    paired = [replace(each, seeds=(0, 1)) for each in groups]
    assert why_faster(paired).startswith("Fastest: a (10 s)"), "each seed of a is faster, as the speed-up by seed says"
    unequal = [groups[0], replace(groups[1], work=(1_100.0, 1_100.0))]
    assert (
        "No clear difference per second: on average, a did 100 samples per second (fastest) and b 78.6 (slowest)"
        in (why_faster(unequal))
    )
    three = [
        replace(took(name, time_s), times_s=tuple(time_s + by for by in (-1, 0, 1)), work=(1.0,) * 3, seeds=(0, 1, 2))
        for name, time_s in (("a", 10.0), ("b", 12.5))
    ]
    three[1] = replace(three[1], times_s=(11.1, 11.2, 15.2))
    assert why_faster(three).endswith("but the interval of their ratio includes 1.")


def test_runs_are_read_without_servers_and_those_of_another_task_do_not_compare() -> None:
    runs = {"a": [run(1, time_s=None), run(2, time_s=6.0), run(3, time_s=None)], "b": [run(4, time_s=None)]}
    phases = {
        1: {"trainer1": {"compute": 3.0, "wait": 0.5, "lock": 0.5}, "ps": {"wait": 4.0, "serve": 4.0}},
        2: {"trainer1": {"compute": 5.0}, "trainer2": {"compute": 1.0, "evaluate": 3.0}},
    }
    (found,) = time_spent(runs, dict.fromkeys((1, 2, 3, 4), AROUND), phases)
    assert (found.time_s, found.amount, found.ranks, found.unit) == (5.0, 1_000.0, 2, "samples")
    assert found.seconds == NONE | {"computed": 3.0, "waited": pytest.approx(1 / 3), "tested": 1.0}
    other = replace(AROUND, unit="env steps")
    assert "count different work (env steps and samples)" in not_comparable([run(1), run(2)], {1: AROUND, 2: other})
    digits, mnist = run(1, dataset="digits"), run(2, dataset="mnist", model="mnist_net")
    assert "differ in dataset (digits, mnist)" in not_comparable([digits, mnist], {})
    foreign = replace(mnist, experiment="pets", config={})
    assert "differ in model (mnist_net, unknown)" in not_comparable([digits, foreign], {})
    assert not_comparable([digits, run(2, dataset="digits", model="mnist_net")], {1: AROUND, 2: AROUND}) == ""
    machines = not_comparable([digits, digits, run(2, dataset="digits")], {1: AROUND, 2: replace(AROUND, host="b")})
    assert "different machines" in machines


def test_those_about_as_fast_as_the_fastest_are_named() -> None:
    said = why_faster([took("run 1", 10.0), took("run 2", 5.0), took("run 3", 5.2)])
    assert said.startswith("Fastest: run 2 (5 s); slowest: run 1 (10 s). Within 5 % of the fastest: run 3. ")


def at_goal(**times: tuple[float, float]) -> Goal:
    """Return a goal that names reached with so many updates in so many seconds."""
    names = [name.replace("_", " ") for name in times]
    when = dict(enumerate(times.values()))
    return to_goal("test/accuracy", 90.0, "update", {name: {place: 0} for place, name in enumerate(names)}, when)


def test_one_that_does_most_work_per_second_and_is_first_at_the_target_is_named_once() -> None:
    found = [took("trainers 4", 4.0, ranks=4), took("trainers 1", 8.0, ranks=1)]
    said = why_faster(found, at_goal(trainers_4=(100, 2.0), trainers_1=(100, 5.0)))
    assert said.startswith(
        "Fastest by samples per second: trainers 4 (250), also first at a best test accuracy of 90 % (2 s); slowest: "
        "trainers 1"
    )
    assert "First at" not in said


def test_another_one_first_at_the_target_is_named_with_what_the_fastest_needed_more() -> None:
    found = [took("trainers 4", 4.0, ranks=4), took("trainers 1", 8.0, ranks=1)]
    said = why_faster(found, at_goal(trainers_4=(300, 3.0), trainers_1=(100, 2.0)))
    assert said.startswith("Fastest by samples per second: trainers 4 (250); slowest: trainers 1 (125). ")
    assert said.endswith(
        " First at a best test accuracy of 90 %: trainers 1 (2 s), before trainers 4 (3 s), which needed 3 times as "
        "many updates, each taking 0.5 times as long."
    )
    near = why_faster(found, at_goal(trainers_4=(300, 2.05), trainers_1=(100, 2.0)))
    assert near.endswith(
        "Time to a best test accuracy of 90 %: no clear difference between trainers 1 (2 s) and trainers 4 (2.05 s)."
    )


def test_only_configurations_of_which_all_runs_reached_the_target_are_named_first() -> None:
    found = [took("trainers 4", 4.0, ranks=4), took("trainers 1", 8.0, ranks=1)]
    groups = {"trainers 4": {1: 0}, "trainers 1": {2: 0, 3: 1}}
    some = to_goal("test/accuracy", 90.0, "update", groups, {1: (100, 3.0), 2: (100, 2.0)})
    assert why_faster(found, some) == why_faster(found)
    alike = [took("trainers 4", 8.1, ranks=4), took("trainers 1", 8.0, ranks=1)]
    said = why_faster(alike, at_goal(trainers_4=(300, 6.0), trainers_1=(100, 2.0)))
    assert said.startswith(
        "Both did about as much per second: 123 to 125 samples. First at a best test accuracy of 90 %: trainers 1"
    )


def test_times_to_a_target_compare_seed_by_seed() -> None:
    seeds = {"trainers 1": {1: 0, 2: 1, 3: 2}, "trainers 4": {4: 0, 5: 1, 6: 2, 7: 3}}
    slow = {1: (10, 20.0), 2: (10, 40.0), 3: (10, 60.0)}
    fast = {4: (10, 10.0), 5: (10, 21.0), 6: (10, 29.0), 7: (10, 90.0)}
    clear = to_goal("test/accuracy", 90.0, "update", seeds, slow | fast)
    assert clear.before("trainers 1").startswith(" First at"), "ranges overlap, and each common seed was faster"
    seeds["trainers 4"] = {4: 7, 5: 8, 6: 9}
    assert "no clear difference" in to_goal("test/accuracy", 90.0, "update", seeds, slow | fast).before("trainers 1")
