"""Imported for what it does: at each run of a page AppTest looks for components in all installed packages, compiles the
page, and asks a thousand times a second whether the run has ended. Here it looks and compiles once, and waits.
"""

from functools import cache

from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.testing.v1 import app_test, local_script_runner

manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)  # type: ignore[assignment]
_scripts = ScriptCache()
app_test.ScriptCache = local_script_runner.ScriptCache = lambda: _scripts  # type: ignore[assignment, misc]
_require = local_script_runner.require_widgets_deltas


def _wait_and_require(runner: local_script_runner.LocalScriptRunner, timeout: float = 3) -> None:
    assert runner._script_thread is not None
    runner._script_thread.join(timeout)
    _require(runner, 1)  # fails if it has not ended


local_script_runner.require_widgets_deltas = _wait_and_require
