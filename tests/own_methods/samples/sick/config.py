"""A sample that can't be read."""

EXPERIMENT = experiment(name="sick")  # noqa: F821
