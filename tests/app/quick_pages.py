"""Imported for what it does: at each run of a page AppTest looks for components in all installed packages, and parses
the page; here it does so once.
"""

from functools import cache

from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.scriptrunner import magic

manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)  # type: ignore[assignment]
magic.add_magic = cache(magic.add_magic)
