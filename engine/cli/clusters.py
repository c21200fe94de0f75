"""`clusters`: the clusters that runs can be sent to."""

import click

from engine.cli.answers import print_json, table
from engine.cli.frame import json_option
from engine.cluster.targets import clusters
from engine.home import Home


@click.command("clusters")
@json_option
def clusters_command(as_json: bool) -> None:
    """List the clusters of clusters.toml in the home, which an admin writes; docs/cluster.md explains its keys.

    Check one with `doctor --cluster NAME`; use it with the option --on NAME of run, submit, sweep and duel.
    """
    home = Home.find()
    found = clusters(home)
    if as_json:
        print_json([one.model_dump(mode="json") for one in found.values()])
    elif found:
        rows = [
            (one.name, one.partition or "default", one.nodes, one.cores, one.gpus, one.max_jobs, one.shared)
            for one in found.values()
        ]
        click.echo(table(("NAME", "PARTITION", "NODES", "CORES", "GPUS", "MAX JOBS", "SHARED FOLDER"), rows))
    else:
        click.echo(f"No clusters: {home.clusters} does not exist. docs/cluster.md shows how to write it.")
