"""The file that names a lab's providers: what it says, and that one that can't be understood opens nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.access.providers import Rules, configured, read
from engine.errors import ConfigError
from engine.home import ROOT, Home


def secrets_file(folder: Path, **changes: str) -> Path:
    """Write the example as a lab would fill it in, with some texts replaced."""
    text = (
        (ROOT / "deploy" / "secrets.toml.example")
        .read_text()
        .replace('cookie_secret = ""', f'cookie_secret = "{"k" * 32}"')
    )
    for old, new in ({'client_secret = ""': 'client_secret = "hush-hush"'} | changes).items():
        assert old in text
        text = text.replace(old, new)
    path = folder / "secrets.toml"
    path.write_text(text)
    return path


def test_files_are_read_as_they_say_one_provider_or_several(tmp_path: Path) -> None:
    found = read(secrets_file(tmp_path))
    assert [(each.key, each.label) for each in found.found] == [("default", "Lab ID")]
    assert found.rules == Rules(
        roles={"admin": ("lab-admins",), "member": ("lab-members",), "viewer": ("lab-guests",)},
        names={"default": "Lab ID"},
    )
    assert found.auth["client_secret"] == "hush-hush"
    assert "hush-hush" not in repr(found)
    unnamed = read(secrets_file(tmp_path, **{"k" * 32: "k" * 64, 'default = "Lab ID"': ""}))
    assert [each.label for each in unnamed.found] == ["id.example.org"], "a provider without a name goes by its host"
    path = tmp_path / "secrets.toml"
    path.write_text('[other]\nkey = "x"\n')
    assert read(path).found == ()
    parts = [
        f'[auth.{key}]\nclient_id = "a"\nclient_secret = "b"\nserver_metadata_url = "https://{key}.org/about"'
        for key in ("uni", "institute")
    ]
    path.write_text(
        "\n".join([f'[auth]\nredirect_uri = "https://lab.org/oauth2callback"\ncookie_secret = "{"k" * 32}"', *parts])
    )
    assert [(each.key, each.label) for each in read(path).found] == [("uni", "uni"), ("institute", "institute")]


WRONG = [
    ({"[auth]": "[auth"}, "not valid TOML"),
    ({'client_secret = "hush-hush"': 'client_secret = "hush-hush'}, "at line"),
    ({"/oauth2callback": "/callback"}, "followed by /oauth2callback"),
    ({"https://lab.example.org": "http://lab.example.org"}, "must start with https://"),
    ({"https://id.example.org": "http://id.example.org"}, "others on the network could forge sign-ins"),
    ({"https://id.example.org": "http://www.example.org"}, "others on the network could forge sign-ins"),
    ({"https://id.example.org": "http://[::1"}, "must start with https://"),
    ({"k" * 32: "k" * 31}, "at least 32 random characters"),
    ({"client_id =": "client_name ="}, "has no provider"),
    ({'"hush-hush"': '""'}, "lacks client_secret"),
    ({"admin = [": "owner = ["}, "roles are viewer, member, admin"),
    ({"groups_claim": "group_claim"}, "known settings: groups_claim"),
    ({'default = "Lab ID"': 'keycloak = "Lab ID"'}, "has the provider 'keycloak', which"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG)
def test_a_file_that_can_t_be_understood_is_refused_by_a_sentence_without_its_secrets(
    tmp_path: Path, changes: dict[str, str], words: str
) -> None:
    path = secrets_file(tmp_path)
    for old, new in changes.items():
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.processes
def test_a_console_does_not_start_open_where_its_sign_in_can_t_be_understood(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = secrets_file(tmp_path, **{"[auth]": "[auth"})
    settings = os.environ | {"PARALLAB_SECRETS": str(path)}
    ended = subprocess.run(
        [sys.executable, "-c", "import app.asgi"], cwd=ROOT, env=settings, capture_output=True, text=True, timeout=90
    )
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)
    assert f"Invalid sign-in configuration {path}" in ended.stderr
    monkeypatch.setenv("PARALLAB_SECRETS", str(tmp_path / "absent.toml"))
    with pytest.raises(ConfigError, match="it can't be read: No such file"):
        configured.__wrapped__()
