"""Commands of a lab without accounts: only the home's owner, and a browser that came by the console's link, launch
them. The console runs for real where another Unix user, or a page's own script, tries.
"""

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from streamlit.proto.Alert_pb2 import Alert
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect

from app.auth.middleware import Gate, Guard
from app.core.console_address import greeting
from app.core.visitor import COOKIE, came_by_link, link_cookie, shown_secret, why_no_commands
from app.web.routes import routes
from engine.access import command_link
from engine.errors import Forbidden
from engine.home import Home
from engine.launch import launch, retry
from engine.parallab_client import Parallab
from engine.script.command import read_command
from engine.store import Launch, Reader, Store, SweepLaunch
from engine.sweep.launch import launch_sweep
from tests.access.asgi import Browser
from tests.access.people import cookies_of, settle
from tests.browser.consoles import Console
from tests.labs import basic, small
from tests.waiting import PATIENCE_S

NOBODY = 65534
URL = "http://127.0.0.1:8501"
COMMAND = read_command("python train.py --lr 0.1")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as another user")


def command_of(owner: str = "ada") -> Launch:
    return Launch(COMMAND.name, {"lr": 0.1}, owner, command=COMMAND)


@pytest.fixture
def secret(home: Home) -> str:
    with Store.open(home):
        pass
    return command_link.renew(home, URL).secret


@pytest.fixture
def browser() -> Iterator[Browser]:
    with Browser(Starlette(routes=routes(), middleware=[Middleware(Guard), Middleware(Gate)])) as found:
        yield found


def cookie_by(browser: Browser, address: str, **headers: str) -> dict[str, str]:
    """Return the cookies that an address sets."""
    return {name: morsel.value for name, morsel in cookies_of(browser.get(address, headers)).items()}


# ---- the link and its cookie ---------------------------------------------------------------------------------------


def test_a_link_leaves_its_secret_in_a_cookie_and_nowhere_else(browser: Browser, secret: str, home: Home) -> None:
    assert stat.S_IMODE(home.command_link.stat().st_mode) == 0o600
    answer = browser.get(f"/launch?experiment=hogwild&token={secret}&lr=0.1", {"accept": "text/html"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/launch?experiment=hogwild&lr=0.1")
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert secret not in f"{answer.headers}{answer.text}", "the cookie is signed by the secret and does not hold it"
    (morsel,) = cookies_of(answer).values()
    assert (morsel["httponly"], morsel["samesite"], morsel["path"]) == (True, "strict", "/")
    assert came_by_link(home, {morsel.key: morsel.value})
    assert browser.get(f"//evil.example/?token={secret}").headers["location"] == "/"


def test_the_token_of_another_console_or_one_in_the_referer_proves_nothing(
    browser: Browser, secret: str, home: Home, tmp_path: Path
) -> None:
    other = command_link.renew(Home(tmp_path / "other"), URL).secret
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    for given in (other, "", quote("💥"), secret[:-1], secret.upper()):
        assert cookie_by(browser, f"/?token={given}", **link) == {}
    assert cookie_by(browser, "/signin", referer=f"{URL}/?token={secret}") == {}
    assert cookie_by(browser, f"/api/token?token={secret}") == {}, "no address of a script sets it"
    ours = cookie_by(browser, f"/?token={secret}", **link)
    assert came_by_link(home, ours)
    assert not came_by_link(Home(tmp_path / "other"), ours)
    (value,) = ours.values()
    assert not came_by_link(Home(tmp_path / "other"), {link_cookie(Home(tmp_path / "other")): value})


def test_an_old_cookie_proves_nothing_after_the_next_start(browser: Browser, secret: str, home: Home) -> None:
    cookies = cookie_by(browser, f"/?token={secret}")
    assert why_no_commands(home, cookies) == ""
    assert command_link.serve_at(home, "http://127.0.0.1:9000").secret == secret, "a second console keeps it"
    command_link.renew(home, URL)
    assert why_no_commands(home, cookies) == command_link.REFUSAL
    assert cookie_by(browser, f"/?token={secret}") == {}
    home.command_link.unlink()
    assert why_no_commands(home, cookies) == command_link.REFUSAL
    home.command_link.write_text("{}")
    assert why_no_commands(home, cookies) == command_link.REFUSAL


def test_a_lab_with_accounts_has_no_use_for_a_link(browser: Browser, secret: str, home: Home) -> None:
    settle(home)
    assert cookie_by(browser, f"/?token={secret}") == {}
    assert greeting(home, URL, 1) == f"Parallab is on {URL}"


def test_the_link_is_printed_where_only_its_owner_reads(secret: str, home: Home, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    open_to_all, private, journal = (tmp_path / name for name in ("open", "private", "journal"))
    for path, mode in ((open_to_all, 0o644), (private, 0o600), (journal, 0o600)):
        path.touch()
        path.chmod(mode)

    def printed(path: Path) -> str:
        with path.open() as file:
            return greeting(home, URL, file.fileno())

    assert f"{URL}/?token={secret}" in printed(private)
    folders = [each for each in tmp_path.parents if not each.stat().st_mode & 0o011]
    assert (secret in printed(open_to_all)) is bool(folders), "others reach the file unless a folder is closed"
    about = journal.stat()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JOURNAL_STREAM", f"{about.st_dev}:{about.st_ino}")
        assert secret not in printed(journal)
        assert "python -m engine link" in printed(journal)


# ---- what the store and the API ask --------------------------------------------------------------------------------


def test_in_a_console_the_store_refuses_every_way_to_queue_a_command(
    secret: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.without_a_runner(home)
    sweep = SweepLaunch(command_of(), {"lr": [0.1, 0.2]})
    run_id, sweep_id = launch(home, command_of()), launch_sweep(home, sweep)
    with Store.open(home) as store:
        store.runs.cancel(run_id, by="ada")
        store.sweeps.cancel(sweep_id, by="ada")
    monkeypatch.setattr(command_link, "_ask", lambda: why_no_commands(home, {}))

    def again(store: Store) -> object:
        return store.sweeps.retry(sweep_id, by="ada", statuses=("cancelled",))

    ways: list[Callable[[], object]] = [
        lambda: launch(home, command_of()),
        lambda: retry(home, run_id, owner="mallory"),
        lambda: launch_sweep(home, sweep),
    ]
    with Store.open(home) as store:
        before = store.db.number("SELECT count(*) FROM runs")
        for way in (*ways, lambda: again(store)):
            with pytest.raises(Forbidden, match="only in a browser that was opened by this console's link"):
                way()
            assert store.read.audit.entries(limit=1)[0].refused == command_link.REFUSAL
        assert store.db.number("SELECT count(*) FROM runs") == before
        launch(home, Launch("hogwild", {}, "ada"))
        with shown_secret(home, secret):
            launch(home, command_of())
        with shown_secret(home, "wrong"), pytest.raises(Forbidden, match="Authorization: Bearer SECRET"):
            launch(home, command_of())


def test_the_client_sends_the_secret_of_the_home_with_launches_alone(
    secret: str, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARALLAB_HOME", str(home.path))
    assert Parallab(URL, owner="ada")._link_secret() == secret
    assert Parallab("http://127.0.0.1:9999", owner="ada")._link_secret() == "", "another console's port"
    assert Parallab("http://lab.example:8501", owner="ada")._link_secret() == "", "another machine"
    assert Parallab("https://lab.example", secret="given")._link_secret() == "given"
    monkeypatch.setenv("PARALLAB_HOME", str(tmp_path / "nowhere"))
    assert Parallab(URL, owner="ada")._link_secret() == ""


# ---- another user of the machine, and forged messages of a page ----------------------------------------------------


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """Serve a lab without accounts that has a failed run of a command."""
    home = Home(tmp_path_factory.mktemp("lab") / "home").create()
    small.without_a_runner(home)
    run_id = launch(home, command_of())
    with Store.open(home) as store:
        basic.drive(store, home, run_id, "failed")
    served = Console(home)
    served.start()
    yield served
    served.stop()


SEEN: dict[str, str] = {}
"""The ids of buttons by their labels, which are the same for everyone."""


def press(console: Console, cookie: str, label: str = "Retry", page: str = "run", query: str = "run=1") -> str:
    """Open a page, press a button of it whether or not it is disabled or there, and return why that is not possible, if
    so.
    """
    said: list[str] = []

    def rerun(**state: object) -> str:
        asked = ClientState(page_name=page, query_string=query, **state)
        socket.send(BackMsg(rerun_script=asked).SerializeToString())
        button = ""
        while True:
            message = ForwardMsg.FromString(socket.recv(timeout=PATIENCE_S, decode=False))
            element = message.delta.new_element
            if element.button.label == label:
                button = element.button.id
                said.append(element.button.help if element.button.disabled else "")
            said.append(element.alert.body if element.alert.format in (Alert.ERROR, Alert.WARNING) else "")
            if message.WhichOneof("type") == "script_finished":
                return button

    with connect(
        f"ws://127.0.0.1:{console.port}/_stcore/stream",
        origin=console.address,
        additional_headers={"Cookie": cookie} if cookie else {},
        subprotocols=["streamlit"],
        max_size=None,
        open_timeout=PATIENCE_S,
    ) as socket:  # type: ignore[arg-type,list-item]
        button = SEEN[label] = rerun() or SEEN[label]
        asked = ClientState(page_name=page, query_string=query).widget_states
        asked.widgets.add(id=button, trigger_value=True)
        rerun(widget_states=asked)
    return "".join(said).replace("\\", "")


def named(console: Console) -> str:
    """Return the cookie of a browser that has given a name, which needs no proof."""
    answer = httpx.post(f"{console.address}/api/name", json={"name": "mallory"}, timeout=PATIENCE_S)
    return f"parallab_name={answer.cookies['parallab_name']}"


def runs_of(home: Home) -> int:
    with Reader.open(home) as reader:
        return len(reader.runs.find())


def as_nobody(act: Callable[[], object]) -> object:
    """Return what a function returns, as JSON, or raises in a process of another user of the machine."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            found = act()
        except BaseException as error:
            found = repr(error)
        with suppress(BaseException):
            os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said:
        text = said.read()
    os.waitpid(child, 0)
    return json.loads(text)


def post(console: Console, body: object, token: str = "") -> tuple[int, str]:
    """Launch by the API; return the status and the answer."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    answer = httpx.post(f"{console.address}/api/v1/runs", json=body, headers=headers, timeout=PATIENCE_S)
    return answer.status_code, answer.text


@as_root
@pytest.mark.processes
def test_another_user_of_the_machine_opens_pages_and_launches_no_command(console: Console, tmp_path: Path) -> None:
    before, cookie = runs_of(console.home), named(console)
    (tmp_path / "train.py").touch()
    asked = {"command": "python train.py", "folder": str(tmp_path), "owner": "ada"}
    assert as_nobody(lambda: httpx.get(f"{console.address}/run?run=1", timeout=PATIENCE_S).status_code) == 200
    assert "PermissionError" in str(as_nobody(console.home.command_link.read_text))
    assert command_link.REFUSAL in str(as_nobody(lambda: press(console, cookie)))
    for token in ("", "guessed"):
        status, said = as_nobody(lambda token=token: post(console, asked, token))  # type: ignore[misc,attr-defined]
        assert (status, "secret of this console's link" in said) == (403, True)
    assert runs_of(console.home) == before
    link = command_link.current(console.home)
    assert link
    assert post(console, asked, link.secret)[0] == 201


@pytest.mark.processes
def test_a_forged_press_of_a_button_launches_no_command_and_one_after_the_link_does(
    console: Console, tmp_path: Path
) -> None:
    name = named(console)
    forged = f"{link_cookie(console.home)}=ImM0ZjJhYmIxOTQ3NmMyYjki.awm65w.SU7UM0agmivtu0t_j4451OnOjtc"
    link = command_link.current(console.home)
    assert link
    assert link.url == console.address
    ((key, value),) = httpx.get(str(link), timeout=PATIENCE_S).cookies.items()
    (tmp_path / "train.py").touch()
    form = ("Launch", "launch", f"command=python+train.py&folder={tmp_path}")
    before = runs_of(console.home)
    assert command_link.REFUSAL in press(console, f"{name}; {forged}")
    assert runs_of(console.home) == before
    for count, button in enumerate(((), form), 1):
        assert press(console, f"{name}; {key}={value}", *button) == ""
        assert runs_of(console.home) == before + count
    assert command_link.REFUSAL in press(console, f"{name}; {forged}", *form), "also where the button is not shown"
    assert runs_of(console.home) == before + 2
    assert link.secret not in (console.home.path / "console.log").read_text().replace(str(link), "", 1)


@pytest.mark.processes
def test_a_forged_press_of_a_viewer_and_of_a_member_without_the_permission_launches_no_command(home: Home) -> None:
    settle(home, "mo", "vera")
    small.without_a_runner(home)
    run_id = launch(home, command_of())
    with Store.open(home) as store:
        basic.drive(store, home, run_id, "failed")
        store.db.connection.execute("UPDATE runs SET owner = 'mo'")
        cookies = {name: f"{COOKIE}={store.sign_ins.begin(name, 'password')}" for name in ("mo", "vera")}
        store.people.set_role("vera", "viewer", by="ada")
    served = Console(home)
    served.start()
    try:
        assert "; vera is a viewer" in press(served, cookies["vera"])
        assert "can grant it to mo" in press(served, cookies["mo"])
        assert runs_of(home) == 1
        with Store.open(home) as store:
            store.people.allow("mo", "run commands", by="ada")
        assert press(served, cookies["mo"]) == ""
        assert runs_of(home) == 2
    finally:
        served.stop()
