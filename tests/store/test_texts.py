"""What runs are in words, times and flags."""

from engine.filter import RUN_FIELDS, Field
from engine.store import Demand, Reader, Store
from tests.store.ends import finish


def test_every_field_of_a_run_that_is_no_number_comes_in_words(store: Store, reader: Reader) -> None:
    one, bare = finish(store, {}, None), store.add_run("hogwild", {}, owner="bea", demand=Demand(1, 0, 1, 1))
    store.set_note(one, "look", by="ada")
    store.tag([one], "b", by="ada")
    store.tag([one], "a", by="ada")
    store.star([one], by="ada")
    fields = {name: Field("run", name, kind) for name, (kind, _) in RUN_FIELDS.items() if kind not in ("number", "seconds")}
    found = {field.name: values for field, values in reader.texts_of([one, bare], list(fields.values())).items()}
    assert set(found) == set(fields)
    assert {name: found[name] for name in ("owner", "status", "preset", "tags", "note", "starred", "pinned")} == {
        "owner": {one: "ada", bare: "bea"},
        "status": {one: "finished", bare: "queued"},
        "preset": {one: "quick"},
        "tags": {one: "a, b"},
        "note": {one: "look"},
        "starred": {one: True, bare: False},
        "pinned": {one: False, bare: False},
    }
    assert found["ended"][one].endswith("Z") and bare not in found["ended"]
