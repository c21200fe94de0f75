"""Imported for what it does: AppTest looks for components in all installed packages at each run of a page, nine tenths of its time; here it looks once."""

from functools import cache

from streamlit.components.v2 import manifest_scanner

manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)  # type: ignore[assignment]
