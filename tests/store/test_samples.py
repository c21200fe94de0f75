"""The machine's last hour: kept by age, whatever the clock does."""

from datetime import UTC, datetime, timedelta

from engine.store import MachineSample, Reader, Store

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def at(minutes: float) -> str:
    return (NOON + timedelta(minutes=minutes)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sample(minutes: float, value: float = 50.0) -> MachineSample:
    return MachineSample(at(minutes), "host", "cpu_percent", value)


def test_samples_come_back_oldest_first_and_those_past_an_hour_are_gone(store: Store, reader: Reader) -> None:
    assert (reader.machine_samples(), reader.newest_machine_sample()) == ([], "")
    for minutes in (0, 30, 59):
        store.add_machine_samples([sample(minutes)])
    assert [found.at for found in reader.machine_samples()] == [at(0), at(30), at(59)]
    store.add_machine_samples([sample(62, 75.0), MachineSample(at(62), "gpu0", "memory_mb", 12.0)])
    assert [(found.at, found.source, found.value) for found in reader.machine_samples()] == [
        *((at(30), "host", 50.0), (at(59), "host", 50.0)),
        *((at(62), "gpu0", 12.0), (at(62), "host", 75.0)),
    ]
    assert reader.newest_machine_sample() == at(62)


def test_a_clock_that_was_put_back_leaves_no_sample_of_the_future(store: Store, reader: Reader) -> None:
    store.add_machine_samples([sample(600)])
    store.add_machine_samples([sample(0)])
    assert [found.at for found in reader.machine_samples()] == [at(0)]


def test_the_same_moment_twice_is_one_sample(store: Store, reader: Reader) -> None:
    store.add_machine_samples([sample(0, 1.0)])
    store.add_machine_samples([sample(0, 2.0)])
    store.add_machine_samples([])
    assert [found.value for found in reader.machine_samples()] == [2.0]
