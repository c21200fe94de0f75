"""What runs take on the disk is measured by who watches over them: what changed, some at a time, and not again."""

from pathlib import Path

import pytest

from engine.home import Home
from engine.runner import runner
from engine.runner.runner import Usage, folder_bytes
from engine.store import Reader, Store
from tests.labs import basic


def test_folders_and_points_are_measured_once_and_again_when_they_change(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "AT_ONCE", 3)
    ids = basic.filled(home)
    folder = home.run_folder(ids["finished"])
    (folder / "checkpoint.pt").write_bytes(bytes(5_000_000))
    with Store.open(home) as store, Reader.open(home) as reader:
        meter = Usage()
        assert [meter.look(store) for _ in range(4)] == [3, 3, 2, 0]
        owner = reader.runs.one(ids["finished"]).owner
        points = sum(summary.count + summary.nonfinite for summary in reader.details.summaries(ids["finished"]))
        before = reader.quotas.held(owner).disk_bytes
        assert before >= 5_000_000 + folder_bytes(folder / "logs") + 48 * points
        (folder / "checkpoint.pt").write_bytes(bytes(9_000_000))
        store.annotations.tag([ids["finished"]], "a", by=owner)
        meter._next_at = 0.0
        assert meter.look(store) == 1
        assert reader.quotas.held(owner).disk_bytes == before + 4_000_000


def test_a_folder_is_measured_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(1_000_000))
    inner = tmp_path / "runs" / "1" / "logs"
    inner.mkdir(parents=True)
    (inner / "worker.log").write_bytes(bytes(700))
    (inner / "up").symlink_to(tmp_path)
    assert 700 <= folder_bytes(tmp_path / "runs") < 5_000
    assert folder_bytes(tmp_path / "not there") == 0
