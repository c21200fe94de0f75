"""Maintenance of a home: backups, restore, integrity checks and leftovers. Torch-free."""
