"""Why a system works as it does, in one sentence with this run's number, or with the reason why there is none."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.core.formatting import duration, size
from app.run.live_series import goals
from app.ui.html import number
from engine.analysis.result import not_learned, ranked
from engine.analysis.scaling.scaling_data import kind_of
from engine.analysis.scaling.staleness import age_in_words
from engine.errors import counted
from engine.experiments.pipeline.config import PipelineConfig
from engine.experiments.sync_sgd.config import STEPS_TOGETHER
from engine.metrics import EVALUATION, LAST_EPISODES, Metric
from engine.pipelining import ideal_bubble, speed_up_bound
from engine.registry import known_experiment
from engine.rl.kinds import FIELD, HIGHEST
from engine.store.records import RankRow, Run, RunRow, Summary


@dataclass(frozen=True)
class _Recorded:
    """What a run recorded, its settings, and the target of each metric that has one."""

    settings: Mapping[str, object]
    goals: Mapping[str, float]
    summaries: Sequence[Summary]
    phases: Mapping[int, Mapping[str, float]]
    ranks: Sequence[RankRow]
    words: Mapping[str, str]
    """What ranks did besides work, by phase."""

    def mean(self, name: str) -> float | None:
        """Return the mean of a metric over all its recorded values; None without any."""
        return _mean(self.summaries, name)

    def values(self, name: str) -> int:
        """Return how many finite values of a metric were recorded."""
        return sum(each.count - each.nonfinite for each in self.summaries if each.metric == name)

    def share(self, kind: str, phase: str) -> str:
        """Return the share of their time that the ranks of a kind spent in a phase, such as `12 %`; empty if none was
        recorded.
        """
        shares = _shares(self._spent(kind), [phase])
        return f"{100 * shares[phase]:.0f} %" if shares else ""

    def exchange(self, kind: str) -> str:
        """Return what the ranks of a kind did besides work, in the words of the run's result, such as `waited 1 % and
        communicated 61 % of the time`; empty if none was recorded.
        """
        return _idle_in_words(self._spent(kind), self.words)

    def who(self, kind: str) -> str:
        """Return the ranks of a kind, as the subject of a sentence: `trainers`, or `the trainer` where it is alone."""
        return f"the {kind}" if self.is_alone(kind) else f"{kind}s"

    def is_alone(self, kind: str) -> bool:
        """Return whether the run has one rank of a kind that others usually are beside."""
        return self.settings.get(f"{kind}s") == 1

    def _spent(self, kind: str) -> list[Mapping[str, float]]:
        return [self.phases[row.rank] for row in self.ranks if kind_of(row.role) == kind and row.rank in self.phases]

    def count(self, name: str, otherwise: int = 1) -> int:
        """Return a setting that is a whole number."""
        found = self.settings.get(name)
        return found if isinstance(found, int) else otherwise


def _shares(spent: Sequence[Mapping[str, float]], phases: Iterable[str]) -> dict[str, float]:
    """Return the share of each phase in the time of some ranks; empty if none was recorded."""
    total = sum(sum(each.values()) for each in spent)
    return {phase: sum(each.get(phase, 0.0) for each in spent) / total for phase in phases} if total else {}


def _mean(summaries: Sequence[Summary], name: str) -> float | None:
    """Return the mean of a metric over all its recorded values; None without any."""
    found = [each for each in summaries if each.metric == name and each.mean is not None]
    count = sum(each.count - each.nonfinite for each in found)
    return sum((each.mean or 0.0) * (each.count - each.nonfinite) for each in found) / count if count else None


def why_of(experiment: str) -> bool:
    """Return whether there is a sentence for an experiment."""
    return experiment in _WHY


def why(
    run: Run, summaries: Sequence[Summary], phases: Mapping[int, Mapping[str, float]], ranks: Sequence[RankRow]
) -> str:
    """Return the sentence of a run's system and mode; empty for exhibits, and for runs of other programs."""
    said = _WHY.get(run.experiment)
    words = _words(run.experiment)
    return said(_Recorded(run.config, goals(run), summaries, phases, ranks, words)) if said else ""


def _hogwild(run: _Recorded) -> str:
    if run.is_alone("trainer"):
        lock, why = (
            ("a lock", "with several trainers, no update can overwrite another one")
            if run.settings.get("lock")
            else ("no lock", "a write is short, so updates of several trainers rarely meet")
        )
        return f"Why {lock}: {why}; here there is 1 trainer, and no other one that writes or waits."
    if run.settings.get("lock"):
        waited = run.share("trainer", "lock")
        cost = (
            f"trainers waited {waited} of their time for it" if waited else "how long trainers waited is not recorded"
        )
        return f"Why a lock: no update can overwrite another one. Here {cost}."
    met = run.mean("perf/overwritten_updates")
    if met == 0:
        checks = run.values("perf/overwritten_updates")
        here = f"here others wrote 0 % of the sampled weights during a trainer's own write ({counted(checks, 'check')})"
    elif met is not None:
        here = f"here others wrote {number(met, 3)} % of the sampled weights during a trainer's own write"
    elif run.settings.get("variant") == "tutorial":
        here = "how often they met here is not known, since the variant tutorial does not measure it"
    else:
        here = "how often they met here is not known: overwrites_every is 0, or the run was too short"
    return f"Why no lock: a write is short, so updates rarely meet, and a lock would take time at every update; {here}."


def _parameter_server(run: _Recorded) -> str:
    trainers = run.count("trainers")
    batch = run.count("batch_update_size", trainers)
    waited = run.exchange("trainer")
    if run.is_alone("trainer"):
        cost = f"here it {waited}" if waited else "it is not recorded here"
        return (
            "Why a batch of 1: there is 1 trainer, so each of its gradients is an update, none is stale, and it waits "
            f"for the server only; {cost}."
        )
    cost = f"here trainers {waited}" if waited else "it is not recorded here"
    if batch < trainers:
        stale = run.mean("perf/staleness")
        late = "late gradients made the mean staleness"
        old = "" if stale is None else f", and {late} {age_in_words(stale)}"
        return (
            f"Why a batch of {batch}: an update needs {batch} of {trainers} gradients, so it does not wait for "
            f"the slowest; {cost}{old}."
        )
    return (
        f"Why a batch of {batch}: one update from the gradients of all trainers, computed from the same weights, so "
        f"none is stale; the price is waiting for the slowest and for the exchange with the server: {cost}."
    )


def _async_sgd(run: _Recorded) -> str:
    others, stale, bound = run.count("trainers") - 1, run.mean("perf/staleness"), run.settings.get("staleness_bound")
    only = "" if bound is None else f" but at the staleness bound of {bound}"
    here = f"here it is {age_in_words(stale)}" if stale is not None else "here it is not recorded"
    waited = run.exchange("trainer")
    cost = f"; the price: {run.who('trainer')} {waited}: {EXCHANGE_OF_TRAINERS}" if waited else ""
    if run.is_alone("trainer"):
        return (
            "Why stale: a gradient is stale if other trainers update before it arrives. With 1 trainer there are none, "
            f"so the mean staleness is N - 1 = 0; {here}{cost}."
        )
    return (
        f"Why stale: the server applies each gradient as it arrives, so no trainer waits for another one{only}, and "
        f"others update in between. With {counted(others + 1, 'trainer')}, however fast each is, the mean staleness is "
        f"at most N - 1 = {others}, less where one ends before another; {here}{cost}."
    )


EXCHANGE_OF_TRAINERS = "sending gradients to the server and waiting for its weights"
"""What makes a run slow; the section Timeline shows it."""


def _sync_sgd(run: _Recorded) -> str:
    what = "gradients" if run.settings.get("sync") in STEPS_TOGETHER else "weights"
    waited = run.exchange("trainer")
    is_simulated = run.settings.get("simulated_bandwidth") or run.settings.get("simulated_latency_ms")
    link = ", including the sleeps of a simulated link" if is_simulated else ""
    cost = f"Here {run.who('trainer')} {waited}{link}" if waited else "How long trainers waited is not recorded here"
    if run.is_alone("trainer"):
        return (
            f"Why wait: trainers average their {what}, so an exchange lasts until the slowest has arrived; 1 trainer "
            f"has no other one to average with, and none to wait for. {cost}."
        )
    fragments, overlap = run.count("fragments"), run.count("overlap", 0)
    if run.settings.get("sync") == "diloco" and (fragments > 1 or overlap):
        parts = (
            f"{fragments} fragments of the weights are averaged one after another"
            if fragments > 1
            else ("the weights are averaged once per round")
        )
        beside = f", each while trainers make {counted(overlap, 'step')}" if overlap else ""
        rest = "What this does not hide:" if overlap else "The price:"
        cost = f"{rest}{cost.removeprefix('Here')}" if waited else cost
        return f"Why fragments: {parts}{beside}, so that links carry less at a time. {cost}."
    return (
        f"Why wait: all trainers average their {what}, so an exchange lasts until the slowest has arrived, and in "
        f"return nothing is stale. {cost}."
    )


def _batched_reinforce(run: _Recorded) -> str:
    observers = run.count("observers")
    waited = run.exchange("observer")
    cost = f"here {run.who('observer')} {waited}" if waited else "how long they waited is not recorded here"
    if observers == 1:
        mode = "per call" if run.settings.get("mode") == "per_call" else "a batch"
        return f"Why {mode}: with one observer both are the same, the agent's net runs once per step; {cost}."
    if run.settings.get("mode") == "per_call":
        return (
            f"Why per call: each observer is answered at once, and the agent's net runs {_times(observers)} per step; "
            f"{cost}."
        )
    every = "both" if observers == 2 else f"all {observers}"
    forwards = run.values("train/loss") * run.count("steps", 0)
    rate = run.mean("perf/env_steps_per_second")
    bought = f", here {forwards:,} times instead of {observers * forwards:,}" if forwards else ""
    bought += f", at {number(rate)} env steps/s" if rate is not None else ""
    end = f" {_TARGET_OF_ROUNDS}" if run.goals else ""
    return (
        f"Why a batch: the agent's net runs once for the step of {every} observers instead of "
        f"{_times(observers)}{bought}; in return each waits for the others and the agent: {cost}.{end}"
    )


_TARGET_OF_ROUNDS = "The target is a mean of 100 episodes and ends no run: it plays all its rounds."


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _dppo(run: _Recorded) -> str:
    age = run.mean("perf/policy_age")
    here = f"here {age_in_words(age)} old" if age is not None else "its age is not recorded here"
    waited = run.exchange("collector")
    is_alone, who = run.is_alone("collector"), run.who("collector")
    cost = f"; {who} {waited}" if waited else ""
    play, wait, read = ("plays", "waits", "it does not read") if is_alone else ("play", "wait", "none reads")
    bound = run.count("max_queue_size", 2 * run.count("collectors"))
    match run.settings.get("mode"):
        case "bounded_queue":
            reason = (
                f"Why a bounded queue: at most {bound} batches wait for the learner, then {who} {wait}, so that a "
                "policy is not too old when its data is used"
            )
        case "bounded_lag":
            most = run.settings.get("max_lag")
            old = "of any age" if most is None else f"at most {counted(run.count('max_lag'), 'update')} old"
            reason = f"Why a bounded lag: {who} {play} while the learner trains, with a policy {old}"
        case "update_locked":
            reason = "Why a lock around updates: no collector reads a policy that is half updated, and data may be old"
        case "reader_writer":
            reason = (
                f"Why readers and a writer: {who} {play} at any time but during an update, which waits until {read}"
            )
        case _:
            reason = f"Why no lock: {who} {play} while an update changes the weights, and a rollout may mix policies"
    return f"{reason}: {here}{cost}.{_solved(run)}"


def _solved(run: _Recorded) -> str:
    """Return what solves the environment, and what a run does then."""
    goal = run.goals.get("test/episodic_return")
    if goal is None:
        return ""
    solved = f" Solved means a mean of at least {number(goal)} in 100 greedy episodes"
    every = run.settings.get("evaluate_every_s")
    if not (run.settings.get("stop_when_solved") and isinstance(every, int | float) and every):
        return f"{solved}, played at the end; training continues to the end, and the last policy is the result."
    tested = f"every {number(every)} s, {counted(run.count('evaluation_episodes'), 'episode')} test the newest policy"
    return (
        f"{solved}; {tested}, and if their mean reaches it, the 100 are played while training continues; if these "
        "reach it too, the run ends early, with the policy that they tested as its result."
    )


def _pipeline(run: _Recorded) -> str:
    config = PipelineConfig.model_construct(**run.settings)  # type: ignore[arg-type]
    layout, schedule = config.layout, config.schedule
    measured = run.mean(BUBBLE)
    here = (
        f"here it is {number(measured, 3)} %, the mean of all batches, in which transfers count as idle time"
        if measured is not None
        else "not recorded here"
    )
    bound, least, most = _of_these_stages(run, config)
    if bound > 100 * ideal_bubble(schedule, layout) + LEAST_POINTS:
        here += (
            f"; these stages are not equal: they computed for {least} to {most}, which makes it at least "
            f"{number(bound, 3)} % without transfers and delays"
        )
    formula, given = {
        "interleaved": (f"(p - 1) / (v m + p - 1) with v = {layout.chunks} chunks per stage", "equal stages"),
        "zb_h1": ("(p - 1) / (3 m + p - 1)", "equal stages and forwards as long as each half of a backward"),
    }.get(schedule, ("(p - 1) / (m + p - 1)", "equal stages"))
    return (
        f"Why micro-batches: with 1, only one stage works at a time. With m = {layout.splits} on p = {layout.stages} "
        "stages, later stages wait for the first micro-batch, and at the end earlier ones for the last gradients; with "
        f"{given} this bubble is {formula} = {100 * ideal_bubble(schedule, layout):.3g} % of the time; {here}."
    )


BUBBLE = "perf/bubble_share"
LEAST_POINTS = 1.0
"""A bubble of measured stages that exceeds that of equal ones by less is no news."""


def _of_these_stages(run: _Recorded, config: PipelineConfig) -> tuple[float, str, str]:
    """Return the least bubble, in percent, of stages with the measured times, and the shortest and the longest of
    these; 0 unless all were recorded.
    """
    spent = [
        seconds
        for row in run.ranks
        if kind_of(row.role) == "stage" and (seconds := run.phases.get(row.rank, {}).get("compute", 0.0))
    ]
    if len(spent) != config.stages or config.stages < 2:
        return 0.0, "", ""
    kinds = 3 if config.schedule == "zb_h1" else 2  # of work, whose shares are alike at all stages
    bound = speed_up_bound(config.schedule, [[each / kinds] * kinds for each in spent], config.layout)
    return 100 * (1 - bound / config.stages), duration(min(spent)), duration(max(spent))


def _reference(run: _Recorded) -> str:
    speed = run.mean("perf/samples_per_second")
    here = f"; {number(speed)} samples/s here" if speed is not None else ""
    return f"Why one process: nothing waits and nothing is exchanged, so it is the baseline of every speed-up{here}."


def _fsdp(run: _Recorded) -> str:
    state, moved = run.mean("perf/memory_state"), run.exchange("trainer")
    held = (
        f"here {size(round(state * 1e6))} per trainer at the peak of a step"
        if state is not None
        else "not recorded here"
    )
    cost = f", and {run.who('trainer')} {moved}" if moved else ""
    stage = run.settings.get("stage")
    if stage == "ddp":
        travel = "with 1 trainer nothing travels" if run.is_alone("trainer") else "only gradients travel"
        return f"Why all of it: each trainer holds all of the state, so {travel}; {held}{cost}."
    what = "gradients and optimizer state" if stage == "sharded" else "parameters, gradients and optimizer state"
    share = (
        f"1 trainer holds all {what}"
        if run.is_alone("trainer")
        else f"Each of {run.count('trainers')} trainers holds a part of {what}, and gathers parameters when it needs "
        "them"
    )
    return f"Why shards: so that a model may need more memory than one trainer has. {share}; {held}{cost}."


def _tensor_parallel(run: _Recorded) -> str:
    sent, moved = run.mean("perf/layer_exchanged"), run.exchange("rank")
    here = f"here {size(round(sent * 1e6))} per layer and step" if sent is not None else "not recorded here"
    cost = f", and {run.who('rank')} {moved}" if moved else ""
    share = (
        "1 rank holds every layer, and has nothing to sum or gather"
        if run.is_alone("rank")
        else f"Each of {run.count('ranks')} ranks holds a part of every layer, and sums or gathers what the parts make "
        "four times per layer and step"
    )
    return (
        f"Why inside a layer: so that one layer may be larger, and one step shorter, than a rank allows. {share}; "
        f"{here}{cost}."
    )


_WHY: Mapping[str, Callable[[_Recorded], str]] = {
    "hogwild": _hogwild,
    "parameter_server": _parameter_server,
    "async_sgd": _async_sgd,
    "sync_sgd": _sync_sgd,
    "batched_reinforce": _batched_reinforce,
    "dppo": _dppo,
    "pipeline": _pipeline,
    "reference": _reference,
    "fsdp": _fsdp,
    "tensor_parallel": _tensor_parallel,
}


# ---- What a run showed, in one computed sentence: its result, how long it took, waiting, and staleness -------------

LITTLE = 0.005
"""A share of the time below this is not worth a word."""


def summary_sentence(
    run: Run,
    entry: RunRow,
    summaries: Sequence[Summary],
    phases: Mapping[int, Mapping[str, float]],
    ranks: Sequence[RankRow],
) -> str:
    """Return the sentence, such as `Test accuracy 97.4 % in 1 min 25 s; trainers waited 2 %; gradients were 2.9 updates
    old on average.`; empty before the first result. A metric with a target is followed by whether it was reached.

    Shares are of the measured seconds of all ranks but servers; staleness is the mean over all gradients recorded.
    """
    result = ranked(entry)
    if result is None:
        return ""
    known = result.metric
    value = " ".join(filter(None, (known.label, number(result.value, unit=known.unit), known.unit)))
    took = (
        f" in {duration(run.execution_time_s)}" if run.execution_time_s is not None else " so far" if run.active else ""
    )
    parts = [
        value + _of_episode(run, known) + took,
        _target(run, known, result.value),
        _idle(summaries) or _waiting(run, phases, ranks),
        _staleness(summaries),
    ]
    bad = not_learned(entry)
    return " ".join(filter(None, (bad.sentence if bad else "", "; ".join(filter(None, parts)) + ".")))


def _of_episode(run: Run, known: Metric) -> str:
    """Return what a reward is of: an episode, and at most how much that can give; empty for other results."""
    if known.name not in (EVALUATION, LAST_EPISODES):
        return ""
    most = HIGHEST.get(str(run.config.get(FIELD)))
    per = " per episode" if known.name == EVALUATION else ""  # the other's label says so
    return f"{'' if most is None else f' of at most {most}'}{per}"


def _target(run: Run, known: Metric, value: float) -> str:
    """Return whether a result has reached the target of its metric; empty without one."""
    goal = goals(run).get(known.name)
    if goal is None:
        return ""
    is_reached = value <= goal if known.better == "min" else value >= goal
    reached = "reached" if is_reached else "not reached yet" if run.active else "not reached"
    return f"target {number(goal)} {reached}"


def _idle(summaries: Sequence[Summary]) -> str:
    """Return which share of its time a pipeline's stages were idle: its bubble, as `why` gives it; otherwise empty."""
    bubble = _mean(summaries, BUBBLE)
    return "" if bubble is None else f"stages were idle {number(bubble, 3)} % of the time"


def _waiting(run: Run, phases: Mapping[int, Mapping[str, float]], ranks: Sequence[RankRow]) -> str:
    """Return which share of their time the ranks that are no servers waited and communicated."""
    experiment = known_experiment(run.experiment)
    servers = experiment.server_roles if experiment else ()
    kinds = {row.rank: row.role.rstrip("0123456789") for row in ranks if row.role not in servers}
    measured = [phases[rank] for rank in kinds if rank in phases]
    if len(measured) < 2:
        return ""
    who = f"{next(iter(kinds.values()))}s" if len(set(kinds.values())) == 1 else "ranks"
    did = _idle_in_words(measured, _words(run.experiment))
    return f"{who} {did}" if did else ""


def _idle_in_words(measured: Sequence[Mapping[str, float]], words: Mapping[str, str]) -> str:
    """Return the shares of the time of some ranks in phases, by their words; empty if none was recorded."""
    shares = _shares(measured, words)
    if not shares:
        return ""
    said = [f"{words[phase]} {100 * share:.0f} %" for phase, share in shares.items() if share >= LITTLE]
    if not any(shares.values()):
        return "never waited"
    return f"{' and '.join(said) or f'waited less than {100 * LITTLE:g} %'} of the time"


_WORDS = {"wait": "waited", "communicate": "communicated", "lock": "were blocked by locks"}
ANSWERS = {
    "async_sgd": "mean-staleness",
    "batched_reinforce": "why-batching-helps",
    "dppo": "synchronization",
    "fsdp": "data-flow",
    "hogwild": "why-no-lock",
    "parameter_server": "why-a-batch-of-gradients",
    "pipeline": "the-schedules",
    "reference": "two-uses",
    "sync_sgd": "data-flow",
    "tensor_parallel": "what-does-splitting-a-layer-cost",
}
"""The section of each experiment's guide that explains why its system works as it does."""
_WORDS_OF: Mapping[str, Mapping[str, str]] = {
    "hogwild": {"wait": "waited for the end of the others"},
    "async_sgd": {"wait": "waited for a turn at the server"},
}
"""Words of systems whose ranks wait only for one thing."""


def _words(experiment: str) -> Mapping[str, str]:
    return {**_WORDS, **_WORDS_OF.get(experiment, {})}


def _staleness(summaries: Sequence[Summary]) -> str:
    """Return how old gradients were when they were applied, in updates."""
    mean = _mean(summaries, "perf/staleness")
    return "" if mean is None else f"gradients were {age_in_words(mean)} old on average"
