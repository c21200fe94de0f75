"""A store that an earlier version made (the one before the store was split into parts) opens, is brought up to date and
reads back whole.
"""

import gzip
import math
from pathlib import Path

from engine.home import Home
from engine.store import Reader, Store

FIXTURE = Path(__file__).parent / "fixtures" / "earlier_store.sqlite.gz"
"""One finished run with points, spans and tags, a sweep of two, a duel, two accounts, a view and a channel."""


def test_a_store_of_an_earlier_version_reads_back_whole(home: Home) -> None:
    home.create()
    home.database.write_bytes(gzip.decompress(FIXTURE.read_bytes()))
    with Store.open(home) as store:
        store.annotations.add_tag(1, "kept", by="ada")
    with Reader.open(home) as reader:
        run = reader.runs.entry(1)
        assert (run.name, run.owner, run.status, set(run.tags)) == ("first", "ada", "finished", {"kept", "thesis"})
        assert run.last["test/accuracy"] == 92 and reader.runs.one(1).environment["host"] == "lab"
        assert [row.id for row in reader.runs.find(matching=reader.fields.filter("config.learning_rate == 0.2"))] == [3]
        curves = reader.curves.series(1, ["train/loss"])
        assert [len(curve.ids) for curve in curves] == [600, 600] and math.isnan(curves[0].values[300])
        assert len(reader.curves.series(1, ["train/loss"], max_points=100)[0].ids) <= 100
        assert len(reader.details.spans(1)) == 4 and reader.details.histograms(1) == {
            (0, "staleness"): {2: 5},
            (1, "staleness"): {2: 5},
        }
        assert len({reader.runs.one(run_id).uid for run_id in (1, 2, 3)} - {""}) == 3
        sweep = reader.sweeps.one(1)
        assert (sweep.name, sweep.statuses, sweep.stop_after) == ("rates", {"queued": 1, "cancelled": 1}, 1)
        assert reader.runs.one(2).held_by == "ada"
        assert (reader.duels.one(1).name, len(reader.duels.one(1).parts)) == ("race", 2)
        assert [(person.name, person.role) for person in reader.people.everyone()] == [
            ("ada", "admin"),
            ("bea", "member"),
        ]
        assert [(view.name, view.page) for view in reader.views.find()] == [("losses", "compare")]
        assert [(channel.kind, channel.owner) for channel in reader.channels.of()] == [("email", "bea")]
        assert [entry.command for entry in reader.audit.entries(who="bea")] == ["add channel", "cancel", "launch sweep"]
