"""The API for scripts, under /api/v1: what the lab holds as JSON, and launches. docs/openapi.json describes it,
docs/api.md shows its use.
"""
