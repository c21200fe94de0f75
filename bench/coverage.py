"""How often the intervals that pages, verdicts and reports print contain the true value, for skewed values too.

Nothing is measured on this machine but the sampled run times of `bench/results/result_pool.json`; the draws are always
the same. Run: python -m bench.coverage [--draws 4000]
"""

import argparse
import json
from collections.abc import Callable, Mapping
from math import exp

import numpy as np

from bench.measuring import RESULTS, save
from engine.analysis.scaling.speedup import ratio_of_means
from engine.analysis.statistics.confidence import STATISTICS, Ends, Statistic, ends
from engine.analysis.statistics.intervals import holm, mean_interval, p_of_no_difference
from engine.analysis.statistics.resample import Floats
from engine.published.rules import LEVEL

Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]
COUNTS = (3, 4, 5, 6, 7, 8, 10, 20)
STRATEGIES, DUELS = 6, 1_000
NORMAL, EXPONENTIAL = "normal", "exponential"


def distributions() -> dict[str, Draw]:
    """Return ways to draw values: normal, skewed, and recorded run times."""
    pool = json.loads((RESULTS / "result_pool.json").read_text())["figures"]["values"]
    found: dict[str, Draw] = {
        NORMAL: lambda rng, shape: rng.normal(10, 1, shape),
        **{f"lognormal {sigma:g}": _lognormal(sigma) for sigma in (0.25, 0.5, 1.0)},
        EXPONENTIAL: lambda rng, shape: 2 + rng.exponential(1, shape),
    }
    return found | {f"times of {name}": _recorded(np.array(own["perf/execution_time_s"])) for name, own in pool.items()}


def truth(name: str, statistic: Statistic) -> float:
    """Return a distribution's mean, median or interquartile mean; the last by 1,000,000 draws."""
    exact: Mapping[tuple[str, str], float] = {
        (NORMAL, "mean"): 10,
        (NORMAL, "median"): 10,
        (EXPONENTIAL, "mean"): 3,
        (EXPONENTIAL, "median"): 2 + float(np.log(2)),
        **{(f"lognormal {sigma:g}", "mean"): exp(sigma**2 / 2) for sigma in (0.25, 0.5, 1.0)},
        **{(f"lognormal {sigma:g}", "median"): 1 for sigma in (0.25, 0.5, 1.0)},
    }
    if (name, statistic) in exact:
        return exact[name, statistic]
    many = np.sort(distributions()[name](np.random.default_rng(0), (1_000_000,)))
    return float({"mean": many, "median": many[499_999:500_001], "iqm": many[250_000:750_000]}[statistic].mean())


def covered(found: Ends, true: float) -> float | None:
    """Return the share of intervals that contain the true value, in percent; None where minimum and maximum are shown
    instead.
    """
    known = found.method != "range"
    return round(100 * float(((found.low <= true) & (true <= found.high))[known].mean()), 1) if known.any() else None


def main() -> None:
    """Simulate, print and save."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--draws", type=int, default=4_000)
    draws = options.parse_args().draws
    found: dict[str, dict[str, dict[int, float | None]]] = {}
    for name, draw in distributions().items():
        of_kind = found[name] = {kind: {} for kind in ("mean", "mean, 98 %", "iqm", "median", "difference", "ratio")}
        true = {statistic: truth(name, statistic) for statistic in STATISTICS}
        for count in COUNTS:
            values, others = draw(np.random.default_rng(count), (2, count, draws))
            for statistic, value in true.items():
                of_kind[statistic][count] = covered(ends(values, statistic), value)
            of_kind["mean, 98 %"][count] = covered(ends(values, "mean", LEVEL), true["mean"])
            of_kind["difference"][count] = covered(ends(values - others), 0.0)
            ratios = [ratio_of_means(*map(np.ndarray.tolist, pair)) for pair in zip(values.T, others.T, strict=True)]
            known = [each for each in ratios if each.is_known]
            of_kind["ratio"][count] = round(100 * sum(each.low <= 1 <= each.high for each in known) / len(known), 1)
        for kind, by_count in of_kind.items():
            row = "".join("     –" if share is None else f"{share:6.1f}" for share in by_count.values())
            print(f"{name:28}{kind:14}{row}")
    leads = {name: {count: false_leads(draw, count) for count in (5, 8)} for name, draw in distributions().items()}
    print(f"duels of {STRATEGIES} equal strategies with a false lead (%), by seeds: {leads}")
    save("coverage", {"draws": draws, "counts": COUNTS, "covered_percent": found, "false_leads_percent": leads})


def false_leads(draw: Draw, count: int) -> float:
    """Return the share of duels, in percent, in which one of some equal strategies is declared ahead."""
    rng, wrong = np.random.default_rng(count), 0
    for _ in range(DUELS):
        values = draw(rng, (STRATEGIES, count))
        pairs = [values[one] - values[other] for one in range(STRATEGIES) for other in range(one)]
        corrected = holm([p_of_no_difference(pair.tolist()) for pair in pairs])
        wrong += any(
            p <= 0.05 and mean_interval(pair.tolist()).side(0.0) for p, pair in zip(corrected, pairs, strict=True)
        )
    return 100 * wrong / DUELS


def _lognormal(sigma: float) -> Draw:
    return lambda rng, shape: rng.lognormal(0, sigma, shape)


def _recorded(values: Floats) -> Draw:
    return lambda rng, shape: rng.choice(values, shape)


if __name__ == "__main__":
    main()
