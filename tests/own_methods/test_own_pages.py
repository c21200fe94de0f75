"""The pages with experiments of the lab's own: chosen and launched like ours, and what is wrong with the others."""

import shutil
from pathlib import Path

import pytest

from app.ui import current_user
from engine.home import Home
from engine.registry import own_experiments
from engine.store import Reader, Store
from tests.app.reading import all_words, give_name, opened, said
from tests.stand_in import worker
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.processes
SAMPLES = Path(__file__).with_name("samples")


def test_one_is_launched_from_the_page_and_a_sick_one_is_a_sentence(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gossip", "sick"):
        shutil.copytree(SAMPLES / name, home.experiments / name, ignore=shutil.ignore_patterns("__pycache__"))
    own_experiments(PATIENCE_S)
    page = opened("launch", {"experiment": "gossip", "preset": "quick", "set": "steps:7"})
    assert not page.exception and "Gossip" in [each.value for each in page.header]
    assert "Total: 14 steps" in said(page) and "form.gossip.code" not in page.session_state
    page = opened("launch")
    assert "config.py, line 3: NameError" in page.error[0].value.replace("\\", "")
    assert ":material/hub: Gossip" in page.radio[0].options
    page.radio[0].set_value("gossip").run()
    page.number_input(key="form.gossip.steps").set_value(9).run()
    assert page.button(key="once.launch").disabled, "the browser did not come by the link"
    monkeypatch.setattr(current_user, "why_no_commands", lambda: None)
    give_name(monkeypatch, "ada")
    page.run().button(key="once.launch").click().run()
    assert not page.exception
    with Reader.open(home) as reader:
        run = reader.runs.one(1)
    assert (run.experiment, run.status, run.config["steps"]) == ("gossip", "queued", 9)
    shown = all_words(opened("run", {"run": str(run.id)}))
    assert "Gossip" in shown
    (home.experiments / "gossip" / "config.py").write_text("broken")
    with Store.open(home) as store:
        store.claims.claim(run.id, worker(), [])
        store.worker.begin(run.id, worker(), {})
        store.claims.end(run.id, "failed", "It failed.")
    for name, query in (("run", {"run": str(run.id)}), ("runs", {}), ("home", {}), ("compare", {"runs": str(run.id)})):
        assert all_words(opened(name, query)), name
