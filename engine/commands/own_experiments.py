"""The command that approves a version of an experiment of the lab's own, for command line and page."""

from engine.commands.lab_settings import permit
from engine.errors import ConfigError, UnknownName
from engine.home import Home
from engine.own_methods import cards, folders
from engine.own_methods.folders import MethodVersion


def approve_experiment(home: Home, name: str, *, by: str, expected: str = "") -> MethodVersion:
    """Approve the present code of an experiment, so that it can be read and run, and return its version.

    Raises UnknownName, MethodFault for a folder that can't be copied, ConfigError if its version is not the `expected`
    one any more, Forbidden.
    """
    found = folders.folders(home)
    if name not in found:
        raise UnknownName("experiment", name, found, field="experiment")
    version = folders.keep(home, found[name])
    if expected not in ("", version.version):
        raise ConfigError.of(
            "version",
            f"The files of {name} have changed: they are version {version.version}, not {expected}. Look again.",
        )
    permit(home, "approve experiment", by=by, detail=f"experiment={name} version={version.version}")
    cards.approve(version, by)
    return version
