"""The help beside a box that takes a filter."""

from engine.filter import RUN_FIELDS

FILTER_EXAMPLE = "trainers >= 4 and test/accuracy.best > 98"
FILTER_HELP = (
    "Conditions over settings, metrics and what every run has, such as `status`, `owner`, `tags`, `created`:\n\n"
    '`experiment == "hogwild" and trainers in (2, 4)`\n\n`test/accuracy.best > 98 or "thesis" in tags`\n\n'
    '`created > "7d ago" and not starred`\n\n'
    "Every run has: "
    + ", ".join(f"`{name}`" for name in RUN_FIELDS)
    + ". Metrics have `.last`, `.best`, `.mean`, `.min`, `.max`, `.count`."
)
