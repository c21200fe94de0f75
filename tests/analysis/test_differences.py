"""What sets runs apart is told field by field; what is equal is known to be."""

from engine.analysis.differences import MISSING, rows


def test_fields_differ_by_value_and_by_being_there() -> None:
    found = rows([{"a": 1, "b": 2, "c": None}, {"a": 1.0, "b": 3, "d": "x"}])
    assert [(row.name, row.differs) for row in found] == [("a", False), ("b", True), ("c", True), ("d", True)]
    assert [row.values for row in found][2:] == [(None, MISSING), (MISSING, "x")]


def test_a_truth_is_no_number_and_order_in_a_list_counts() -> None:
    found = rows([{"a": True, "b": [1, 2], "c": "1"}, {"a": 1, "b": [2, 1], "c": 1}])
    assert all(row.differs for row in found)


def test_nested_fields_stand_by_their_whole_name_and_an_empty_one_stays() -> None:
    found = rows([{"packages": {"torch": "2.15", "numpy": "2"}, "gpus": {}}, {"packages": {"torch": "2.11", "numpy": "2"}, "gpus": {}}])
    assert [(row.name, row.differs) for row in found] == [("packages.torch", True), ("packages.numpy", False), ("gpus", False)]


def test_one_run_differs_from_nobody() -> None:
    assert [row.differs for row in rows([{"a": 1, "b": None}])] == [False, False]
    assert rows([]) == []
