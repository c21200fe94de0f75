"""Files that runs keep, by the API: kept once, read as they are, bounded, and removed with their runs."""

import stat
from hashlib import sha256
from urllib.parse import quote

import pytest

from engine.access.quotas import Limits, set_limits
from engine.store import Reader
from engine.store.maintenance.retention import delete
from engine.store.runs.files import content_path, unkept
from tests.api.conftest import Lab, Script

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (8).to_bytes(4, "big") + (6).to_bytes(4, "big") + b"\x08\x02\0\0\0more"
BOMB = PNG[:16] + (60_000).to_bytes(4, "big") * 2 + PNG[24:]


def begun(script: Script, **more: object) -> int:
    return int(script.post("/reported-runs", {"experiment": "net", **more}).json()["id"])


def path(run_id: int, name: str) -> str:
    return f"/runs/{run_id}/files/{quote(name, safe='') if name.strip('.') else name.replace('.', '%2E')}"


def digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def test_a_file_is_kept_once_read_as_it_is_replaced_and_removed(lab: Lab) -> None:
    mo, mia = lab.script("mo", "launch"), lab.script("mia", "launch")
    first, second = begun(mo), begun(mia)
    made, again = (mo.put(path(first, "net 1.pt"), b"weights") for _ in range(2))
    assert [made.status_code, again.status_code] == [201, 200], made.text
    assert made.headers["location"] == "/api/v1" + path(first, "net 1.pt")
    assert mia.put(path(second, "copy.pt"), b"weights", sha256=digest(b"weights")).status_code == 201
    place = content_path(lab.home, digest(b"weights"))
    assert [each.name for each in lab.home.files.glob("*/*")] == [place.name], "equal content is there once"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (place, lab.home.files)] == [0o600, 0o700]
    (told,) = mo.told(f"/runs/{first}/files")["files"]
    assert (told["name"], told["sha256"], told["bytes"], told["kind"], told["who"], told["used_by"]) == (
        *("net 1.pt", digest(b"weights"), 7, "text", "mo"),
        [],
    )
    read = lab.script("vera", "read").get(path(first, "net 1.pt"))
    assert (read.status_code, read.content) == (200, b"weights")
    assert mo.put(path(first, "net 1.pt"), b"better").status_code == 201
    assert mo.delete(path(second, "copy.pt")).status_code == 403
    assert mia.delete(path(second, "copy.pt")).status_code == 204
    assert not place.exists(), "nobody keeps it any more"
    assert mo.get(path(first, "net 1.pt")).content == b"better"
    assert mia.delete(path(second, "copy.pt")).status_code == mo.get(path(first, "other")).status_code == 404
    with Reader.open(lab.home) as reader:
        done = [(each.command, each.who) for each in reader.audit.entries() if "file" in each.command]
    assert done[:2] == [("remove file", "mia"), ("remove file", "mo")] and len(done) == 6


def test_lineage_names_the_runs_that_made_a_file_and_those_that_used_it(lab: Lab) -> None:
    mo = lab.script("mo", "launch")
    maker, user = begun(mo), begun(mo)
    mo.put(path(maker, "net.pt"), b"weights")
    for _ in range(2):
        used = mo.post(f"/runs/{user}/uses", {"sha256": digest(b"weights")})
        assert (used.status_code, used.json()["kept_by"], used.json()["name"]) == (200, [maker], "net.pt")
    assert mo.told(f"/runs/{maker}/files")["files"][0]["used_by"] == [user]
    assert [each["kept_by"] for each in mo.told(f"/runs/{user}/files")["used"]] == [[maker]]
    own = mo.post(f"/runs/{maker}/uses", {"sha256": digest(b"weights")})
    assert (own.status_code, "No other run" in own.json()["error"]) == (404, True)
    mo.delete(path(maker, "net.pt"))
    assert [each["kept_by"] for each in mo.told(f"/runs/{user}/files")["used"]] == [[]]


def test_files_need_the_rights_of_marks_and_a_token_that_may_launch(lab: Lab) -> None:
    mo = lab.script("mo", "launch")
    run_id = begun(mo)
    kept = mo.put(path(run_id, "a"), b"a")
    for script, status in (
        *((lab.script("mia", "launch"), 403), (lab.script("mo", "read"), 403), (lab.browser("mo"), 403)),
        *((Script(), 401), (lab.script("ada", "launch"), 201)),
    ):
        assert script.put(path(run_id, f"of {status}"), b"x").status_code == status
    assert kept.status_code == 201 and mo.put(path(lab.runs["running"], "a"), b"a").status_code == 403
    assert lab.browser("vera").get(path(run_id, "a")).content == b"a"
    assert Script().get(path(run_id, "a")).status_code == 401
    assert mo.put(path(999, "a"), b"a").status_code == 404


@pytest.mark.parametrize("name", ["../x", "a/b", "a\\b", "..", ".", " ", "a\0b", "a\u202egpj.exe", "\u3164", "x" * 201])
def test_a_name_that_no_folder_could_have_is_refused(open_lab: Lab, name: str) -> None:
    run_id = begun(Script(), owner="mo")
    answer = Script().put(path(run_id, name), b"x", owner="mo")
    assert (answer.status_code, "The name of a file must" in answer.text) == (422, True), answer.text
    assert not list(open_lab.home.files.glob("*")), "nothing was written"


def test_a_browser_gets_small_pictures_alone_as_what_they_are(open_lab: Lab) -> None:
    run_id = begun(Script(), owner="mo")
    page, drawing = b"<html><script>alert(1)</script>", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
    given = {"a.png": PNG, "b.html": page, "c.svg": drawing, "d.png": page, "e.csv": b"a,b\n1,2\n", "f.bin": b"\0\1"}
    for name, content in given.items():
        assert Script().put(path(run_id, name), content, owner="mo").status_code == 201
        answer = Script().get(path(run_id, name))
        assert answer.content == content
        assert answer.headers["content-type"] == ("image/png" if name == "a.png" else "application/octet-stream")
        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")
    kinds = {each["name"]: each["kind"] for each in Script().told(f"/runs/{run_id}/files")["files"]}
    expected = {"a.png": "picture", "b.html": "text", "c.svg": "text", "d.png": "text", "e.csv": "table"}
    assert kinds == {**expected, "f.bin": "other"}
    quoting = 'a"; x=".png'
    Script().put(path(run_id, quoting), PNG, owner="mo")
    assert 'x="' not in Script().get(path(run_id, quoting)).headers["content-disposition"].replace("%22", "")


def test_limits_of_file_run_and_person_hold_before_and_while_a_file_arrives(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    mo = lab.script("mo", "launch")
    run_id = begun(mo)
    set_limits(lab.home, Limits(max_files_gb=1e-6))
    assert mo.put(path(run_id, "a"), b"x" * 900).status_code == 201
    assert mo.put(path(run_id, "a"), b"y" * 1_000).status_code == 201, "it takes the place of the former one"
    over = mo.put(path(run_id, "b"), b"x" * 100)
    assert (over.status_code, "Quota of files of mo: 1 kB of 1 kB used" in over.text) == (403, True), over.text
    assert mo.told("/quota")["file_bytes"] == 1_000 and mo.told("/quota")["max_files_gb"] == 1e-6
    set_limits(lab.home, Limits(max_disk_gb=0.001))
    assert "Disk quota of mo" in mo.put(path(run_id, "b"), b"x" * 1_000_000).text
    set_limits(lab.home, Limits())
    monkeypatch.setattr("engine.store.runs.files.MOST_OF_RUN", 1_500)
    assert "The files of a run can have at most 2 kB" in mo.put(path(run_id, "b"), b"x" * 600).text
    monkeypatch.setattr("engine.store.runs.files.MOST_FILES", 1)
    assert "A run can keep at most 1 file" in mo.put(path(run_id, "b"), b"x").text
    monkeypatch.setattr("engine.store.runs.files.LARGEST_FILE", 500)
    monkeypatch.setattr("app.api.service.LARGEST_FILE", 500)
    assert mo.put(path(run_id, "a"), b"x" * 501).status_code == 413
    wrong = mo.put(path(run_id, "a"), b"x", sha256=digest(b"y"))
    assert (wrong.status_code, "sha256 must be that of the content" in wrong.text) == (422, True)
    assert [each.name for each in lab.home.files.iterdir() if each.is_file()] == [], "nothing half-written stays"
    assert mo.get(path(run_id, "a")).content == b"y" * 1_000


def test_content_goes_with_the_last_run_that_keeps_it(lab: Lab) -> None:
    ada = lab.script("ada", "launch")
    first, second = (begun(ada) for _ in range(2))
    for run_id in (first, second):
        ada.put(path(run_id, "same"), b"same")
        ada.post(f"/runs/{run_id}/report", {"end": {"status": "finished"}})
    ada.put(path(first, "own"), b"own")
    with lab.store() as store:
        store.db.connection.execute("UPDATE runs SET ended_at = '2026-01-01T00:00:00.000Z' WHERE id = ?", [first])
        assert unkept(store.db) == [] and delete(store, first, 1.0)
        assert [place.name for place, _ in unkept(store.db)] == [digest(b"own")]
        assert (store.files.sweep(), store.files.sweep()) == (3, 0)
    assert ada.get(path(second, "same")).content == b"same"
