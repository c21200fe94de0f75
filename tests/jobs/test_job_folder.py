"""A job's folder is its user's alone."""

import os
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.runtime.worker.job_folder import JobFolder, LinkAddress, check_owner


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_of_jobs_that_others_can_change_is_refused(tmp_path: Path, mode: int) -> None:
    jobs = tmp_path / "parallab-jobs"
    jobs.mkdir()
    jobs.chmod(mode)
    with pytest.raises(ConfigError, match="other users"):
        check_owner(jobs)


def test_a_link_in_place_of_the_folder_of_jobs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "parallab-jobs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="other users"):
        check_owner(tmp_path / "parallab-jobs")


def test_a_folder_of_jobs_is_made_private(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):  # it may only not be mounted
        check_owner(tmp_path / "shared" / "parallab-jobs")
    (tmp_path / "shared").mkdir()
    check_owner(tmp_path / "shared" / "parallab-jobs")
    assert (tmp_path / "shared" / "parallab-jobs").stat().st_mode & 0o777 == 0o700


def test_the_key_of_a_link_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    assert folder.link() is None
    before = os.umask(0)
    try:
        folder.tell_link(LinkAddress(host="127.0.0.1", port=1, key="00"))
    finally:
        os.umask(before)
    assert folder.link() == LinkAddress(host="127.0.0.1", port=1, key="00")
    assert (tmp_path / "link.json").stat().st_mode & 0o777 == 0o600


def test_a_request_to_stop_is_seen(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    assert not folder.is_to_stop()
    folder.ask_to_stop()
    assert folder.is_to_stop()
