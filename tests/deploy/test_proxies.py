"""The proxy configurations that we ship, carried out by the real programs: TLS, WebSockets, a base path, and cookies
that stay under it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect, sync_playwright

from engine.doctor.machine import program
from engine.home import ROOT, Home
from engine.store import Store
from tests.browser.conftest import FLAGS, chromium, free_port
from tests.labs import basic, small
from tests.notices.receivers import certificates
from tests.waiting import PATIENCE_S, wait_until

HOST, WORDS = "lab.example.org", "correct horse battery"
PROXIES = ROOT / "deploy" / "proxy"
NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr warn;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/bodies; proxy_temp_path {folder}/answers;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  include {folder}/site.conf;
}}
"""


@contextmanager
def running(words: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(
            words, cwd=ROOT, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)


@pytest.fixture
def run_id(home: Home) -> int:
    """Give the home a live run that nobody ends, and an account."""
    small.without_a_runner(home)
    with Store.open(home) as store:
        store.people.add("ada", "admin", by="ada", password=WORDS)
        run_id = basic.add(store, "ada")
        basic.drive(store, home, run_id, "running")
    return run_id


@pytest.fixture
def upstream(home: Home, tmp_path: Path, run_id: int) -> Iterator[int]:
    """Serve the home under /lab, as the console of a lab behind a proxy is served; give its port."""
    port = free_port()
    told = {
        "PARALLAB_PORT": str(port),
        "PARALLAB_HOSTS": HOST,
        "PARALLAB_BASE": "/lab",
        "PARALLAB_RUNNER": "separate",
        "PARALLAB_HOME": str(home.path),
    }
    with running([sys.executable, "-m", "app"], tmp_path / "console.log", **told):
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/healthz"), "the console answers")
        yield port


@pytest.fixture
def nginx(upstream: int, tmp_path: Path) -> Iterator[int]:
    """Put nginx before it, by the file that we ship; give the port on which it speaks TLS."""
    port, plain = free_port(), free_port()
    certificates(tmp_path, HOST)
    chain = str(tmp_path / "server.pem")  # with its key
    changes = {
        "listen 80;": f"listen 127.0.0.1:{plain};",
        "listen 443 ssl http2;": f"listen 127.0.0.1:{port} ssl http2;",
        "server 127.0.0.1:8501;": f"server 127.0.0.1:{upstream};",
        f"/etc/ssl/certs/{HOST}.pem": chain,
        f"/etc/ssl/private/{HOST}.key": chain,
    }
    site = (PROXIES / "nginx.conf").read_text()
    for ours, here in changes.items():
        assert ours in site
        site = site.replace(ours, here)
    (tmp_path / "site.conf").write_text(site)
    (tmp_path / "nginx.conf").write_text(NGINX.format(folder=tmp_path))
    words_of_it = [program("nginx"), "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    tested = subprocess.run([*words_of_it, "-t", "-q"], capture_output=True, text=True)
    assert (tested.returncode, tested.stderr) == (0, "")
    with running(words_of_it, tmp_path / "nginx.log"):
        wait_until(lambda: answers(f"https://127.0.0.1:{port}/healthz", f"{HOST}:{port}"), "nginx passes requests on")
        yield port


def answers(address: str, host: str = "127.0.0.1") -> bool:
    try:
        return httpx.get(address, headers={"host": host}, verify=False, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture
def abroad(tmp_path: Path) -> Iterator[Page]:
    """Open a browser that takes the lab's host name for this machine."""
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path / "browser",
            executable_path=chromium(),
            headless=True,
            args=[*FLAGS, f"--host-resolver-rules=MAP {HOST} 127.0.0.1"],
            ignore_https_errors=True,
            timeout=PATIENCE_S * 1000,
        )
        context.set_default_timeout(PATIENCE_S * 1000)
        yield context.pages[0]
        context.close()


@pytest.mark.browser
@pytest.mark.needs_program("nginx")
@pytest.mark.filterwarnings("ignore:.*certificate")
def test_through_nginx_and_under_a_path_people_sign_in_and_watch_a_run(nginx: int, abroad: Page, run_id: int) -> None:
    host = f"https://{HOST}:{nginx}"
    asked: list[str] = []
    abroad.on("request", lambda request: asked.append(request.url))
    abroad.on("websocket", lambda opened: asked.append(opened.url))
    abroad.goto(f"{host}/lab/run?run={run_id}")
    abroad.get_by_label("Name").fill("ada")
    abroad.get_by_label("Password").fill(WORDS)
    abroad.get_by_role("button", name="Sign in").click()
    abroad.wait_for_url(f"{host}/lab/run?run={run_id}")
    abroad.locator("[data-metric='train/loss'] .nsewdrag").wait_for()  # plotly came, and points by a route of ours
    assert f"wss://{HOST}:{nginx}/lab/_stcore/stream" in asked
    assert [url for url in asked if "/lab/api/standing" in url or "/lab/api/series" in url]
    (cookie,) = [each for each in abroad.context.cookies() if each.get("name") == "parallab_session"]
    assert (cookie["path"], cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == ("/lab", True, True, "Lax")
    abroad.get_by_role("link", name="Home").first.click()
    link = abroad.locator(f"a[href='/lab/run?run={run_id}']").first
    link.click()
    abroad.wait_for_url(f"{host}/lab/run?run={run_id}")
    expect(abroad.get_by_test_id("stException")).to_have_count(0)
    abroad.goto(f"{host}/")
    abroad.wait_for_url(f"{host}/lab/")
    assert not [
        url
        for url in asked
        if url != f"{host}/" and not url.startswith((f"{host}/lab", f"wss://{HOST}:{nginx}/lab/", "blob:", "data:"))
    ]
    foreign = {"host": f"{HOST}:{nginx}", "origin": "https://evil.example"}
    assert (
        httpx.get(
            f"https://127.0.0.1:{nginx}/lab/api/token", headers=foreign, verify=False, timeout=PATIENCE_S
        ).status_code
        == 403
    )


@pytest.mark.processes
@pytest.mark.needs_program("caddy")
def test_caddy_takes_the_file_that_we_ship(tmp_path: Path) -> None:
    told = os.environ | {"PARALLAB_SITE": HOST, "PARALLAB_UPSTREAM": "127.0.0.1:8501", "HOME": str(tmp_path)}
    words = [program("caddy"), "validate", "--adapter", "caddyfile", "--config", str(PROXIES / "Caddyfile")]
    ended = subprocess.run(words, env=told, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
