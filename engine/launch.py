"""The one way into the queue, for pages and command line alike. Torch-free."""

from engine.config import Config
from engine.errors import ConfigError, Problem
from engine.home import Home
from engine.registry import experiment
from engine.runtime.machine import demand, machine
from engine.store import Store

PAGE_TIMEOUT_S = 2.0


def launch(home: Home, name: str, config: Config, *, owner: str, preset: str | None = None, title: str = "", timeout_s: float = PAGE_TIMEOUT_S) -> int:
    """Queue a run of experiment `name` and return its id.

    Raises UnknownName, ConfigError, DeviceError where it could never run here, StoreBusy where the store is held.
    """
    found = experiment(name)
    if preset:
        found.preset(preset)
    if not owner.strip():
        raise ConfigError([Problem("owner", "A run needs an owner: give a name of 1 to 60 characters.")])
    with Store.open(home, timeout_s=timeout_s) as store:
        return store.add_run(
            name, config.model_dump(mode="json"), owner=owner.strip()[:60], demand=demand(config, machine()), preset=preset, name=title.strip()[:120]
        )
