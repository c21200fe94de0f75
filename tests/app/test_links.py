from urllib.parse import parse_qs, urlsplit

import pytest

from app.links import as_path, launch_query, read_link
from engine.home import Home
from engine.registry import experiment, experiments
from engine.runtime.machine import demand, machine
from engine.store import Store
from tests.app.test_pages import opened


@pytest.mark.parametrize("name", [one.name for one in experiments()])
def test_a_link_brings_back_every_value_of_a_form(name: str) -> None:
    found = experiment(name)
    values = found.configure("published").model_dump() | {"seed": 7, "threads_per_rank": 2, "learning_rate": 0.125, "device": "cpu"}
    query = parse_qs(urlsplit(as_path("/", launch_query(found, "published", values))).query)
    wish = read_link(query["experiment"][0], query["preset"][0], query["set"])
    assert wish.sentences == ()
    assert found.configure(wish.preset, wish.changes).model_dump() == values


def test_an_emptied_field_travels_in_a_link() -> None:
    found = experiment("hogwild")
    query = launch_query(found, "quick", found.configure("quick").model_dump() | {"threads_per_rank": None})
    assert query["set"] == ["threads_per_rank:none"]
    assert read_link("hogwild", "quick", query["set"]).changes == {"threads_per_rank": None}


def test_a_value_out_of_bounds_is_kept_for_the_form_to_point_at() -> None:
    wish = read_link("hogwild", "quick", ["trainers:99"])
    assert wish.changes == {"trainers": 99}
    assert wish.sentences == ()


@pytest.mark.parametrize(
    ("name", "preset", "settings", "word"),
    [
        ("hogwyld", None, [], "Did you mean 'hogwild'?"),
        ("hogwild", "quik", [], "Did you mean 'quick'?"),
        ("hogwild", None, ["trainers:many"], "trainers must be a whole number"),
        ("hogwild", None, ["trainer:3"], "Did you mean 'trainers'?"),
        ("hogwild", None, ["trainers"], "written name:value"),
        ("hogwild", None, ["variant:quantum"], "variant must be one of"),
        ("hogwild", None, ["trainers:none"], "trainers must be a whole number"),
        (None, "quick", [], "names its experiment"),
    ],
)
def test_nonsense_in_a_link_is_a_sentence(name: str | None, preset: str | None, settings: list[str], word: str) -> None:
    wish = read_link(name, preset, settings)
    assert word in " ".join(wish.sentences)
    assert wish.changes == {}


def test_a_preset_that_is_gone_is_left_out_of_a_clone() -> None:
    found = experiment("hogwild")
    values = found.configure("quick").model_dump()
    query = launch_query(found, "a preset of last year", values)
    assert "preset" not in query
    assert found.configure(None, read_link("hogwild", None, query["set"]).changes).model_dump() == values


def test_a_run_in_the_list_links_to_the_form_filled_with_its_settings(home: Home) -> None:
    with Store.open(home) as store:
        config = experiment("hogwild").configure("quick", {"epochs": 7})
        for name in ("hogwild", "gone"):
            store.add_run(name, config.model_dump(mode="json"), owner="Ada", demand=demand(config, machine()), preset="quick")
    rows = [element.proto.body for element in opened("runs").get("html") if 'class="pl-row"' in element.proto.body]
    assert ["Clone" in row for row in rows] == [False, True]
    assert 'href="/launch?experiment=hogwild&amp;preset=quick&amp;set=epochs:7"' in rows[1]
