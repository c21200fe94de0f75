"""The command line: one module per topic, imported on use. Torch-free."""

import click

from engine import __version__
from engine.cli.frame import EXIT_CODES, CommandEntry, CommandTable

COMMANDS = {
    "experiments": CommandEntry("catalogue", "List the experiments, or the presets and settings of one."),
    "new": CommandEntry("own_experiments", "Write a template of an experiment of your own, which runs at once."),
    "check": CommandEntry("own_experiments", "Check an experiment of your own, and say what is missing."),
    "approve": CommandEntry("own_experiments", "Approve the code of an experiment, in a lab with accounts."),
    "run": CommandEntry("launch", "Launch a run and follow it until it ends, or --detach."),
    "submit": CommandEntry("launch", "Queue a run and return at once."),
    "fields": CommandEntry("script", "Print the form that a command of your own script gives."),
    "sweep": CommandEntry("sweep", "Launch, pause, resume, retry or extend a sweep over settings of an experiment."),
    "recipes": CommandEntry("recipes", "List, save and hide recipes: commands of your own under a name."),
    "figures": CommandEntry("catalogue", "List published figures with their results; launch one."),
    "exercises": CommandEntry("exercises", "List, check, open and close exercises of a class; export and end it."),
    "duel": CommandEntry("duel", "Compare strategies on one budget, each with a tuned learning rate."),
    "resume": CommandEntry("launch", "Resume a run that was cancelled, lost or failed."),
    "retry": CommandEntry("launch", "Retry a run that was cancelled, lost or failed."),
    "attach": CommandEntry("launch", "Follow event files of a program started elsewhere, as a run."),
    "remeasure": CommandEntry("sweep", "Repeat the disturbed runs of a sweep alone on the machine."),
    "list": CommandEntry("runs", "List runs, highest number first."),
    "show": CommandEntry("runs", "Show one run in full."),
    "logs": CommandEntry("runs", "Print the logs of a run."),
    "ranks": CommandEntry("runs", "Show what each rank is doing and whether one hangs."),
    "files": CommandEntry("transfer", "List the files that a run keeps, or write one."),
    "trace": CommandEntry("transfer", "Write the operations of a run's ranks as a Chrome trace."),
    "cancel": CommandEntry("queue", "Cancel runs, or all runs of a sweep."),
    "queue": CommandEntry("queue", "List queued runs in order, with reasons and estimated starts."),
    "hold": CommandEntry("queue", "Put queued runs on hold."),
    "release": CommandEntry("queue", "Release runs on hold."),
    "move": CommandEntry("queue", "Change the order or priority of queued runs."),
    "tag": CommandEntry("marks", "Add a tag to runs."),
    "untag": CommandEntry("marks", "Remove a tag from runs."),
    "star": CommandEntry("marks", "Star runs."),
    "unstar": CommandEntry("marks", "Unstar runs."),
    "archive": CommandEntry("marks", "Archive runs that have ended."),
    "unarchive": CommandEntry("marks", "Restore archived runs to the tables."),
    "pin": CommandEntry("marks", "Make a run its experiment's baseline."),
    "unpin": CommandEntry("marks", "Remove a run as baseline."),
    "note": CommandEntry("marks", "Write a run's note."),
    "rename": CommandEntry("marks", "Rename a run."),
    "export": CommandEntry("transfer", "Export runs as a bundle, or their points as CSV, JSON or Parquet."),
    "import": CommandEntry("transfer", "Import runs of another store, of TensorBoard or of MLflow."),
    "mcp": CommandEntry("mcp", "Serve the lab's tools to an agent (MCP)."),
    "serve": CommandEntry("runner", "Run the store's runner in the foreground."),
    "link": CommandEntry("runner", "Print the console's link, by which a browser may launch commands."),
    "stop": CommandEntry("runner", "Stop the runner after its runs have ended."),
    "clusters": CommandEntry("runner", "List the clusters that runs can be sent to."),
    "limits": CommandEntry("lab", "Show or set quotas per person."),
    "catalogue": CommandEntry("catalogue", "Show or extend the available environments and data sets."),
    "users": CommandEntry("lab", "Manage accounts and roles."),
    "tokens": CommandEntry("lab", "Create and revoke API tokens."),
    "audit": CommandEntry("lab", "Show the audit log."),
    "notify": CommandEntry("notify", "Get notified by Slack, e-mail and other channels of the lab."),
    "backup": CommandEntry("upkeep", "Back up the store while runs continue."),
    "restore": CommandEntry("upkeep", "Replace the store by a backup."),
    "fsck": CommandEntry("upkeep", "Check the store's integrity and repair it."),
    "gc": CommandEntry("upkeep", "Thin the curves of old runs, delete older ones."),
    "delete": CommandEntry("upkeep", "Delete runs for good."),
    "doctor": CommandEntry("upkeep", "Check the machine and suggest fixes."),
}


@click.command(
    cls=CommandTable,
    table=COMMANDS,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__, prog_name="parallab")
def main() -> None:
    """Launch and monitor distributed-training experiments, and analyze their results.

    Runs are kept in the store in PARALLAB_HOME (default: .parallab in the project), which the console also uses.
    """
