"""Routes for experiments with presets and settings, metrics, and sweeps."""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query
from pydantic import Field

from app.api.errors import described
from app.api.lab_shapes import (
    ExperimentInFull,
    ExperimentList,
    ExperimentTold,
    FaultTold,
    MetricList,
    MetricTold,
    PresetTold,
    RecipeTold,
    SweepInFull,
    SweepList,
    SweepTold,
)
from app.api.run_shapes import DIGITS, MOST_ID, Asked, Id, left_out
from engine.errors import UnknownName
from engine.experiment import Experiment
from engine.filter.syntax import LONGEST
from engine.home import Home
from engine.metrics import METRICS, metric
from engine.registry import experiment, experiments, own_experiments
from engine.store import Reader, Sweep

router = APIRouter()


class SweepsAsked(Asked):
    """Query parameters of the sweep list."""

    sort: str = Field(
        "",
        max_length=LONGEST,
        description="Order, by any field of the filter language, such as -test/accuracy.best; each sweep has the place "
        "of its first run in that order. Default: by number, highest first.",
    )
    before: Id | None = Field(
        None,
        json_schema_extra=left_out,
        description="Cursor: only sweeps that come after this one in the order; pass `next` of the previous page.",
    )
    limit: int = Field(50, ge=1, le=200, description="Page size.")


@router.get("/experiments", summary="List experiments")
def experiment_list() -> ExperimentList:
    """Return the experiments of this version and the lab's own, and its recipes."""
    faults = [FaultTold(name=each.name, sentence=str(each.fault)) for each in own_experiments() if each.fault]
    with Reader.open(Home.find()) as reader:
        recipes = [RecipeTold.model_validate(each) for each in reader.recipes.everyone()]
    cards = [ExperimentTold(**_card(found)) for found in experiments()]
    return ExperimentList(experiments=cards, faults=faults, recipes=recipes)


@router.get("/experiments/{name}", summary="Get an experiment", responses={404: described("Unknown experiment.")})
def experiment_in_full(name: Annotated[str, Path(max_length=100, description="Its name.")]) -> ExperimentInFull:
    """Return one experiment with its presets and the JSON schema of its settings."""
    try:
        found = experiment(name)
    except UnknownName as error:
        raise HTTPException(404, str(error)) from error
    presets = {
        each: PresetTold(
            sentence=preset.sentence, settings=dict(preset.settings), expects=dict(preset.expects), takes=preset.takes
        )
        for each, preset in found.presets.items()
    }
    return ExperimentInFull(**_card(found), presets=presets, config_schema=found.config.model_json_schema())


@router.get("/metric-names", summary="Describe all metrics")
def metric_names() -> MetricList:
    """Return all metrics of this version and of the store's runs, with label, unit and better direction."""
    with Reader.open(Home.find()) as reader:
        names = dict.fromkeys([*METRICS, *reader.fields.metric_names()])
    return MetricList(metrics=[MetricTold.model_validate(metric(name)) for name in names])


@router.get(
    "/sweeps",
    summary="List sweeps, highest number first",
    responses={400: described("Invalid order."), 404: described("The sweep that before names was deleted.")},
)
def sweeps(asked: Annotated[SweepsAsked, Query()]) -> SweepList:
    """Return a page of sweeps, each with the number of its runs per status."""
    with Reader.open(Home.find()) as reader:
        order = reader.fields.order(asked.sort) if asked.sort.strip() else None
        found = reader.sweeps.recent(order=order, before=asked.before, limit=asked.limit + 1)
    shown = [_sweep(each) for each in found[: asked.limit]]
    return SweepList(sweeps=shown, next=shown[-1].id if len(found) > asked.limit else None)


@router.get("/sweeps/{sweep_id}", summary="Get a sweep", responses={404: described("Unknown sweep.")})
def sweep(sweep_id: Annotated[int, Path(ge=1, le=MOST_ID, description="The sweep's number."), DIGITS]) -> SweepInFull:
    """Return one sweep and the ids of its runs."""
    return sweep_in_full(sweep_id)


def sweep_in_full(sweep_id: int) -> SweepInFull:
    """Return one sweep and the ids of its runs; raises NoSuchSweep."""
    from engine.analysis.scaling.scaling_data import unequal_of_sweep  # imports NumPy; the console answers before

    with Reader.open(Home.find()) as reader, reader.db.snapshot():
        found, run_ids = reader.sweeps.one(sweep_id), [run.id for run in reader.sweeps.runs(sweep_id)]
        unequal = unequal_of_sweep(reader, sweep_id)
    return SweepInFull(**_sweep(found).model_dump(), run_ids=run_ids, unequal_work=unequal)


def _sweep(found: Sweep) -> SweepTold:
    own = {name: getattr(found, name) for name in SweepTold.model_fields if name != "command"}
    return SweepTold.model_validate({**own, "command": list(found.command.argv) if found.command else None})


def _card(found: Experiment) -> dict[str, Any]:
    same = {name: getattr(found, name) for name in ("name", "title", "sentence", "source", "axis", "resumable")}
    return {**same, "preset_names": list(found.presets)}
