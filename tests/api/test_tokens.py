"""Who comes in by a token: what each scope opens, what it does not, and what is said."""

from hashlib import sha256

import httpx

from app.api.document import api
from engine.access.rules import Program
from engine.store import Reader
from engine.store.access.sign_ins import key_of
from tests.api.conftest import ONE, Lab, Script

DOCUMENT = api().openapi()
OPERATIONS = [(method, path) for path, item in DOCUMENT["paths"].items() for method in item]


def ask(script: Script, method: str, path: str, run_id: int) -> httpx.Response:
    path = path.format(run_id=run_id, sweep_id=999, duel_id=999, name="hogwild")
    if method == "get":
        return script.get(path, **({"runs": f"{run_id},{run_id + 1}"} if path == "/differences" else {}))
    if method == "put":
        return script.put(path, b"kept")
    if method == "delete":
        return script.delete(path)
    launch = {"experiment": "hogwild"}
    bodies = {"/runs": launch, "/plan": launch, "/sweeps": {**launch, "over": {"trainers": [1, 2]}}}
    ends = {"note": {"text": "x"}, "uses": {"sha256": sha256(b"used").hexdigest()}}
    return script.post(path, bodies.get(path, ends.get(path.rpartition("/")[2], {})))


def test_every_operation_asks_for_a_token_and_takes_one_of_its_scope(lab: Lab) -> None:
    run_id = lab.runs["finished"]
    reads, launches = lab.script("ada", "read"), lab.script("ada", "launch")
    assert {method for method, _ in OPERATIONS} == {"get", "post", "put", "delete"}
    for other, content in ((run_id, b"kept"), (lab.runs["failed"], b"used")):
        assert launches.put(f"/runs/{other}/files/hogwild", content).status_code == 201
    for method, path in OPERATIONS:
        nobody, dead = ask(Script(), method, path, run_id), ask(Script("plab_nonsense"), method, path, run_id)
        assert (nobody.status_code, nobody.headers["www-authenticate"]) == (401, 'Bearer realm="Parallab"')
        assert (dead.status_code, 'error="invalid_token"' in dead.headers["www-authenticate"]) == (401, True)
        answer = ask(reads, method, path, run_id)
        if method == "get":
            assert answer.status_code == (404 if "sweep_id" in path or "duel_id" in path else 200), answer.text
        else:
            assert (
                answer.status_code,
                'error="insufficient_scope", scope="launch"' in answer.headers["www-authenticate"],
            ) == (403, True)
            assert ask(launches, method, path, run_id).status_code in (200, 201, 204, 409)
    assert "plab_nonsense" not in dead.text


def test_a_browser_reads_alone_and_a_launch_token_gives_what_its_person_may(lab: Lab) -> None:
    vera = lab.browser("vera")
    assert vera.told("/me") | {"may": []} == {
        "name": "vera",
        "role": "viewer",
        "scope": None,
        "agent": None,
        "accounts": True,
        "may": [],
    }
    assert vera.get("/runs").status_code == 200
    answer = vera.post("/runs", {"experiment": "hogwild"})
    assert (answer.status_code, "Send a token" in answer.json()["error"]) == (403, True)
    mo = lab.script("mo", "launch")
    assert mo.post(f"/runs/{lab.runs['queued']}/cancel", {}).status_code == 403
    with lab.store() as store:
        store.people.set_role("mo", "viewer", by="ada")
    answer = mo.post("/runs", {"experiment": "hogwild"})
    assert (answer.status_code, answer.json()["error"]) == (
        403,
        "Only members and admins can launch runs; mo is a viewer. Ask an admin of this lab.",
    )
    with Reader.open(lab.home) as reader:
        assert [(entry.command, bool(entry.refused)) for entry in reader.audit.entries(who="mo")] == [
            ("launch", True),
            ("cancel", True),
        ]
    for path in ("/openapi.json", "/client.py"):
        assert Script().get(path).status_code == 401
        assert lab.script("vera", "read").get(path).status_code == 200


def test_a_token_opens_the_api_alone_and_no_other_authorization_lets_anybody_in(lab: Lab) -> None:
    headers = {"authorization": f"Bearer {lab.token('ada', 'launch')}"}
    for path in (
        "/",
        "/api/token",
        "/api/series?run=1",
        "/api/log?source=runner",
        "/metrics/",
        "/api/v1",
        "/_stcore/health",
    ):
        assert ONE.get(path, headers=headers).status_code == 401, path
    for said in ("", "Bearer", "Bearer ", "Basic YWRhOng=", "Bearer plab_" + "x" * 5_000, "plab_x", "Bearer pläb"):
        assert ONE.get("/api/v1/me", headers={"authorization": said.encode()}).status_code == 401, said


def test_a_token_ends_when_it_is_taken_back_and_when_its_person_is_shut_out(lab: Lab) -> None:
    mo, mia = lab.script("mo", "read"), lab.script("mia", "read")
    assert mo.told("/me")["name"] == "mo"
    with lab.store() as store:
        (token,) = [each for each in Reader.open(lab.home).tokens.of("mo") if each.revoked_at is None]
        store.tokens.revoke(token.id, by="mo")
        store.people.disable("mia", by="ada")
    assert [mo.get("/me").status_code, mia.get("/me").status_code] == [401, 401]


def test_its_use_is_noted_now_and_then_and_the_token_is_kept_nowhere(lab: Lab) -> None:
    token = lab.token("mo", "read")
    for _ in range(3):
        assert ONE.get("/api/v1/me", headers={"authorization": f"bearer {token}"}).status_code == 200
    with Reader.open(lab.home) as reader:
        assert [each.used_at is not None for each in reader.tokens.of("mo")] == [True]
    stored = b"".join(path.read_bytes() for path in lab.home.path.iterdir() if path.is_file())
    assert token.encode() not in stored
    assert key_of(token).encode() in stored


def test_a_lab_without_accounts_asks_for_nothing(open_lab: Lab) -> None:
    assert Script("plab_left_over").get("/runs").status_code == 200
    with open_lab.store() as store:
        store.people.add("ada", "admin", by=Program("first"))
    assert Script("plab_left_over").get("/runs").status_code == 401


def test_a_page_of_another_site_is_refused_also_where_no_token_is_asked_for(open_lab: Lab, script: Script) -> None:
    body = {"experiment": "hogwild", "owner": "Eve"}
    assert script.post("/runs", body, headers={"origin": "http://evil.example"}).status_code == 403
    assert (
        script.post(
            "/runs", content=b'{"experiment": "hogwild", "owner": "Eve"}', headers={"content-type": "text/plain"}
        ).status_code
        == 422
    )
    assert script.client.get("/metrics", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    with Reader.open(open_lab.home) as reader:
        assert reader.runs.count(owner="Eve") == 0
