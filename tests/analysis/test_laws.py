"""Laws of scaling find again the parameters that synthetic timings were made with, and refuse what can't be fitted."""

from collections.abc import Callable
from math import inf, sqrt

import pytest

from engine.analysis.laws import AMDAHL, GUSTAFSON, LAWS, SCALABILITY, Fit, Law, best_count, fit, in_words
from tests.analysis.timings import made

COUNTS = (1, 2, 3, 4, 6, 8, 10)
KNOWN = [
    (AMDAHL, (0.05,)),
    (AMDAHL, (0.3,)),
    (GUSTAFSON, (0.1,)),
    (GUSTAFSON, (0.4,)),
    (SCALABILITY, (0.05, 0.02)),
    (SCALABILITY, (0.2, 0.005)),
]


def fitted(law: Law, parameters: tuple[float, ...], **options: float) -> Fit:
    found = fit(law, made(lambda count: law.speed_up(count, *parameters), COUNTS, **options))  # type: ignore[arg-type]
    assert isinstance(found, Fit)
    return found


@pytest.mark.parametrize(("law", "parameters"), KNOWN)
def test_without_noise_a_law_finds_its_parameters(law: Law, parameters: tuple[float, ...]) -> None:
    found = fitted(law, parameters)
    assert [parameter.value for parameter in found.parameters] == pytest.approx(parameters, rel=1e-4)
    assert found.per_second == pytest.approx(50.0)
    assert found.error < 1e-6


@pytest.mark.parametrize(("law", "parameters"), KNOWN)
def test_intervals_hold_the_true_parameters_as_often_as_they_promise(law: Law, parameters: tuple[float, ...]) -> None:
    hits = [0] * len(parameters)
    for number in range(200):
        found = fitted(law, parameters, noise=0.03, number=number)
        hits = [hit + (each.low <= known <= each.high) for hit, each, known in zip(hits, found.parameters, parameters, strict=True)]
    assert all(180 <= hit < 200 for hit in hits), "95 % intervals, at 200 trials within three deviations; all of them would be too wide"


def test_the_error_is_the_noise() -> None:
    errors = [fitted(AMDAHL, (0.1,), noise=0.03, number=number).error for number in range(40)]
    assert sum(errors) / len(errors) == pytest.approx(0.03, rel=0.15)


def test_the_best_count_is_the_peak_of_the_universal_scalability_law() -> None:
    contention, coherency = 0.05, 0.02
    peak = sqrt((1 - contention) / coherency)
    assert abs(best_count(fitted(SCALABILITY, (contention, coherency), noise=0.01)) - peak) <= 1


def test_there_is_no_best_count_where_nothing_slows_down() -> None:
    found = fit(SCALABILITY, made(lambda count: AMDAHL.speed_up(count, 0.1), COUNTS, noise=0.02))
    assert isinstance(found, Fit)
    assert best_count(found) == inf


@pytest.mark.parametrize(
    ("parameters", "noise", "sentence"),
    [
        ((0.05, 0.03), 0.005, "Beyond 6 observers more of them slow it down: there it is fastest, 2.8 times as fast as with 1."),
        ((0.02, 0.004), 0.002, "Up to 10 observers more of them still help; by the fitted law they would slow it down beyond about 16."),
        ((0.1, 0.0), 0.02, "Up to 10 observers no slow-down shows; that many are 5.3 times as fast as 1."),
        ((1.0, 0.004), 0.02, "More observers don't pay here: with 10 it is 0.97 times as fast as with 1, and where it turns can't be told."),
        ((0.5, 0.8), 0.005, "Beyond 1 observer more of them slow it down."),
    ],
)
def test_the_sentence_says_what_the_fit_says(parameters: tuple[float, ...], noise: float, sentence: str) -> None:
    assert in_words(fitted(SCALABILITY, parameters, noise=noise), 10, "observers", "observer") == sentence


def test_a_poor_fit_says_so() -> None:
    found = fitted(SCALABILITY, (0.05, 0.03), noise=0.3)
    assert found.error > 0.15
    assert in_words(found, 10, "observers", "observer").endswith("so take it as a hint.")


@pytest.mark.parametrize("law", LAWS)
def test_a_law_needs_one_run_more_than_it_has_numbers(law: Law) -> None:
    enough = len(law.parameters) + 2
    timings = made(lambda count: law.speed_up(count, *(0.1, 0.01)[: enough - 2]), range(1, enough + 1), seeds=1, noise=0.002)
    assert isinstance(fit(law, timings), Fit)
    assert (
        fit(law, timings[:-1])
        == f"{enough - 1} numbers from {enough - 1} runs leave nothing to tell their error by: it takes {enough} runs. Add seeds or sizes."
    )


def test_sizes_that_tell_nothing_apart_are_refused() -> None:
    found = fit(SCALABILITY, made(lambda count: 1.0, (1, 2), seeds=4, noise=0.01))
    assert found == "These sizes don't tell its parameters apart. Add sizes."


BOUNDED = [
    (SCALABILITY, lambda n: AMDAHL.speed_up(n, 0.02)),
    (SCALABILITY, lambda n: 0.9),
    (AMDAHL, lambda n: float(n)),
    (AMDAHL, lambda n: 1.0),
    (GUSTAFSON, lambda n: float(n)),
    (GUSTAFSON, lambda n: 1.0),
]


@pytest.mark.parametrize(("law", "speed_up"), BOUNDED)
def test_parameters_and_their_intervals_stay_within_what_is_possible(law: Law, speed_up: Callable[[float], float]) -> None:
    fitted_ones = 0
    for number in range(25):
        found = fit(law, made(speed_up, (1, 2, 4), seeds=2, noise=0.05, number=number))
        if isinstance(found, str):
            continue
        fitted_ones += 1
        for each, (least, most) in zip(found.parameters, law.bounds, strict=True):
            assert least <= each.low <= each.value <= each.high <= most
        assert all(found.speed_up(count) > 0 for count in (1, 2, 3, 4))
    assert fitted_ones > 5


def test_a_slow_down_is_no_serial_share_above_1() -> None:
    timings = made(lambda count: 1 / count, (1, 2, 4), seeds=2, noise=0.02)
    for law, share in ((AMDAHL, "serial share"), (GUSTAFSON, "serial share"), (SCALABILITY, "contention")):
        found = fit(law, timings if law is not SCALABILITY else made(lambda count: 1 / (1.2 - 0.2 / count), COUNTS, noise=0.02))
        assert isinstance(found, str)
        assert found == f"Its {share} would be above 1: these runs slow down more than this law allows."


def test_more_than_linear_speed_up_is_no_serial_share_below_0() -> None:
    found = fit(AMDAHL, made(lambda count: count**1.4, COUNTS, noise=0.01))
    assert isinstance(found, str)
    assert "Its serial share would be below 0" in found


def test_a_share_that_may_be_anything_is_not_stated() -> None:
    found = fit(AMDAHL, made(lambda count: AMDAHL.speed_up(count, 0.5), (1, 2, 3), seeds=2, noise=0.15, number=3))
    assert isinstance(found, str)
    assert "of its serial share reaches from 0 to 1, more than half of what is possible" in found and "Add seeds or sizes." in found
