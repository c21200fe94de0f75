"""Every histogram by name: label, unit and counted things. Torch-free."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Histogram:
    """How one histogram is shown; `metric` is the metric, if any, that records the same numbers."""

    name: str
    label: str
    unit: str = ""
    counted: str = "values"
    """Plural noun for the things counted in a bucket."""
    help: str = ""
    metric: str = ""


HISTOGRAMS = {
    histogram.name: histogram
    for histogram in (
        Histogram(
            "staleness",
            "Staleness",
            "updates",
            "pushes",
            ("Updates by other trainers between a trainer's fetch (or read) of the weights and its push (or write)."),
            "perf/staleness",
        ),
        Histogram(
            "policy_age",
            "Policy age",
            "updates",
            "batches",
            "Updates between the start of a batch and training on it.",
            "perf/policy_age",
        ),
    )
}


def histogram(name: str) -> Histogram:
    """Return a histogram by name; an unknown one is labelled by its name and paired with the metric `perf/<name>`."""
    return HISTOGRAMS.get(name) or Histogram(name, name.replace("_", " ").capitalize(), metric=f"perf/{name}")
