"""`mcp`: the lab's tools for agents, on standard input and output."""

import sys
from importlib.util import find_spec

import click

from engine import __version__
from engine.cli.frame import command, option
from engine.errors import ConfigError
from engine.parallab_client import Parallab

MISSING = (
    "Tools for agents need the package mcp, which is not installed. Install it with: "
    f"{sys.executable} -m pip install -r requirements-mcp.txt"
)


@command("mcp")
def mcp_command(
    agent: str = option("Name of the agent, where the lab has no accounts.", envvar="PARALLAB_AGENT", default="mcp"),
) -> None:
    """Serve the lab's tools to an agent (MCP on standard input and output), with the rights of PARALLAB_TOKEN at
    PARALLAB_URL.

    Agents' programs start this command; docs/api.md has their configuration. In a lab without accounts, PARALLAB_OWNER
    says for whom the agent acts.
    """
    if find_spec("mcp") is None:
        raise ConfigError.of("", MISSING)
    from engine.mcp_server import server

    try:
        Parallab(agent=agent)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    server(lambda: Parallab(agent=agent, tries=3), __version__).run("stdio")
