"""The launch form: defaults, links, problems, and how numbers, durations and texts are shown."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from app.core.formatting import ago, duration
from app.launch.experiment_picker import reaches
from app.launch.resource_summary import caveats, resources
from app.links.launch import as_path, launch_query, read_link
from app.ui import config_form
from app.ui.html import as_text, facts, number, table
from engine.config_values import value_in_words
from engine.home import Home
from engine.registry import experiment, experiments
from engine.store import Launch, Store
from engine.system.machine import Gpu, Machine, demand, machine
from tests.app.reading import opened
from tests.app.runs.drawn_table import tick

TWO_CORES = Machine(2, (), "a CPU", 8.0)


@pytest.mark.parametrize("name", [one.name for one in experiments()])
def test_bounds_and_expected_results_are_written_out(name: str) -> None:
    found = experiment(name)
    texts = [config_form.help_of(field) for field in found.config.model_fields.values()]
    texts += [reaches(preset) for preset in found.presets.values()]
    assert not [text for text in texts if re.search(r"\de\+\d|\ba [aeiou]", text)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1_000_000.0, "1000000"),
        (1e-5, "1e-05"),
        (None, "none"),
        (True, "true"),
        ([], "none"),
        ([1, 2.5], "1, 2.5"),
        ([["python", 0.5755], ["bash", 1.0]], "python 0.5755, bash 1"),
        ({"name": "A100", "memory": 80}, "name A100, memory 80"),
    ],
)
def test_values_are_written_as_people_write_them(value: object, text: str) -> None:
    assert value_in_words(value) == text


@pytest.mark.parametrize("name", [one.name for one in experiments()])
def test_the_defaults_of_every_experiment_break_no_rule_and_travel_in_a_link(name: str) -> None:
    found = experiment(name)
    config, problems = config_form.check(
        found, {field: info.default for field, info in found.config.model_fields.items()}
    )
    assert config is not None
    assert problems == {}
    found = experiment(name)
    values = found.configure("published").model_dump() | {
        "seed": 7,
        "threads_per_rank": 2,
        "learning_rate": 0.125,
        "device": "cpu",
    }
    query = parse_qs(urlsplit(as_path("/", launch_query(found, "published", values))).query)
    wish = read_link(query["experiment"][0], query["preset"][0], query["set"])
    assert wish.sentences == ()
    assert found.configure(wish.preset, wish.changes).model_dump() == values


def test_each_problem_stands_at_its_field_whose_help_names_its_bounds() -> None:
    found = experiment("hogwild")
    values = found.configure("quick").model_dump()
    config, problems = config_form.check(found, values | {"trainers": 0, "momentum": 1.5, "epochs": None})
    assert config is None
    assert set(problems) == {"trainers", "momentum", "epochs"}
    assert "trainers must be at least 1" in problems["trainers"]
    _, problems = config_form.check(found, found.configure("quick").model_dump() | {"batch_size": 5_000})
    assert list(problems) == ["batch_size"]
    assert "1,437" in problems["batch_size"]
    fields = experiment("hogwild").config.model_fields
    assert config_form.help_of(fields["momentum"]).endswith("Allowed\\: at least 0 and below 1\\.")
    assert config_form.label_of("batch_size", fields["batch_size"]) == "Batch size (samples)"
    fields = experiment("batched_reinforce").config.model_fields
    labels = [config_form.label_of(name, fields[name]) for name in ("timeout_s", "steps", "envs_per_observer")]
    assert labels == ["Timeout (s)", "Steps", "Environments per observer"]


def test_a_setting_without_effect_says_with_which_choice() -> None:
    def notes(test: AppTest) -> list[str]:
        return [each.value.replace("\\", "") for each in test.caption if each.value.startswith("No effect")]

    test = opened("launch", {"experiment": "dppo", "preset": "quick"})
    vtrace = ["No effect with lag_correction clipped"] * 2
    assert notes(test) == ["No effect with mode bounded_queue"] * 2 + vtrace
    assert notes(opened("launch", {"experiment": "dppo", "preset": "lag"})) == vtrace


def test_what_a_run_takes_is_said_and_too_many_ranks_for_the_cores() -> None:
    machine = Machine(16, (Gpu(0, "H200", 140_000),), "a CPU", 128.0)
    config = experiment("hogwild").configure("published")
    shown = dict(resources(config, demand(config, machine), machine))
    assert shown["Ranks"] == "4: trainer1, trainer2, trainer3, trainer4"
    assert shown["GPUs"] == "1 of 1"
    assert "4 ranks share 1 GPU" in " ".join(caveats(config, demand(config, machine), machine))
    config = experiment("hogwild").configure("published")
    said = " ".join(caveats(config, demand(config, TWO_CORES), TWO_CORES))
    assert "4 ranks × 1 thread share 2 cores" in said
    assert "No GPU found" in said
    alone = replace(demand(config, TWO_CORES), ranks=1, threads_per_rank=8)
    assert "1 rank × 8 threads share 2 cores" in " ".join(caveats(config, alone, TWO_CORES))
    config = experiment("hogwild").configure("quick")
    assert "share" not in " ".join(caveats(config, demand(config, TWO_CORES), TWO_CORES))


def test_an_emptied_field_a_value_out_of_bounds_and_a_clone_of_an_old_preset_travel_in_a_link() -> None:
    found = experiment("hogwild")
    query = launch_query(found, "quick", found.configure("quick").model_dump() | {"threads_per_rank": None})
    assert query["set"] == ["threads_per_rank:none"]
    assert read_link("hogwild", "quick", query["set"]).changes == {"threads_per_rank": None}
    wish = read_link("hogwild", "quick", ["trainers:99"])
    assert wish.changes == {"trainers": 99}
    assert wish.sentences == ()
    values = found.configure("quick").model_dump()
    query = launch_query(found, "a preset of last year", values)
    assert "preset" not in query
    assert found.configure(None, read_link("hogwild", None, query["set"]).changes).model_dump() == values


@pytest.mark.parametrize(
    ("name", "preset", "settings", "word"),
    [
        ("hogwyld", None, [], "Did you mean 'hogwild'?"),
        ("hogwild", "quik", [], "Did you mean 'quick'?"),
        ("hogwild", None, ["trainers:many"], "trainers must be a whole number"),
        ("hogwild", None, ["trainer:3"], "Did you mean 'trainers'?"),
        ("hogwild", None, ["trainers"], "Write name:value"),
        ("hogwild", None, ["variant:quantum"], "variant must be one of"),
        ("hogwild", None, ["trainers:none"], "trainers must be a whole number"),
        (None, "quick", [], "must name an experiment"),
    ],
)
def test_nonsense_in_a_link_is_a_sentence(name: str | None, preset: str | None, settings: list[str], word: str) -> None:
    wish = read_link(name, preset, settings)
    assert word in " ".join(wish.sentences)
    assert wish.changes == {}


def test_a_run_in_the_list_links_to_the_form_filled_with_its_settings(home: Home, store: Store) -> None:
    config = experiment("hogwild").configure("quick", {"epochs": 7})
    for name in ("hogwild", "gone"):
        store.runs.add(Launch(name, config.model_dump(mode="json"), "Ada", "quick", demand=demand(config, machine())))
    clones = {
        key: [link.proto.query_string for link in tick(opened("runs"), key).get("page_link") if link.label == "Clone"]
        for key in ("run-1", "run-2")
    }
    query = "experiment=hogwild&preset=quick&set=epochs%3A7&clone=1"
    assert clones == {"run-1": [query], "run-2": []}
    form = opened("launch", parse_qs(query))
    assert [said.value.replace("\\", "") for said in form.caption if "Settings of" in said.value] == [
        "Settings of [run 1](/run?run=1). Preset quick, changed: epochs 7."
    ]
    form = form.segmented_control(key="preset.hogwild").set_value("published").run()
    assert not any("Settings of" in said.value for said in form.caption)


SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (12.4, "12 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
    ],
)
def test_a_duration_reads_as_people_say_it(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("past", "text"),
    [
        (0, "just now"),
        (5, "5 s ago"),
        (61, "1 min ago"),
        (7300, "2 h ago"),
        (200_000, "2 d ago"),
        (95_731_200, "3 y ago"),
    ],
)
def test_a_moment_is_said_by_its_distance(past: float, text: str) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert ago((at - timedelta(seconds=past)).isoformat(timespec="milliseconds").replace("+00:00", "Z"), at) == text


MARKED_UP = [
    "![x](http://evil.example/x.png)",
    "[a](javascript:b)",
    "# big",
    "**b** `c` <img src=x>",
    ":red[x] $x$",
    "- b",
    "| a | b |",
    "_a_ __b__",
]


@pytest.mark.parametrize("text", MARKED_UP)
def test_no_sign_of_a_persons_text_is_left_to_markdown(text: str) -> None:
    shown = as_text(text)
    assert re.sub(r"\\([^A-Za-z0-9\s])", r"\1", shown) == text
    assert not re.search(r"(?<!\\)[!-/:-@\[\]^-`{-~]", shown)


def test_a_name_of_a_setting_is_read_out_as_it_is() -> None:
    assert as_text("weight_decay") == "weight_decay"


def test_tables_hold_no_markup() -> None:
    assert "<script>" not in table(["<script>"], [], caption="<script>") + facts([("<script>", "1")])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (97.78, "97.78"),
        (0.03249, "0.03249"),
        (5036.4, "5,036"),
        (1_234_567, "1,234,567"),
        (3.6e36, "3.6e+36"),
    ],
)
def test_a_number_has_a_few_figures(value: float | None, text: str) -> None:
    assert number(value) == text
