"""It is never imported."""
