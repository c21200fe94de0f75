"""The command line: one module per command, imported on use. Torch-free."""

import click

from engine import __version__
from engine.cli.frame import EXIT_CODES, CommandEntry, CommandTable

COMMANDS = {
    "experiments": CommandEntry(
        "engine.cli.experiments:experiments_command", "List the experiments, or the presets and settings of one."
    ),
    "run": CommandEntry("engine.cli.launch:run_command", "Launch a run and follow it until it ends."),
    "submit": CommandEntry("engine.cli.launch:submit_command", "Queue a run and return at once."),
    "sweep": CommandEntry(
        "engine.cli.sweep:sweep_command",
        "Launch, pause, resume, retry or extend a sweep over settings of an experiment.",
    ),
    "figures": CommandEntry(
        "engine.cli.figures:figures_command", "List published figures with their verdicts; launch one."
    ),
    "duel": CommandEntry(
        "engine.cli.duel:duel_command", "Compare strategies on one budget, each with a tuned learning rate."
    ),
    "resume": CommandEntry("engine.cli.launch:resume_command", "Resume a run that was cancelled, lost or failed."),
    "retry": CommandEntry("engine.cli.launch:retry_command", "Retry a run that was cancelled, lost or failed."),
    "remeasure": CommandEntry(
        "engine.cli.sweep:remeasure_command", "Repeat the disturbed runs of a sweep alone on the machine."
    ),
    "list": CommandEntry("engine.cli.runs:list_command", "List runs, newest first."),
    "show": CommandEntry("engine.cli.show:show_command", "Show one run in full."),
    "logs": CommandEntry("engine.cli.logs:logs_command", "Print the logs of a run."),
    "ranks": CommandEntry("engine.cli.trace:ranks_command", "Show what each rank is doing and whether one hangs."),
    "trace": CommandEntry("engine.cli.trace:trace_command", "Write the operations of a run's ranks as a Chrome trace."),
    "cancel": CommandEntry("engine.cli.cancel:cancel_command", "Cancel a run, or all runs of a sweep."),
    "queue": CommandEntry(
        "engine.cli.queue:queue_command", "List queued runs in order, with reasons and estimated starts."
    ),
    "hold": CommandEntry("engine.cli.queue:hold_command", "Put queued runs on hold."),
    "release": CommandEntry("engine.cli.queue:release_command", "Release runs on hold."),
    "move": CommandEntry("engine.cli.queue:move_command", "Change the order or priority of queued runs."),
    "tag": CommandEntry("engine.cli.marks:tag_command", "Add a tag to runs."),
    "untag": CommandEntry("engine.cli.marks:untag_command", "Remove a tag from runs."),
    "star": CommandEntry("engine.cli.marks:star_command", "Star runs."),
    "unstar": CommandEntry("engine.cli.marks:unstar_command", "Unstar runs."),
    "archive": CommandEntry("engine.cli.marks:archive_command", "Archive runs that have ended."),
    "unarchive": CommandEntry("engine.cli.marks:unarchive_command", "Restore archived runs to the tables."),
    "pin": CommandEntry("engine.cli.marks:pin_command", "Make a run its experiment's baseline."),
    "unpin": CommandEntry("engine.cli.marks:unpin_command", "Remove a run as baseline."),
    "note": CommandEntry("engine.cli.marks:note_command", "Write a run's note."),
    "rename": CommandEntry("engine.cli.marks:rename_command", "Rename a run."),
    "export": CommandEntry(
        "engine.cli.transfer:export_command", "Export runs as a bundle, or their points as CSV, JSON or Parquet."
    ),
    "import": CommandEntry(
        "engine.cli.imports:import_command", "Import runs of another store, of TensorBoard or of MLflow."
    ),
    "serve": CommandEntry("engine.cli.runner:serve_command", "Run the store's runner in the foreground."),
    "stop": CommandEntry("engine.cli.runner:stop_command", "Stop the runner after its runs have ended."),
    "clusters": CommandEntry("engine.cli.clusters:clusters_command", "List the clusters that runs can be sent to."),
    "limits": CommandEntry("engine.cli.limits:limits_command", "Show or set quotas per person."),
    "catalogue": CommandEntry(
        "engine.cli.catalogue:catalogue_command", "Show or extend the available environments and data sets."
    ),
    "users": CommandEntry("engine.cli.lab:users_command", "Manage accounts and roles."),
    "tokens": CommandEntry("engine.cli.tokens:tokens_command", "Create and revoke API tokens."),
    "audit": CommandEntry("engine.cli.audit:audit_command", "Show the audit log."),
    "notify": CommandEntry("engine.cli.notify:notify_command", "Manage notifications by webhook or e-mail."),
    "backup": CommandEntry("engine.cli.backups:backup_command", "Back up the store while runs continue."),
    "restore": CommandEntry("engine.cli.backups:restore_command", "Replace the store by a backup."),
    "fsck": CommandEntry("engine.cli.fsck:fsck_command", "Check the store's integrity and repair it."),
    "gc": CommandEntry("engine.cli.upkeep:gc_command", "Thin the curves of old runs, delete older ones."),
    "doctor": CommandEntry("engine.cli.doctor:doctor_command", "Check the machine and suggest fixes."),
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
