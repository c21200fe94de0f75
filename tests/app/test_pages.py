"""Every page opens, whatever the store holds."""

import re
import sqlite3
import subprocess
import sys
from dataclasses import replace

import pytest
from streamlit.runtime.context import ContextProxy
from streamlit.testing.v1 import AppTest

from app.launch import pasted_command
from app.run import live_update, sections
from app.ui import components, current_user
from app.ui.documentation import first_sentence, groups, pages
from app.ui.html import TERMS, term, term_within
from app.ui.navigation import SECTIONS as NAVIGATION
from app.ui.navigation import TITLES
from app.ui.widgets import PAGES
from engine.access.rules import Program
from engine.errors import Forbidden
from engine.home import ROOT, Home
from engine.launch_options import LaunchOptions
from engine.registry import experiment
from engine.rl.kinds import PICTURE
from engine.store import Demand, Launch, Reader, Store
from engine.store.records import ENDED, Run, Status
from engine.system.processes import me
from tests.app.reading import give_name, html, in_form, opened, places, said
from tests.browser.places import EMPTY
from tests.labs import basic, small, sweeps
from tests.waiting import PATIENCE_S

SECTIONS = (*live_update.LIVE, *live_update.STATIC)
STATUSES: tuple[Status, ...] = ("queued", "starting", "running", "stopping", "finished", "failed", "cancelled", "lost")


def test_a_browser_looks_at_every_page_on_an_empty_home() -> None:
    looked_at = {place.path.partition("?")[0].strip("/") or "home" for place in EMPTY}
    assert looked_at == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_on_an_empty_home(home: Home, page: str) -> None:
    test = opened(page)
    assert not test.exception
    assert not test.error
    linked = any(page in pages for pages in NAVIGATION.values())
    assert test.title[0].value == TITLES[page] if linked else test.title[0].value


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_on_a_full_lab_and_says_when_its_store_is_too_new(
    home: Home, lab: dict[Status, int], page: str
) -> None:
    test = opened(page)
    assert not test.exception
    assert not test.error
    with sqlite3.connect(home.database) as database:
        newer = "SELECT migration_set, 'of a later year', applied_at FROM _sqlite_migrations LIMIT 1"
        database.execute(f"INSERT INTO _sqlite_migrations (migration_set, name, applied_at) {newer}")
    database.close()
    test = opened(page, {"run": str(lab["finished"])} if page == "run" else {})
    assert not test.exception
    assert "newer" in said(test)


def test_no_control_moves_when_the_runner_starts_or_a_command_is_wrong(
    home: Home, lab: dict[Status, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"run": {"run": str(lab["queued"])}, "launch": {"command": ""}}
    troubled = {page: opened(page, asked.get(page)) for page in PAGES}
    warned = {page for page, test in troubled.items() if any("No runner" in each.value for each in test.warning)}
    assert {"launch", "runs", "home"} < warned
    monkeypatch.setattr("app.ui.widgets.runner_trouble", lambda reader: "")
    for page in sorted(warned):
        then, now = places(troubled[page]), places(opened(page, asked.get(page)))
        assert now and now.items() <= then.items(), page
    test = opened("launch", asked["launch"])
    before = places(test)
    for key, value in ((pasted_command.FOLDER, "/gone"), (pasted_command.TEXT, "python 'train.py")):
        test.session_state[key] = value
        test.run()
        assert before.items() <= places(test).items(), value


def test_a_run_is_shown_in_every_status(home: Home, lab: dict[Status, int]) -> None:
    assert {*lab} == {*STATUSES}
    for status, run_id in lab.items():
        test = opened("run", {"run": str(run_id)})
        assert not test.exception and not test.error, status
        assert test.title[0].value.startswith(f"Run {run_id}")
        assert f"{status}" in said(test)
        offered = [button.label for button in test.button if button.label in ("Cancel", "Kill")]
        assert offered == ([] if status in ENDED else ["Kill"] if status == "stopping" else ["Cancel"]), status


def test_every_section_of_a_run_opens_by_its_link(home: Home, lab: dict[Status, int]) -> None:
    with Store.open(home) as store:
        basic.keep(store, lab["finished"], "a.txt", b"a")
    for section in SECTIONS:
        test = opened("run", {"run": str(lab["finished"]), "section": section})
        assert not test.exception, section
        machine = section == live_update.MACHINE  # a tab of earlier versions, now a fold of the first
        assert test.button_group(key="section").value == ("Overview" if machine else section)
        assert any("CPU" in each.value for each in test.markdown) == machine, section


def test_an_episode_that_is_drawn_while_its_runs_page_is_made_is_offered_by_the_next(
    home: Home, lab: dict[Status, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, frames = lab["running"], []

    def late(run: Run, reader: Reader) -> None:
        (folder := home.run_folder(run_id)).mkdir(parents=True, exist_ok=True)
        (folder / PICTURE).write_bytes(b"GIF")

    monkeypatch.setitem(sections.SECTIONS, "Overview", late)
    monkeypatch.setattr(components, "standing", lambda run, section, frame, version, active: frames.append(frame))
    test = opened("run", {"run": str(run_id)})
    assert "Episode" not in test.button_group(key="section").options
    assert live_update.standing(home, run_id, "Overview").token != frames[-1], "the page is asked to run again"
    assert "Episode" in opened("run", {"run": str(run_id)}).button_group(key="section").options


NO_RUN = {
    "99": "Run 99 doesn't exist",
    "abc": "The id of a run is a number",
    "-1": "The id of a run is a number",
    "9" * 30: "The id of a run is a number",
    "[x](http://evil)": "Run [x](http://evil) doesn't exist",
}


def test_a_broken_link_says_what_doesn_t_exist_and_leads_to_what_does(home: Home, lab: dict[Status, int]) -> None:
    for wanted, sentence in NO_RUN.items():
        test = opened("run", {"run": wanted})
        assert not test.exception, wanted
        assert sentence in said(test)
    for page, path in (("run", "/runs"), ("sweep", "/sweep"), ("duel", "/duel")):
        for wanted in ("99", "x"):
            test = opened(page, {page: wanted})
            titles = [title.value.replace("\\", "") for title in test.title]
            assert titles == [f"{page.capitalize()} {wanted} doesn't exist"]
            assert not test.error, titles
            assert f'<a href="{path}">See all {page}s</a>' in html(test)
            assert not names_a_path(home, test)
    test = opened("compare", {"runs": "99"})
    assert "99" in said(test) and not names_a_path(home, test)


def names_a_path(home: Home, test: AppTest) -> bool:
    return any(shown in said(test) for shown in (str(home.path), home.database.name))


@pytest.mark.parametrize(
    ("path", "first"),
    [("/machin", "Machine"), ("/a/RUNS", "Runs"), ("/[x](//evil)", "Home"), ("/" + "a" * 3_000, "Home")],
)
def test_an_unknown_address_leads_to_pages_with_a_similar_name(home: Home, path: str, first: str) -> None:
    test = opened("not_found", {"path": path})
    assert test.title[0].value == "Page not found"
    assert f"There is no page at {path[:100]}." in test.text[0].value
    assert next(element.proto.label for element in test.get("page_link")) == first


@pytest.mark.parametrize(
    ("page", "sentence", "label"),
    [
        ("runs", "Runs and their results appear here", "Launch a run"),
        ("run", "The newest runs appear here", "Launch a run"),
        ("compare", "the runs that you select appear here", "Launch a run"),
        ("scaling", "to see its speed-up here", "Launch a sweep"),
        ("sweep", "its chart and table appear here", "Launch a sweep"),
    ],
)
def test_an_empty_page_says_what_will_be_on_it_and_offers_what_brings_it(
    home: Home, page: str, sentence: str, label: str
) -> None:
    test = opened(page)
    assert sentence in said(test)
    assert label in [element.proto.label for element in test.get("page_link")]


@pytest.mark.parametrize(
    "name", [path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")]
)
def test_every_page_of_the_documentation_opens_with_its_pictures(home: Home, name: str) -> None:
    text = (ROOT / "docs" / f"{name}.md").read_text()
    test = opened("docs", {"page": name})
    assert not test.exception
    assert f"# {test.title[0].value}\n" in text
    shown = " ".join(element.value for element in test.markdown)
    assert "![" not in shown
    assert not re.findall(r"\]\((?!https?:|/docs\?page=)[^)]*\)", shown)


def test_the_list_of_the_documentation_says_what_each_page_is_about(home: Home) -> None:
    test = opened("docs")
    assert [header.value for header in test.header] == ["Use", "Run a lab", "Experiments", "Develop"]
    entries = [re.sub("<[^>]+>", "\n", each.proto.body).split("\n") for each in test.get("html")]
    lines = [[part for part in each if part] for each in entries if any("Operations" in part for part in each)]
    assert lines == [["Operations", "How to keep a lab running."]]
    named = [name for names in groups().values() for name in names]
    assert not [name for name in named if not 10 < len(first_sentence(pages()[name])) <= 160]


def test_a_page_that_the_documentation_lacks_is_named_and_no_other_file_is_shown(home: Home) -> None:
    for name in ("nothing", "../README", "/etc/passwd"):
        test = opened("docs", {"page": name})
        assert test.title[0].value == "Documentation"
        assert "doesn't exist" in test.text[0].value


def test_a_term_is_explained_in_at_most_two_sentences() -> None:
    assert list(TERMS) == sorted(TERMS)
    assert not [name for name, meaning in TERMS.items() if not 1 <= len(re.findall(r"[.](?: |$)", meaning)) <= 2]
    assert not [name for name, meaning in TERMS.items() if not meaning.endswith(".")]
    assert f'data-term="rank" title="{TERMS["rank"]}"' in term("Ranks", "rank")
    assert term("Unknown & new") == "Unknown &amp; new"
    assert term_within("2 updates old.", "updates old", "staleness") == f"2 {term('updates old', 'staleness')}."
    assert term_within("Nothing stale.", "updates old", "staleness") == "Nothing stale."


def test_an_empty_lab_is_offered_a_quick_run_and_a_link_fills_the_form(home: Home) -> None:
    test = opened("launch")
    assert any(button.label == "Run quick Hogwild!" for button in test.button)
    least = experiment("hogwild").preset("quick").expects["test/accuracy"]
    assert f"at least {least:g}" in said(test)
    test = opened(
        "launch",
        {
            "experiment": "hogwild",
            "preset": "tuned",
            "set": ["trainers:3", "learning_rate:0.25", "lock:true", "variant:engine"],
        },
    )
    assert test.number_input(key="form.hogwild.trainers").value == 3
    assert test.number_input(key="form.hogwild.learning_rate").value == 0.25
    assert (
        test.number_input(key="form.hogwild.epochs").value
        == experiment("hogwild").configure("tuned").model_dump()["epochs"]
    )
    assert test.toggle(key="form.hogwild.lock").value is True
    test = opened("launch", {"experiment": "hogwild", "preset": "quik", "set": ["trainers:many", "epochs:3", "evil"]})
    assert not test.exception
    words = " ".join(warning.value for warning in test.warning).replace("\\", "")
    assert "Did you mean 'quick'?" in words
    assert "trainers must be a whole number" in words
    assert test.number_input(key="form.hogwild.epochs").value == 3


def test_a_broken_rule_bars_the_launch_and_another_preset_or_experiment_fills_the_form_anew(home: Home) -> None:
    test = opened("launch", {"experiment": "hogwild", "preset": "quick"})
    assert not test.button(key="once.launch").disabled
    test.number_input(key="form.hogwild.trainers").set_value(99).run()
    assert any("trainers must be at most 64" in text.value.replace("\\", "") for text in test.markdown)
    assert test.button(key="once.launch").disabled
    test.number_input(key="form.hogwild.trainers").set_value(2)
    test.number_input(key="form.hogwild.evaluate_every").set_value(31).run()
    caution = "evaluate_every is 31 epochs, but the run has 30: it is tested only at the end."
    assert said(test).count(caution) == 1
    test.toggle(key="sweep.on.hogwild").set_value(True).run()
    assert said(test).count(caution) == 1 and not test.button(key="once.launch").disabled
    test.toggle(key="sweep.on.hogwild").set_value(False).run()
    test.button_group(key="preset.hogwild").set_value("published").run()
    assert in_form(test)["form.hogwild.trainers"] == 4
    assert test.query_params["preset"] == "published"
    test = opened("launch")
    test.radio(key="launch.experiment").set_value("reference").run()
    assert not test.exception
    assert "Reference" in [heading.value for heading in test.header]


def test_without_a_name_a_launch_asks_for_it_and_queues_nothing(home: Home, reader: Reader) -> None:
    test = opened("launch")
    test.button(key="once.launch").click().run()
    assert not test.exception
    assert reader.runs.count() == 0


def test_a_launch_queues_the_run_of_the_form_under_the_persons_name(home: Home, reader: Reader) -> None:
    test = opened("launch", {"experiment": "hogwild", "preset": "quick"})
    test.session_state["person"] = "Ada"
    test.number_input(key="form.hogwild.seed").set_value(5).run()
    test.button(key="once.launch").click().run()
    run = reader.runs.one(1)
    assert (run.owner, run.status, run.preset, run.config["seed"], run.config["dataset"]) == (
        "Ada",
        "queued",
        None,
        5,
        "digits",
    )


def test_the_launch_form_takes_a_time_limit_and_retries(home: Home, reader: Reader) -> None:
    test = opened("launch", {"experiment": "hogwild", "preset": "quick"})
    test.session_state["person"] = "Ada"
    test.number_input(key="launch.max_run_time_s").set_value(90.0)
    test.number_input(key="launch.max_retries").set_value(2).run()
    assert "Options: time limit 1 min 30 s, 2 retries if lost." in said(test)
    test.button(key="once.launch").click().run()
    assert not test.exception
    assert reader.runs.one(1).terms == LaunchOptions(max_run_time_s=90.0, max_retries=2)


def test_a_cancel_asks_first_and_a_second_click_offers_a_kill(
    home: Home, lab: dict[Status, int], reader: Reader
) -> None:
    test = opened("run", {"run": str(lab["running"])})
    test.button(key=f"cancel-{lab['running']}").click().run()
    assert [button.label for button in test.button if button.label in ("Cancel run", "Keep running")] == [
        "Cancel run",
        "Keep running",
    ]
    assert reader.runs.one(lab["running"]).status == "running"
    test = opened("run", {"run": str(lab["queued"])})
    test.button(key=f"cancel-{lab['queued']}").click().run()
    assert [button.label for button in test.button][-2:] == ["Cancel run", "Keep it"]
    test = opened("run", {"run": str(lab["stopping"])})
    assert test.button(key=f"cancel-{lab['stopping']}").label == "Kill"
    test.button(key=f"cancel-{lab['stopping']}").click().run()
    assert [button.label for button in test.button][-2:] == ["Kill now", "Wait"]

    def script(run_id: int) -> None:
        from app.ui import widgets
        from engine.home import Home
        from engine.store import Reader

        with Reader.open(Home.find()) as reader:
            widgets.ask_cancel(reader.runs.one(run_id))

    test = AppTest.from_function(script, kwargs={"run_id": lab["stopping"]}, default_timeout=PATIENCE_S).run()
    test.session_state["person"] = "Ada"
    next(button for button in test.button if button.label == "Kill now").click().run()
    assert not test.exception
    run = reader.runs.one(lab["stopping"])
    assert (run.status, run.stop_kind, reader.details.events(run.id)[-1].kind) == ("stopping", "force", "forced")
    shown = opened("run", {"run": str(lab["stopping"])})
    assert any("processes are being killed" in element.proto.body for element in shown.get("html"))
    labels = {button.label for button in shown.button}
    assert not labels & {"Cancel", "Kill"}, "there is nothing stronger to ask for"


def test_the_cancel_dialog_of_a_run_that_ended_meanwhile_says_so(home: Home, store: Store) -> None:
    def script(run_id: int) -> None:
        from app.actions.queue_actions import ask_cancel_all
        from app.ui import widgets
        from engine.home import Home
        from engine.store import Reader

        with Reader.open(Home.find()) as reader:
            run = reader.runs.one(run_id)
        if run_id % 2:
            widgets.ask_cancel(run)
        else:
            ask_cancel_all([run_id])

    for run_id in [store.runs.add(Launch("hogwild", {}, "Ada", demand=Demand(1, 0, 1, 1))) for _ in range(2)]:
        test = AppTest.from_function(script, kwargs={"run_id": run_id}, default_timeout=PATIENCE_S).run()
        order = next(button for button in test.button if button.label.startswith("Cancel"))
        store.runs.cancel(run_id, by="Ada")
        order.click().run()
        assert not test.exception and not test.error
        assert [button.label for button in test.button] == ["Close"]
        assert "nothing to cancel" in said(test)


def test_a_run_whose_worker_and_runner_are_gone_is_said_to_wait_for_the_next_runner(home: Home, store: Store) -> None:
    run_id = store.runs.add(Launch("hogwild", {}, "Ada", demand=Demand(2, 0, 2, 1)))
    store.claims.claim(run_id, replace(me(), started_ticks=1), (0, 1))
    shown = said(opened("machine"))
    assert f"Run {run_id} is starting, but its worker is gone and no runner is running." in shown
    test = opened("run", {"run": str(run_id)})
    assert "The worker is gone and no runner is running." in said(test) + "".join(
        each.proto.body for each in test.get("html")
    )


def test_a_stopped_runner_is_started_from_the_page_by_those_who_may(
    home: Home, lab: dict[Status, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(home) as store:
        store.people.add("Ada", "admin", by=Program("first"))
        store.people.add("Mo", "member", by="Ada")
        store.access.permit("stop runner", by="Ada")
        secrets = {name: store.sign_ins.begin(name, "password") for name in ("Ada", "Mo")}
        with pytest.raises(Forbidden):
            store.access.permit("stop runner", by="Mo")
    monkeypatch.setattr("app.ui.widgets.ensure_running", lambda home: small.without_a_runner(home))
    monkeypatch.setattr("app.ui.current_user._cookies", lambda: {"parallab_session": secrets["Mo"]})
    test = opened("home")
    assert "No runner is running, so queued runs wait. Ada stopped it at 2" in said(test)
    assert "Ask an admin to start it." in said(test)
    assert test.button(key="start-runner").disabled
    monkeypatch.setattr("app.ui.current_user._cookies", lambda: {"parallab_session": secrets["Ada"]})
    test = opened("home")
    assert "Start it here, or with" in said(test)
    test = test.button(key="start-runner").click().run()
    assert not test.exception
    assert "runner" not in said(test)
    with Reader.open(home) as reader:
        assert reader.runner.current() is not None
        entry = reader.audit.entries(command="start runner")[0]
    assert (entry.who, entry.role) == ("Ada", "admin")
    with Store.open(home) as store:
        store.runner.remove()
    monkeypatch.setenv("PARALLAB_RUNNER", "separate")
    test = opened("home")
    assert "`systemctl start parallab-runner`" in said(test)
    assert not [one for one in test.button if one.key == "start-runner"]


def test_a_runs_note_and_tags_are_kept_and_a_missing_runner_is_said(home: Home, lab: dict[Status, int]) -> None:
    run_id = lab["finished"]
    test = opened("run", {"run": str(run_id), "section": "Notes"})
    test.session_state["person"] = "Ada"
    test.text_input(key=f"tags-{run_id}").set_value('best, "a, b", for the paper').run()
    test.text_area(key=f"note-{run_id}").set_value("Keep <b>this</b>.").run()
    test.button(key=f"save-{run_id}").click().run()
    again = opened("run", {"run": str(run_id), "section": "Notes"})
    again.button(key=f"save-{run_id}").click().run()
    with Reader.open(home) as reader:
        run = reader.runs.one(run_id)
    assert (run.tags, run.note) == (("a, b", "best", "for the paper"), "Keep <b>this</b>.")
    assert "No runner is running" in said(opened("runs"))
    assert "No runner is running" in said(opened("run", {"run": str(lab["queued"])}))
    small.without_a_runner(home)
    assert "runner" not in said(opened("runs"))
    with Store.open(home) as store, store.db.change() as connection:
        connection.execute("UPDATE runner SET heartbeat_at = '2020-01-01T00:00:00.000Z'")
    assert "The runner last reported" in said(opened("runs"))
    test = opened("launch", {"experiment": "hogwild", "preset": "quick"})
    test.session_state["person"] = "Ada"
    with sqlite3.connect(home.database, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        test.button(key="once.launch").click().run()
        other.execute("ROLLBACK")
    other.close()
    assert not test.exception
    assert len(test.error) == 1
    with Reader.open(home) as reader:
        assert reader.runs.count() == len(lab)


def test_a_persons_name_is_never_read_as_markup(home: Home, store: Store) -> None:
    basic.add(store, "![x](http://evil.example/x.png)<img src=x>")
    for page, query in (
        ("runs", {}),
        ("run", {"run": "1"}),
        ("run", {"run": "1", "section": "Events"}),
    ):
        test = opened(page, query)
        assert not test.exception
        assert "<img" not in html(test)
        assert "![x](http" not in " ".join(element.value for element in test.markdown)


@pytest.mark.processes
def test_no_page_loads_torch() -> None:
    script = f"""
import sys
from tests.app import quick_pages
from streamlit.testing.v1 import AppTest
for page in {[str(path) for path in PAGES.values()]!r}:
    AppTest.from_file({str(ROOT / "app" / "main.py")!r}, default_timeout={PATIENCE_S}).switch_page(page).run()
print(sorted(set(sys.modules) & {{"torch", "torchvision"}}))
"""
    answer = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert answer.stdout.strip() == "[]", answer.stderr


@pytest.mark.parametrize(("page", "of"), [("launch", "experiment=hogwild"), ("run", "run=1"), ("sweep", "sweep=1")])
def test_a_link_to_copy_names_its_host(home: Home, monkeypatch: pytest.MonkeyPatch, page: str, of: str) -> None:
    sweeps.pipeline(home, {"splits": [1, 2]})
    monkeypatch.setattr(ContextProxy, "url", property(lambda _: "https://lab.example:8443/somewhere"))
    links = [code.value for code in opened(page, dict([of.split("=")])).code if "?" in code.value]
    assert links[0].startswith(f"https://lab.example:8443/{page}?{of}")
    assert all(link.startswith(f"https://lab.example:8443/{page}?") for link in links)


@pytest.mark.parametrize("action", ["Star", "Save", "Hold", "Import", "Pause"])
def test_each_action_that_records_a_name_asks_for_it_first(
    home: Home, lab: dict[Status, int], reader: Reader, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    sweep_id, _ = sweeps.pipeline(home, {"splits": [1, 2]})
    page, query = {
        "Star": ("run", {"run": str(lab["finished"])}),
        "Save": ("run", {"run": str(lab["finished"]), "section": "Notes"}),
        "Hold": ("run", {"run": str(lab["queued"])}),
        "Import": ("runs", {}),
        "Pause": ("sweep", {"sweep": str(sweep_id)}),
    }[action]
    test = opened(page, query)
    if action == "Save":
        test.text_input(key=f"name-{lab['finished']}").set_value("long").run()

    def press() -> AppTest:
        return next(button for button in test.button if button.label == action).click().run()

    def recorded() -> dict[str, bool]:
        return {
            "Star": reader.runs.one(lab["finished"]).starred_by == "Ada",
            "Save": reader.runs.one(lab["finished"]).name == "long",
            "Hold": reader.runs.one(lab["queued"]).held_by == "Ada",
            "Import": bool(test.get("file_uploader")),
            "Pause": reader.sweeps.one(sweep_id).paused,
        }

    before = recorded()
    assert current_user.WHY in said(press()) and recorded() == before
    give_name(monkeypatch, "Ada")
    press()
    assert not test.exception and recorded() == before | {action: not before[action]}
