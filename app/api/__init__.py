"""The HTTP API under /api/v1: read the lab's data as JSON, launch, cancel and report runs. docs/openapi.json is its
specification; docs/api.md shows its use.
"""
