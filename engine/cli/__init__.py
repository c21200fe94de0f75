"""The command line: one module per command, imported on use. Torch-free."""

import click

from engine import __version__
from engine.cli.frame import EXIT_CODES, CommandTable

COMMANDS = {
    "experiments": "engine.cli.experiments:experiments_command",
    "run": "engine.cli.launch:run_command",
    "submit": "engine.cli.launch:submit_command",
    "sweep": "engine.cli.sweep:sweep_command",
    "figures": "engine.cli.figures:figures_command",
    "duel": "engine.cli.duel:duel_command",
    "resume": "engine.cli.launch:resume_command",
    "retry": "engine.cli.launch:retry_command",
    "remeasure": "engine.cli.sweep:remeasure_command",
    "list": "engine.cli.runs:list_command",
    "show": "engine.cli.show:show_command",
    "logs": "engine.cli.logs:logs_command",
    "cancel": "engine.cli.runs:cancel_command",
    "queue": "engine.cli.queue:queue_command",
    "hold": "engine.cli.queue:hold_command",
    "release": "engine.cli.queue:release_command",
    "move": "engine.cli.queue:move_command",
    "tag": "engine.cli.annotations:tag_command",
    "untag": "engine.cli.annotations:untag_command",
    "star": "engine.cli.annotations:star_command",
    "unstar": "engine.cli.annotations:unstar_command",
    "archive": "engine.cli.annotations:archive_command",
    "unarchive": "engine.cli.annotations:unarchive_command",
    "pin": "engine.cli.annotations:pin_command",
    "unpin": "engine.cli.annotations:unpin_command",
    "note": "engine.cli.annotations:note_command",
    "rename": "engine.cli.annotations:rename_command",
    "export": "engine.cli.export:export_command",
    "import": "engine.cli.imports:import_command",
    "serve": "engine.cli.runner:serve_command",
    "stop": "engine.cli.runner:stop_command",
    "limits": "engine.cli.limits:limits_command",
    "catalogue": "engine.cli.catalogue:catalogue_command",
    "users": "engine.cli.users:users_command",
    "tokens": "engine.cli.tokens:tokens_command",
    "audit": "engine.cli.audit:audit_command",
    "notify": "engine.cli.notify:notify_command",
    "backup": "engine.cli.backups:backup_command",
    "restore": "engine.cli.backups:restore_command",
    "fsck": "engine.cli.fsck:fsck_command",
    "gc": "engine.cli.gc:gc_command",
    "doctor": "engine.cli.doctor:doctor_command",
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
