"""The file of `trace ID --out FILE`, opened by Perfetto's own parser: it has the same events as the run's trace."""

from collections import Counter
from pathlib import Path

from click.testing import CliRunner
from playwright.sync_api import Page

from engine.cli import main
from engine.store import Reader, Store
from engine.trace.timeline import RunTrace
from tests.browser.charts.perfetto import perfetto
from tests.browser.conftest import Lab
from tests.browser.test_live import pytestmark, store
from tests.labs import basic
from tests.labs.traced import STEPS, add_trace

__all__ = ["pytestmark", "store"]
SLICES = """
select thread.name as role, slice.name as name, slice.ts as ts, slice.dur as dur
from slice left join thread_track on slice.track_id = thread_track.id left join thread using (utid)
where slice.category is null or slice.category != 'message'
"""
FLOWS = "select a.ts as sent, b.ts as got from flow join slice a on slice_out = a.id join slice b on slice_in = b.id"
ERRORS = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"


def test_perfetto_finds_each_operation_in_its_rank_s_thread_and_each_message(
    lab: Lab, store: Store, page: Page, tmp_path: Path
) -> None:
    run = basic.add(store, "Ada")
    basic.drive(store, lab.home, run, "running")
    add_trace(store, run)
    store.claims.end(run, "finished", "Completed successfully")
    with Reader.open(lab.home) as reader:
        roles = [rank.role for rank in reader.details.ranks(run)]
        trace = RunTrace.of(reader.traces.windows(run), reader.traces.chunks(run), roles)
    file = tmp_path / "trace.json"
    told = CliRunner().invoke(main, ["trace", str(run), "--out", str(file)], env={"PARALLAB_HOME": str(lab.home.path)})
    assert told.exit_code == 0, told.output
    expected: Counter[tuple[str | None, str, int, int]] = Counter()
    for position, entry in enumerate(trace.entries):
        role = None if entry["lane"] else trace.roles[trace.ranks[position]]
        begin, end = int(entry["entered_ns"]), int(entry["left_ns"])
        expected[role, trace.label(position), begin - trace.zero_ns, end - begin] += 1
    with perfetto(page, file.read_bytes()) as parsed:
        assert Counter(parsed.rows(SLICES)) == expected and expected.total() == 4 * STEPS
        flows = parsed.rows(FLOWS)
        assert parsed.rows(ERRORS) == []
    assert len(flows) == len(trace.messages.sent_ns) > 0
    assert all(sent <= got for sent, got in flows)
