"""The command palette finds what the visitor may open, and no more than fits."""

from collections.abc import Mapping

import pytest

from app.core.visitor import COOKIE
from app.ui import documentation
from app.ui.documentation import PAGE_GUIDES
from app.ui.navigation import TITLES
from engine.home import Home
from engine.registry import experiments
from engine.store import Store
from engine.store.records import Status
from tests.app.browsing import Client
from tests.labs import basic, duel, people, sweeps

Lab = dict[Status, int]


def items(words: str, cookies: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
    """Return what the palette offers: address by label, by group."""
    header = {"cookie": "; ".join(f"{name}={value}" for name, value in (cookies or {}).items())}
    answer = Client().get("/api/palette", params={"q": words}, headers=header)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    found: dict[str, dict[str, str]] = {}
    for item in answer.json()["found"]:
        found.setdefault(item["group"], {})[item["label"]] = item["href"]
    return found


def test_without_words_it_offers_the_newest_runs_and_every_page(lab: Lab) -> None:
    found = items("")
    assert list(found["Recent runs"].values()) == [
        f"/run?run={run_id}" for run_id in sorted(lab.values(), reverse=True)[:5]
    ]
    assert found["Pages"]["Home"] == "/"
    assert found["Pages"]["Compare"] == "/compare"
    assert "Account" not in found["Pages"]
    assert found["Pages"]["People"] == "/people", "it explains how to create the first account"


def test_runs_are_found_by_id_name_experiment_and_owner(lab: Lab, store: Store) -> None:
    store.annotations.rename(lab["finished"], "Does momentum help?", by="Ada")
    address = f"/run?run={lab['finished']}"
    assert next(iter(items(f"run {lab['finished']}"))) == "Runs", "before the page of this name"
    for words in (f"run {lab['finished']}", f"#{lab['finished']}", "momentum", "does HELP", "hogwild! momentum"):
        assert next(iter(items(words)["Runs"].values())) == address, words
    assert len(items("grace")["Runs"]) == 4
    assert items("nobody wrote this") == {}
    assert items("nothing has this name") == {}, "its words are scattered over long sections of the guides"
    assert items("' OR 1=1 --%") == {}


def test_a_run_that_is_asked_for_by_its_id_comes_before_newer_ones_that_contain_the_number(store: Store) -> None:
    first = basic.add(store, "Ada")
    for number in range(10):
        store.annotations.rename(basic.add(store, "Ada"), f"try 1 of {number}", by="Ada")
    found = list(items(str(first))["Runs"].values())
    assert (found[0], len(found)) == (f"/run?run={first}", 8)


def test_experiments_lead_to_the_form_and_views_to_their_address(home: Home, store: Store) -> None:
    store.views.save("Losses & gains", "compare", "runs=1,2&x=time", owner="Ada")
    assert items("hogwild")["Experiments"] == {"Launch Hogwild!": "/launch?experiment=hogwild"}
    assert items("losses")["Saved views"] == {"Losses & gains": "/compare?runs=1,2&x=time"}
    assert len(items("l")["Saved views"]) == 1
    for number in range(20):
        store.views.save(f"Losses {number}", "compare", f"runs={number}", owner="Ada")
    assert len(items("losses")["Saved views"]) == 6


def test_sweeps_and_duels_are_found_by_number_name_and_owner(home: Home) -> None:
    sweep_id, _ = sweeps.pipeline(home, {"splits": (1, 2)}, title="Find the sweet spot")
    duel_id = duel.launched(home)
    address = f"/sweep?sweep={sweep_id}"
    for words in (f"sweep {sweep_id}", "sweet", "ada spot"):
        assert items(words)["Sweeps"][f"Sweep {sweep_id}: Find the sweet spot"] == address, words
    assert items(f"duel {duel_id}")["Duels"] == {f"Duel {duel_id}": f"/duel?duel={duel_id}"}


def test_terms_and_what_a_page_is_about_are_found_too(home: Home) -> None:
    assert items("staleness")["Glossary"] == {"staleness": "#term=staleness"}
    assert items("micro batch")["Glossary"] == {"micro-batch": "#term=micro-batch"}
    assert list(items("step")["Glossary"]) == ["step", "environment step"], "the term itself first"
    assert items("disturbed")["Glossary"] == {"disturbance": "#term=disturbance"}
    assert items("hang exercise")["Exercises"] == {"Diagnose a hang": "/exercises?exercise=diagnose_a_hang"}
    assert items("fault museum")["Pages"] == {"Museum": "/museum"}


def test_with_accounts_it_offers_what_the_role_allows_and_nothing_to_who_is_signed_out(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.fill(home)
    assert Client().get("/api/palette").status_code == 401
    ada, vera = ({COOKIE: people.sign_in(home, monkeypatch, name)} for name in ("ada", "vera"))
    assert {"People", "Account"} <= set(items("", ada)["Pages"])
    assert "Experiments" in items("hogwild", ada)
    assert "People" not in items("", vera)["Pages"]
    assert "Account" in items("", vera)["Pages"]
    assert "Experiments" not in items("hogwild", vera)
    assert len(items("mo", vera)["Runs"]) == 5


def test_addresses_keep_the_base_path(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARALLAB_BASE", "/lab")
    answer = Client().get("/lab/api/palette", params={"q": "runs"})
    assert [item["href"] for item in answer.json()["found"] if item["label"] == "Runs"] == [
        "/lab/runs",
        "/lab/docs?page=runs",
    ]
    for address in ("/lab", "/lab/", "/lab/run"):
        page = Client().get(address)
        assert (page.status_code, 'data-search="/lab/api/palette"' in page.text) == (200, True), address


def test_a_sweep_comes_before_its_runs_and_runs_come_first_where_a_number_is_asked_for(home: Home) -> None:
    sweep_id, _ = sweeps.pipeline(home, {"splits": [1, 2]}, title="Find the sweet spot")

    def groups(words: str) -> list[str]:
        return [group for group in items(words) if group in ("Runs", "Sweeps")]

    assert groups("sweet spot") == ["Sweeps", "Runs"]
    assert groups(f"{sweep_id} sweet") == ["Runs", "Sweeps"]


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("API", "api"),
        ("multi-node", "cluster"),
        ("own script", "api"),
        ("password", "signing-in"),
        ("backup", "operations"),
        ("mlflow", "operations"),
        ("tensorboard", "operations"),
        ("export csv", "compare"),
        ("slurm", "cluster"),
        ("docker", "deployment"),
        ("https", "deployment"),
        ("quota", "people"),
        ("slack", "notifications"),
        ("token", "api"),
        ("stuck", "timeline"),
        ("seed", "sweeps"),
        ("filter", "filter"),
        ("help", "tour"),
        ("getting started", "tour"),
        ("hogwild", "experiments/hogwild"),
        ("bounded queue", "experiments/dppo"),
        ("micro-batch", "experiments/pipeline"),
        ("why no lock", "experiments/hogwild"),
        ("why stale", "experiments/async_sgd"),
        ("dppo guide", "experiments/dppo"),
        ("hogwild guide", "experiments/hogwild"),
        ("REINFORCE batching", "experiments/batched_reinforce"),
        ("dppo cheatsheet", "experiments/dppo"),
        ("how do I create users", "people"),
    ],
)
def test_what_a_newcomer_types_finds_the_help(lab: Lab, words: str, page: str) -> None:
    assert any(address.startswith(f"/docs?page={page}") for address in items(words)["Help"].values()), items(words)


@pytest.mark.parametrize("words", ["people", "accounts", "users", "create account", "add students", "reset passwords"])
def test_what_an_admin_types_offers_the_page_before_its_documentation(home: Home, words: str) -> None:
    found = items(words)
    assert found["Pages"]["People"] == "/people"
    assert "Help" not in found or list(found).index("Pages") < list(found).index("Help")


def test_guide_leads_to_the_guide_of_each_experiment_and_partial_matches_follow_whole_ones(home: Home) -> None:
    guides = {f"/docs?page=experiments/{one.name}" for one in experiments()}
    assert guides == set([*items("guide")["Help"].values()][: len(guides)]), "they come first"
    assert list(items("hogwild guide")["Help"].values()) == ["/docs?page=experiments/hogwild"]
    assert next(iter(items("pipeline guide")["Help"].values())) == "/docs?page=experiments/pipeline"
    assert next(iter(items("pipeline guide"))) == "Help", "before the page that lists all guides"
    assert next(iter(items("guides"))) == "Pages"
    assert list(items("run 1")) == ["Help"], "a number is of runs, whose search comes first"
    assert items("hogwild nonsense")["Experiments"] == {"Launch Hogwild!": "/launch?experiment=hogwild"}


def test_each_page_of_the_console_has_a_page_of_documentation() -> None:
    named = {"/" if page == "home" else f"/{page}" for page in TITLES}
    assert named - PAGE_GUIDES.keys() == {"/docs", "/not_found"}
    assert {name.partition("#")[0] for name in PAGE_GUIDES.values()} <= documentation.pages().keys()


@pytest.mark.parametrize(
    ("word", "page", "heading"),
    [
        ("report a run from my own script", "api", "Report a run from your own script"),
        ("log from own script", "api", ""),
        *((program, "runs", "Import TensorBoard and MLflow runs") for program in ("tensorboard", "mlflow")),
        ("backup", "operations", "Backup and restore"),
        ("crash", "fault-matrix", ""),
    ],
)
def test_the_section_that_a_word_is_the_heading_of_comes_before_introductions(
    word: str, page: str, heading: str
) -> None:
    first = documentation.search(word.split())[0]
    assert (first.page, first.heading) == (page, heading)
    said = documentation.excerpt(first, word.split())
    assert word in said.lower() or word not in first.text.lower()
