"""The first tab of a run's page: what its ranks do, what the header says, and what an imported run came from."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.charts.curve_points import has_passes
from app.core.formatting import duration
from app.run import live_update, summary_html
from app.run.header import run_report
from app.run.overview import axes, steps
from app.run.summary_html import _in_lines, rank_strip
from app.run.why import ANSWERS, EXCHANGE_OF_TRAINERS, summary_sentence, why, why_of
from app.ui import current_user
from app.ui.documentation import Section, groups, guide, pages
from app.ui.html import number
from app.ui.time_difference import with_interval
from engine.analysis.statistics.intervals import Interval
from engine.hang.rules import CAUSES, CURES
from engine.home import Home
from engine.recorder import Point
from engine.registry import experiment, experiments
from engine.store import Demand, Launch, Reader, Store
from engine.store.records import RankRow, Status, Summary
from engine.trace.health import Health, Verdict
from engine.transfer.import_child import import_path
from tests.app.reading import html, opened
from tests.app.run.test_lineage import ended
from tests.labs.basic import now
from tests.labs.traced import add_trace
from tests.stand_in import worker
from tests.transfer.readers.test_other_programs import mlruns


def ranks(*roles: str) -> list[RankRow]:
    return [RankRow(rank, role, None, "cpu", "running", None, now(), None) for rank, role in enumerate(roles)]


def shares(html: str) -> list[str]:
    return re.findall(r'aria-label="([^"]+:[^"]+)"', html)


def test_the_strip_shows_the_share_of_each_ranks_time_and_counts_what_a_server_serves_as_work() -> None:
    seconds = {0: {"wait": 8.0, "serve": 2.0, "evaluate": 2.0}, 1: {"compute": 6.0, "communicate": 3.0, "lock": 1.0}}
    assert shares(rank_strip(seconds, ranks("ps", "trainer1"))) == [
        "ps: compute 40 %, communicate 0 %, wait 60 %, other 0 %",
        "trainer1: compute 60 %, communicate 30 %, wait 10 %, other 0 %",
    ]
    assert rank_strip({}, ranks("ps")) == rank_strip({0: {"wait": 0.0}}, ranks("ps")) == ""


def test_many_ranks_have_one_bar_for_each_kind_of_them() -> None:
    roles = ["ps", *(f"trainer{number}" for number in range(1, 10))]
    seconds = {rank: {"compute": float(rank), "wait": 1.0} for rank in range(10)}
    assert shares(rank_strip(seconds, ranks(*roles))) == [
        "ps: compute 0 %, communicate 0 %, wait 100 %, other 0 %",
        "trainer (9): compute 83 %, communicate 0 %, wait 17 %, other 0 %",
    ]


def test_the_link_menu_says_how_the_newest_run_fills_a_screen_on_the_wall(lab: dict[Status, int]) -> None:
    said = " ".join(each.value for each in opened("run", {"run": str(lab["running"])}).caption).replace("\\", "")
    assert "Always the newest run of Hogwild" in said and "Present on a chart (the address keeps it), and F11" in said


def test_a_run_without_a_curve_to_smooth_has_no_smoothing(home: Home, lab: dict[Status, int]) -> None:
    def has_smoothing(run_id: int) -> bool:
        return "Smoothing" in [each.label for each in opened("run", {"run": str(run_id)}).slider]

    points = [Point("train/loss", step, 1.0, 0.1 * step, None) for step in range(61)]
    assert has_smoothing(lab["running"])
    with Store.open(home) as store:
        active = store.runs.add(
            Launch("hogwild", experiment("hogwild").configure().model_dump(), "ada", demand=Demand(1, 0, 1, 1))
        )
        store.claims.claim(active, worker(), [])
        store.worker.begin(active, worker(), {})
        store.worker.mark_running(active, 0.1)
        for run_id in (active, ended(home, "finished", saved=False)):
            store.worker.write(run_id, [], run_points=points[:1])
            before = live_update.frame(store.read.runs.one(run_id), store.read, "Overview", False)
            assert not has_smoothing(run_id)
            store.worker.write(run_id, [], run_points=points[1:])
            after = live_update.frame(store.read.runs.one(run_id), store.read, "Overview", False)
            assert (after != before) == (run_id == active), "an open page reruns"
            assert has_smoothing(run_id)


def test_the_result_of_a_run_is_so_far_only_while_the_run_goes_on(home: Home, lab: dict[Status, int]) -> None:
    with Reader.open(home) as reader:
        run, entry = reader.runs.one(lab["running"]), reader.runs.entry(lab["running"])
    assert " so far" in summary_sentence(run, entry, [], {}, [])
    assert " so far" not in summary_sentence(replace(run, status="cancelled"), entry, [], {}, [])


def test_the_result_of_a_run_says_whether_it_reached_the_target_of_its_metric(
    home: Home, lab: dict[Status, int]
) -> None:
    with Reader.open(home) as reader:
        run, entry = reader.runs.one(lab["finished"]), reader.runs.entry(lab["finished"])
    assert "target" not in summary_sentence(run, entry, [], {}, [])
    run = replace(run, experiment="dppo", config=experiment("dppo").configure("quick", {}).model_dump(mode="json"))
    for value, words in ((474.9, "; target 475 not reached."), (500.0, "; target 475 reached.")):
        reached = replace(entry, experiment="dppo", last={"test/episodic_return": value})
        shown = f"Evaluation reward {value:g} of at most 500 per episode in {duration(run.execution_time_s)}"
        assert summary_sentence(run, reached, [], {}, []).endswith(shown + words)
    pendulum = replace(run, config={**run.config, "environment": "Pendulum-v1"})
    assert " Evaluation reward 500 per episode in " in summary_sentence(pendulum, reached, [], {}, [])


def test_a_queued_run_says_why_it_waits_and_has_no_controls_of_curves(home: Home, lab: dict[Status, int]) -> None:
    def controls(test: AppTest) -> list[str]:
        return [
            each.label for each in (*test.slider, *test.get("button_group")) if each.label in ("X-axis", "Smoothing")
        ]

    assert len(controls(opened("run", {"run": str(lab["running"])}))) == 2
    test = opened("run", {"run": str(lab["queued"])})
    assert not test.exception and not controls(test)
    reason, line = [text.value for text in test.text]
    assert reason.startswith("Waits for") or "cores" in reason
    assert line == "Curves appear here after the start.", "the header alone says why it waits"


@pytest.mark.parametrize(
    ("cause", "sentence", "lines"),
    [
        (
            "stopped",
            "trainer2 has not entered the barrier 'end': it is stopped (SIGSTOP), in compute, since 15 s; ps waits.",
            [
                "Hung: trainer2 has not entered the barrier &#39;end&#39;.",
                "It is stopped (SIGSTOP), in compute, since 15 s; ps waits.",
                CURES["stopped"],
            ],
        ),
        ("stuck", "Rank 0 printed nothing for 60 s.", ["Hung: Rank 0 printed nothing for 60 s.", CURES["stuck"]]),
        ("of a later version", "It is quiet.", ["Hung: It is quiet."]),
    ],
)
def test_a_standstill_is_short_lines_in_the_header(
    home: Home, lab: dict[Status, int], cause: str, sentence: str, lines: list[str]
) -> None:
    with Store.open(home) as store:
        run_id = lab["running"]
        store.worker.write_health(run_id, Health(now(), (), Verdict("HUNG", "trainer2", cause, sentence)))
        shown = summary_html.cause(store.read.runs.one(run_id), store.read.runs.entry(run_id), store.read)
    assert shown.split("<br>") == lines
    assert CURES.keys() == CAUSES.keys(), "each cause has a cure"


def test_the_header_of_a_run_has_its_result_whatever_tab_is_open(home: Home, lab: dict[Status, int]) -> None:
    for section in ("Overview", "Log"):
        test = opened("run", {"run": str(lab["finished"]), "section": section})
        shown = html(test)
        assert '<div data-slot="result"><small>Test accuracy</small> <strong>95.50 %</strong></div>' in shown
        assert ("Rank activity" in shown) == (section == "Overview")
    assert live_update.standing(home, lab["queued"], "Overview").slots["result"] == ""


def test_settings_and_environment_have_titles_also_in_the_report(home: Home, lab: dict[Status, int]) -> None:
    with Store.open(home) as store, store.db.change() as connection:
        about = json.dumps({"memory_gb": 64, "git_commit": "abc", "cpu": "Xeon", "other_programs": [["bash", 0.5755]]})
        connection.execute("UPDATE runs SET environment = ? WHERE id = ?", [about, lab["finished"]])
    shown = {
        section: " ".join(
            str(element.proto.body)
            for element in opened("run", {"run": str(lab["finished"]), "section": section}).get("html")
        )
        for section in ("Config", "Environment")
    }
    assert ">Batch size" in shown["Config"] and ">batch_size" not in shown["Config"]
    assert all(
        f">{title}<" in shown["Environment"] for title in ("Memory (GB)", "Parallab commit", "CPU", "bash 0.58 cores")
    )
    assert shown["Config"].count("not used with model mnist_net") == 3, "settings of sparse samples"
    page = run_report(lab["finished"], "Ada").decode()
    assert "Memory (GB)" in page and ">Batch size<" in page and ">batch_size<" in page and ">Hogwild!<" in page


def test_a_live_update_of_an_imported_run_keeps_what_it_came_from(home: Home, tmp_path: Path) -> None:
    with Store.open(home) as store:
        (run_id,) = import_path(store, mlruns(tmp_path), by="Lin").ids
    assert "Imported from" in live_update.standing(home, run_id, "Overview").slots["facts"]


AXES_OF = {
    "hogwild": (["step", "passes", "updates", "time"], "passes"),
    "dppo": (["step", "updates", "time"], "updates"),
    "pipeline": (["step", "passes", "updates", "time"], "updates"),
    "fault_museum": (["step", "time"], "step"),
}


@pytest.mark.parametrize("name", AXES_OF)
def test_the_charts_of_a_run_have_an_axis_on_which_its_ranks_agree(
    home: Home, lab: dict[Status, int], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = "passes" in AXES_OF[name][0]
    with Reader.open(home) as reader:
        run = replace(reader.runs.one(lab["finished"]), experiment=name)
        monkeypatch.setattr(type(reader.details), "counts_passes", lambda details, run_id: counted)
        assert axes(run, reader) == AXES_OF[name]


def next_labels(home: Home, run_id: int) -> dict[str, Mapping[str, str | list[str]]]:
    with Reader.open(home) as reader:
        return {step.label: step.query for step in steps(reader.runs.one(run_id), reader)}


def test_next_steps_of_a_finished_run_fill_the_form_and_find_its_reference(
    home: Home, lab: dict[Status, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current_user, "may", lambda command: True)
    found = next_labels(home, lab["finished"])
    assert list(found) == ["Same with 1 trainer", "Run the Reference", "Sweep trainers", "Repeat 3 times"]
    assert "trainers:1" in found["Same with 1 trainer"]["set"]
    assert found["Sweep trainers"]["sweep"] == "trainers"
    assert found["Run the Reference"]["experiment"] == "reference"
    reference, other = ended(home, "finished", name="reference"), ended(home, "finished", name="reference")
    with Store.open(home) as store:
        store.annotations.pin(reference, by="Ada")
    assert other > reference
    assert next_labels(home, lab["finished"])["Compare with Reference"] == {
        "runs": f"{lab['finished']},{reference}",
        "x": "time",
        "group": "none",
        "v": "3",
    }
    assert "Compare with Reference" not in next_labels(home, reference)
    monkeypatch.setattr(current_user, "may", lambda command: False)
    assert list(next_labels(home, lab["finished"])) == ["Compare with Reference"]


def test_an_address_of_an_earlier_version_chooses_its_axis(home: Home, lab: dict[Status, int]) -> None:
    test = opened("run", {"run": str(lab["finished"]), "x": "Time"})
    assert test.segmented_control(key="axis").value == "time"
    assert test.segmented_control(key="axis").set_value("step").run().segmented_control(key="axis").value == "step"


def test_a_server_that_waits_for_two_trainers_waits_for_one_when_there_is_one(home: Home) -> None:
    run_id = ended(home, "finished", name="parameter_server", saved=False)
    assert {"trainers:1", "batch_update_size:1"} <= {*next_labels(home, run_id)["Same with 1 trainer"]["set"]}


def test_a_link_to_a_sweep_opens_its_form_with_values(home: Home) -> None:
    test = opened("launch", {"experiment": "hogwild", "preset": "quick", "sweep": "trainers"})
    assert test.toggle(key="sweep.on.hogwild").value
    assert test.text_input(key="sweep.values.hogwild.trainers").value == "1, 2, 4, 8"
    test = opened("launch", {"experiment": "hogwild", "sweep": "<b>"})
    assert "must be a setting of hogwild" in " ".join(each.value for each in test.warning)
    assert not test.toggle(key="sweep.on.hogwild").value


def test_the_end_of_a_run_is_announced_once_to_a_person_who_watched_it(
    home: Home, lab: dict[Status, int], store: Store
) -> None:
    test = opened("run", {"run": str(lab["running"])})
    assert not test.toast
    store.claims.end(lab["running"], "finished", "Completed successfully", execution_time_s=3.0)
    test.run()
    assert [each.value.replace("\\", "") for each in test.toast] == [
        f"Run {lab['running']} finished. Not finite: 2 training loss values are NaN or infinite. "
        "Test accuracy 95.50 % in 3.0 s; trainers waited for the end of the others 5 % of the time."
    ]
    assert not test.run().toast


def test_percentages_have_two_decimals_unless_these_would_hide_them() -> None:
    assert [number(value, unit="%") for value in (95.0, 98.0556, 0.0, 100.0, 0.0034)] == [
        "95.00",
        "98.06",
        "0.00",
        "100.00",
        "0.0034",
    ]
    assert number(95.0) == "95"
    interval = Interval(96.2, 94.77, 97.636, 3)
    assert with_interval(interval, "%") == "96.20 (94.77 – 97.64)"


NUMBERS = {"perf/overwritten_updates": 1.5, "perf/staleness": 2.25, "perf/policy_age": 1.75, "perf/bubble_share": 31.0}
NUMBERS |= {"perf/memory_state": 40.0, "perf/layer_exchanged": 1.5}
NUMBERS |= {"train/loss": 0.5, "perf/env_steps_per_second": 1200.0}
PARTS = {"ps": {"wait": 1.0}, **{kind: {"compute": 3.0, "wait": 1.0} for kind in ("trainer", "observer", "collector")}}
REASONS = [
    ("hogwild", {}, "Why no lock:", "others wrote 1.5 % of the sampled weights"),
    ("hogwild", {"lock": True}, "Why a lock:", "waited 0 % of their time"),
    ("hogwild", {"variant": "tutorial"}, "Why no lock:", "the variant tutorial does not measure it"),
    ("hogwild", {"overwrites_every": 0}, "Why no lock:", "overwrites_every is 0"),
    ("parameter_server", {"trainers": 4}, "Why a batch of 4:", "trainers waited 25 %"),
    ("parameter_server", {"trainers": 4, "batch_update_size": 3}, "Why a batch of 3:", "mean staleness 2.25 updates"),
    (
        "async_sgd",
        {"trainers": 4},
        "Why stale:",
        "at most N - 1 = 3, less where one ends before another; here it is 2.25 updates",
    ),
    (
        "async_sgd",
        {"trainers": 4},
        "others update in between. With 4 trainers, however fast each is,",
        "; the price: trainers waited for a turn at the server 25 % of the time: sending gradients to the server",
    ),
    ("async_sgd", {"staleness_bound": 4}, "waits for another one but at the staleness bound of 4, ", "2.25 updates"),
    ("sync_sgd", {"sync": "weights"}, "Why wait: all trainers average their weights", "Here trainers waited 25 %"),
    (
        "sync_sgd",
        {"sync": "diloco", "simulated_latency_ms": 5.0},
        "Why wait: all trainers average their weights",
        "including the sleeps of a simulated link.",
    ),
    (
        "sync_sgd",
        {"sync": "diloco", "fragments": 4, "overlap": 1},
        "Why fragments: 4 fragments of the weights",
        "each while trainers make 1 step, so that links carry less at a time. What this does not hide",
    ),
    ("sync_sgd", {"sync": "ddp"}, "Why wait: all trainers average their gradients", "Here trainers waited 25 %"),
    ("batched_reinforce", {"observers": 5}, "Why a batch:", "here observers waited 25 % of the time"),
    (
        "batched_reinforce",
        {"observers": 5, "steps": 100},
        "Why a batch:",
        "instead of 5 times, here 400 times instead of 2,000, at 1,200 env steps/s; in return each waits",
    ),
    ("batched_reinforce", {"observers": 2}, "Why a batch:", "once for the step of both observers instead of twice"),
    ("batched_reinforce", {"observers": 1}, "Why a batch:", "here the observer waited 25 %"),
    ("hogwild", {"trainers": 1}, "Why no lock:", "here there is 1 trainer, and no other one that writes or waits."),
    ("hogwild", {"trainers": 1, "lock": True}, "Why a lock:", "here there is 1 trainer"),
    ("parameter_server", {"trainers": 1}, "Why a batch of 1: there is 1 trainer", "here it waited 25 % of the time"),
    (
        "async_sgd",
        {"trainers": 1},
        "With 1 trainer there are none, so the mean",
        "the price: the trainer waited for a turn at the server 25 %",
    ),
    ("sync_sgd", {"trainers": 1, "sync": "ddp"}, "has no other one to average with", "Here the trainer waited 25 %"),
    (
        "sync_sgd",
        {"trainers": 1, "sync": "diloco", "fragments": 4},
        "has no other one to average with",
        "Here the trainer waited 25 %",
    ),
    ("batched_reinforce", {"mode": "per_call", "observers": 1}, "Why per call: with one", "here the observer waited"),
    (
        "dppo",
        {"mode": "bounded_queue", "collectors": 1},
        "then the collector waits",
        "the collector waited 25 % of the time",
    ),
    ("dppo", {"mode": "reader_writer", "collectors": 1}, "the collector plays", "which waits until it does not read"),
    ("fsdp", {"stage": "full", "trainers": 1}, "1 trainer holds all parameters, gradients", "and the trainer waited"),
    ("fsdp", {"stage": "ddp", "trainers": 1}, "so with 1 trainer nothing travels", "and the trainer waited 25 %"),
    ("tensor_parallel", {"ranks": 1}, "1 rank holds every layer, and has nothing", "1.5 MB per layer and step"),
    ("batched_reinforce", {"mode": "per_call", "observers": 5}, "Why per call:", "runs 5 times per step"),
    ("dppo", {"mode": "bounded_queue", "max_queue_size": 3}, "Why a bounded queue: at most 3", "1.75 updates old"),
    ("dppo", {"mode": "bounded_queue", "collectors": 2}, "queue: at most 4 batches", "collectors waited 25 %"),
    ("dppo", {"mode": "update_locked"}, "Why a lock around updates:", "1.75 updates old"),
    ("dppo", {"mode": "reader_writer"}, "Why readers and a writer:", "1.75 updates old"),
    ("dppo", {"mode": "unlocked"}, "Why no lock: collectors play while", "collectors waited 25 %"),
    (
        "pipeline",
        {"splits": 4, "stages": 2},
        "Why micro-batches:",
        "= 20 % of the time; here it is 31 %, the mean of all batches, in which transfers count as idle time.",
    ),
    ("reference", {}, "Why one process:", "baseline of every speed-up"),
    (
        "fsdp",
        {"stage": "ddp"},
        "Why all of it:",
        "40.0 MB per trainer at the peak of a step, and trainers waited 25 %",
    ),
    (
        "fsdp",
        {"stage": "full", "trainers": 2},
        "Why shards: so that",
        "Each of 2 trainers holds a part of parameters, gradients and",
    ),
    (
        "fsdp",
        {"stage": "sharded", "trainers": 2},
        "Why shards: so that",
        "Each of 2 trainers holds a part of gradients and optimizer",
    ),
    ("tensor_parallel", {"ranks": 4}, "Why inside a layer: so that", "1.5 MB per layer and step"),
    (
        "dppo",
        experiment("dppo").configure("lag", {"evaluate_every_s": 5}).model_dump(mode="json"),
        "Why a bounded lag:",
        "at least 475 in 100 greedy episodes; every 5 s, 20 episodes test the newest policy, and if their mean reaches "
        "it, the 100 are played while training continues; if these reach it too, the run ends early, with the policy",
    ),
    (
        "dppo",
        experiment("dppo").configure("quick", {"stop_when_solved": False}).model_dump(mode="json"),
        "Why a bounded queue:",
        "training continues to the end, and the last policy is the result",
    ),
    ("dppo", {"mode": "bounded_lag", "max_lag": 1}, "with a policy at most 1 update old", "1.75 updates old"),
]


@pytest.mark.parametrize(("name", "settings", "begin", "number"), REASONS)
def test_a_system_is_explained_in_one_sentence_with_the_number_of_the_run(
    home: Home, lab: dict[Status, int], name: str, settings: dict[str, object], begin: str, number: str
) -> None:
    with Reader.open(home) as reader:
        run = replace(reader.runs.one(lab["finished"]), experiment=name, config=settings)
    measured = not (settings.keys() & {"variant", "overwrites_every"})
    summaries = [
        Summary(metric, None, 4, value, 9, None, value, value, value) for metric, value in NUMBERS.items() if measured
    ]
    roles = ranks(*(kind if kind == "ps" else f"{kind}{number}" for kind in PARTS for number in (1, 2)))
    phases = {row.rank: PARTS[row.role.rstrip("12")] for row in roles}
    said = why(run, summaries, phases, roles)
    assert begin in said and number in said and said.count(". ") <= 1 and said.endswith(".")
    without = why(run, [], {}, [])
    assert begin in without and "None" not in without and "  " not in without


def test_the_bubble_of_unequal_stages_is_explained_by_their_times(home: Home, lab: dict[Status, int]) -> None:
    with Reader.open(home) as reader:
        run = replace(reader.runs.one(lab["finished"]), experiment="pipeline", config={"splits": 4, "stages": 2})
    measured = [Summary("perf/bubble_share", None, 4, 48.0, 9, None, 48.0, 48.0, 48.0)]
    roles = ranks("stage1", "stage2")

    def said(*seconds: float) -> str:
        return why(run, measured, {rank: {"compute": each, "wait": 3.0} for rank, each in enumerate(seconds)}, roles)

    assert said(2.0, 6.0).endswith(
        "= 20 % of the time; here it is 48 %, the mean of all batches, in which transfers count as idle time; these "
        "stages are not equal: they computed "
        "for 2.0 s to 6.0 s, which makes it at least 38.5 % without transfers and delays."
    ), "4 micro-batches of 0.5 s and 1.5 s take 6.5 s, of which two stages work 8 s in 13 s"
    assert said(2.0, 2.01).endswith("count as idle time.") and said(2.0).endswith("count as idle time.")


def test_what_a_trainer_waits_for_leads_to_the_timeline_which_cautions_of_disturbance(
    home: Home, store: Store, lab: dict[Status, int]
) -> None:
    run_id = lab["finished"]
    with store.db.change() as connection:
        connection.execute("UPDATE runs SET experiment = 'async_sgd' WHERE id = ?", [run_id])
    add_trace(store, run_id)
    store.worker.write(run_id, [], run_points=[Point("perf/disturbance", 9, 31.4, 9.0, None)])
    with Reader.open(home) as reader, pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary_html, "why", lambda *_: f"Why stale: so; the price: {EXCHANGE_OF_TRAINERS}; and more.")
        said = summary_html.showed(reader.runs.one(run_id), reader.runs.entry(run_id), reader)
    assert re.search(
        r'so\. <a href="/docs\?page=experiments/async_sgd#mean-staleness">Guide</a>.*The price: .*weights\. '
        rf'<a href="/run\?run={run_id}&amp;section=Timeline">Timeline</a>.*And more\.',
        said,
    ), said
    page = opened("run", {"run": str(run_id), "section": "Timeline"})
    assert any("[Caution] Other programs took 31 %" in each.value for each in page.markdown)


def test_both_sentences_state_one_share_and_one_mean(home: Home, lab: dict[Status, int]) -> None:
    with Reader.open(home) as reader:
        run, entry = reader.runs.one(lab["finished"]), reader.runs.entry(lab["finished"])
    run, roles = replace(run, experiment="async_sgd", config={"trainers": 2}), ranks("ps", "trainer1", "trainer2")
    phases = {rank: {"compute": 412.0, "wait": 4.0, "communicate": 584.0} for rank in (1, 2)}
    summaries = [Summary("perf/staleness", None, 4, 2.155, 9, None, 2.155, 2.155, 2.155)]
    said = summary_sentence(run, replace(entry, experiment="async_sgd"), summaries, phases, roles)
    reason = why(run, summaries, phases, roles)
    assert all("trainers communicated 58 % of the time" in each and "2.15 updates" in each for each in (said, reason))
    assert number(2.155, unit="updates") == "2.15", "of tiles and exercises"


def test_a_reason_is_a_few_short_lines() -> None:
    assert _in_lines(
        "Why no lock: a write is short, so updates rarely meet; here others wrote 1.5 % of the weights."
    ) == [
        "Why no lock: a write is short, so updates rarely meet.",
        "Here others wrote 1.5 % of the weights.",
    ]
    assert _in_lines("") == []


def test_ranks_that_waited_a_little_are_not_said_to_have_never_waited(home: Home, lab: dict[Status, int]) -> None:
    with Reader.open(home) as reader:
        run, entry = reader.runs.one(lab["finished"]), reader.runs.entry(lab["finished"])

    def said(waited: float) -> str:
        spent = {rank: {"compute": 1000.0, "wait": waited} for rank in (0, 1)}
        return summary_sentence(run, entry, [], spent, ranks("trainer1", "trainer2"))

    assert "trainers waited less than 0.5 % of the time" in said(1.0)
    assert "trainers never waited" in said(0.0)


@pytest.mark.parametrize(
    ("name", "kind", "phases", "expected"),
    [
        ("sync_sgd", "trainer", ("wait", "communicate"), "waited 46 % and communicated 46 % of the time"),
        ("parameter_server", "trainer", ("wait", "communicate"), "waited 46 % and communicated 46 % of the time"),
        (
            "async_sgd",
            "trainer",
            ("wait", "communicate"),
            "waited for a turn at the server 46 % and communicated 46 % of the time",
        ),
        ("batched_reinforce", "observer", ("wait", "communicate"), "waited 46 % and communicated 46 % of the time"),
        ("dppo", "collector", ("wait", "lock"), "waited 46 % and were blocked by locks 46 % of the time"),
        ("fsdp", "trainer", ("wait", "communicate"), "waited 46 % and communicated 46 % of the time"),
        ("tensor_parallel", "rank", ("wait", "communicate"), "waited 46 % and communicated 46 % of the time"),
    ],
)
def test_a_reason_states_the_shares_of_the_sentence_above_it(
    home: Home, lab: dict[Status, int], name: str, kind: str, phases: tuple[str, ...], expected: str
) -> None:
    with Reader.open(home) as reader:
        run, entry = reader.runs.one(lab["finished"]), reader.runs.entry(lab["finished"])
    roles = ranks(f"{kind}1", f"{kind}2")
    spent = {rank: {"compute": 7.2, phases[0]: 46.4, phases[1]: 46.4} for rank in (0, 1)}
    measured = [Summary(metric, None, 4, value, 9, None, value, value, value) for metric, value in NUMBERS.items()]
    of_it = [each for each in measured if each.metric != "perf/bubble_share"]
    above = summary_sentence(replace(run, experiment=name), entry, of_it, spent, roles)
    assert above.count(" 46 %") == 2
    assert expected in why(replace(run, experiment=name, config={"observers": 2}), measured, spent, roles)


def test_the_idle_time_of_a_pipeline_is_one_number_in_both_sentences(home: Home, lab: dict[Status, int]) -> None:
    with Reader.open(home) as reader:
        run, entry = reader.runs.one(lab["finished"]), reader.runs.entry(lab["finished"])
    run = replace(run, experiment="pipeline", config={"splits": 4, "stages": 2})
    measured = [Summary("perf/bubble_share", None, 4, 25.23, 9, None, 25.23, 25.23, 25.23)]
    given = (
        measured,
        {rank: {"compute": 3.0, "wait": 0.8, "communicate": 0.2} for rank in (0, 1)},
        ranks("stage1", "stage2"),
    )
    assert "stages were idle 25.2 % of the time" in summary_sentence(run, entry, *given)
    assert "waited" not in summary_sentence(run, entry, *given)
    assert "here it is 25.2 %" in why(run, *given)


def test_no_overwritten_weight_is_told_by_the_number_of_checks(home: Home, lab: dict[Status, int]) -> None:
    with Reader.open(home) as reader:
        run = replace(reader.runs.one(lab["finished"]), experiment="hogwild", config={})
    none = Summary("perf/overwritten_updates", None, 40, 0.0, 9, None, 0.0, 0.0, 0.0)
    assert "here others wrote 0 % of the sampled weights during a trainer's own write (40 checks)" in why(
        run, [none], {}, []
    )


def test_a_run_of_one_side_of_a_contest_leads_to_the_other(home: Home, lab: dict[Status, int]) -> None:
    config = experiment("batched_reinforce").configure("quick", {}).model_dump(mode="json")
    with Reader.open(home) as reader:
        run = replace(reader.runs.one(lab["finished"]), experiment="batched_reinforce", config=config, preset="quick")
        assert not has_passes(reader, run), "there is no training data"
        labels = {step.label: step.query for step in steps(run, reader)}
    assert "Same, mode batched" not in labels
    assert "mode:per_call" in str(labels["Same, mode per_call"])


def test_a_contest_over_a_count_leads_to_its_other_choice_by_name(home: Home, lab: dict[Status, int]) -> None:
    config = experiment("tensor_parallel").configure("quick").model_dump(mode="json")
    with Reader.open(home) as reader:
        run = replace(reader.runs.one(lab["finished"]), experiment="tensor_parallel", config=config, preset="quick")
        labels = [step.label for step in steps(run, reader)]
    assert labels == ["Same with 1 rank", "Same, sequence parallel true", "Sweep ranks", "Repeat 3 times"]


def test_every_system_has_its_guide_on_its_run_launch_list_and_search() -> None:
    for found in experiments():
        assert guide(found.name) and why_of(found.name), found.name
    assert len(groups()["Experiments"]) == len(experiments())


def test_a_guide_link_opens_a_section_that_exists() -> None:
    for name, anchor in ANSWERS.items():
        page = f"experiments/{name}"
        headings = re.findall(r"^##+ (.+)$", pages()[page].read_text(), re.M)
        assert anchor in {Section(page, "", heading, "").address.partition("#")[2] for heading in headings}


def test_the_link_of_a_reason_opens_the_section_that_answers_it(home: Home, lab: dict[Status, int]) -> None:
    assert ANSWERS.keys() == {found.name for found in experiments()}
    assert "#why-no-lock" in html(opened("run", {"run": str(lab["finished"])}))
