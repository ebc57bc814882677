"""A shared map is a dictionary that never changes, and a change of it costs what changes."""

from hypothesis import given
from hypothesis import strategies as st

from maitred.shared_map import SharedMap

keys = st.integers(0, 3_000).map(str)
changes = st.tuples(st.dictionaries(keys, st.integers(), max_size=8), st.lists(keys, max_size=8))


@given(st.sampled_from([0, 1, 200, 2_000]), st.lists(changes, max_size=6))
def test_it_is_what_a_dictionary_would_be_after_each_change(
    size: int, story: list[tuple[dict[str, int], list[str]]]
) -> None:
    """And no earlier state changes, since readers may still have it."""
    plain = {str(number): number for number in range(size)}
    states = [(dict(plain), SharedMap(plain))]
    for fresh, removed in story:
        plain = {key: value for key, value in plain.items() if key not in removed} | fresh
        states.append((plain, states[-1][1].updated(fresh, removed)))

    for expected, shared in states:
        assert shared == expected
        assert (len(shared), set(shared), set(shared.items())) == (
            len(expected),
            set(expected),
            set(expected.items()),
        )
        assert sorted(shared.values()) == sorted(expected.values())
        assert shared.keys() | {"more"} == expected.keys() | {"more"}
        for key in ("0", "199", "2999"):
            assert (key in shared, shared.get(key), shared.get(key, -1)) == (
                key in expected,
                expected.get(key),
                expected.get(key, -1),
            )


def test_a_map_that_grows_far_beyond_its_first_size_stays_right() -> None:
    shared: SharedMap[str, int] = SharedMap()
    for start in range(0, 5_000, 50):
        shared = shared.updated({str(number): number for number in range(start, start + 50)})

    assert shared == {str(number): number for number in range(5_000)}
    assert len(shared._buckets) > 8


def test_a_small_map_keeps_the_order_of_its_entries() -> None:
    shared = SharedMap({"b": 1, "a": 2}).updated({"c": 3})

    assert list(shared) == ["b", "a", "c"]
    assert repr(shared) == "SharedMap({'b': 1, 'a': 2, 'c': 3})"
