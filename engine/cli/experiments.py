"""`experiments`: the experiments, their presets and their settings."""

from typing import Any

import click

from engine.cli.answers import print_json, table
from engine.cli.frame import json_option
from engine.config import bound_of, choices_of, is_advanced, unit_of
from engine.experiment.definition import Experiment
from engine.registry import experiment, experiments

MOST_CHOICES = 12
"""A setting with more choices is abbreviated in the table."""


@click.command("experiments")
@click.argument("name", required=False)
@json_option
def experiments_command(name: str | None, as_json: bool) -> None:
    """List the experiments; with NAME, show the presets and settings of one."""
    if as_json:
        print_json(described(experiment(name)) if name else [described(found) for found in experiments()])
    elif name:
        click.echo(_in_full(experiment(name)))
    else:
        click.echo(
            table(
                ("NAME", "PRESETS", "DESCRIPTION"),
                [(found.name, " ".join(found.presets), found.sentence) for found in experiments()],
            )
        )


def described(found: Experiment) -> dict[str, Any]:
    """Return an experiment as plain values: card, presets, settings."""
    return {
        "name": found.name,
        "title": found.title,
        "sentence": found.sentence,
        "source": found.source,
        "axis": found.axis,
        "presets": {
            name: {
                "sentence": preset.sentence,
                "takes": preset.takes,
                "work": found.work(found.configure(name)) if found.work else None,
                "settings": preset.settings,
                "expects": preset.expects,
            }
            for name, preset in found.presets.items()
        },
        "settings": {name: _setting(found, name) for name in found.config.model_fields},
    }


def _setting(found: Experiment, name: str) -> dict[str, Any]:
    info = found.config.model_fields[name]
    return {
        "description": info.description,
        "default": info.default,
        "unit": unit_of(info),
        "choices": list(choices_of(info)),
        "least": bound_of(info, "ge") if bound_of(info, "gt") is None else bound_of(info, "gt"),
        "most": bound_of(info, "le") if bound_of(info, "lt") is None else bound_of(info, "lt"),
        "advanced": is_advanced(info),
    }


def _in_full(found: Experiment) -> str:
    presets = [
        (name, _work(found, name), preset.takes, " ".join(f"{key}={value}" for key, value in preset.settings.items()))
        for name, preset in found.presets.items()
    ]
    settings = [
        (name, info.default, _allowed(found, name), info.description)
        for name, info in found.config.model_fields.items()
    ]
    return "\n".join(
        (
            f"{found.title} ({found.name}): {found.sentence}",
            f"Source: {found.source}",
            "",
            table(("PRESET", "TOTAL WORK", "TAKES", "SETS"), presets),
            "",
            table(
                ("SETTING", "DEFAULT", "ALLOWED", "DESCRIPTION"),
                [(name, str(default), allowed, text) for name, default, allowed, text in settings],
            ),
        )
    )


def _work(found: Experiment, preset: str) -> str:
    """Return the total work of a run of a preset; a dash where none is counted."""
    return found.work(found.configure(preset)).in_words() if found.work else "–"


def _allowed(found: Experiment, name: str) -> str:
    info = found.config.model_fields[name]
    if choices := choices_of(info):
        return (
            " | ".join(map(str, choices))
            if len(choices) <= MOST_CHOICES
            else f"{choices[0]} or one of {len(choices) - 1} names (--json)"
        )
    if info.annotation is bool:
        return "true | false"
    ends = [
        ("", bound_of(info, "ge")),
        ("above ", bound_of(info, "gt")),
        ("", bound_of(info, "le")),
        ("below ", bound_of(info, "lt")),
    ]
    limits = " to ".join(f"{word}{bound:,}" for word, bound in ends if bound is not None)
    return f"{limits} {unit_of(info)}".strip()
