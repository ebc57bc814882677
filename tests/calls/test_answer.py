"""What an answer keeps when steps change it, whatever a server sent as content and as `_meta`."""

from typing import Any

import pytest

from maitred.calls.answer import Answer, text_block

NOTE = text_block("note")


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ([{"type": "text", "text": "x"}], [{"type": "text", "text": "x"}]),
        ("bare", ["bare"]),
        ({"a": 1}, [{"a": 1}]),
        (None, []),
        ([], []),
    ],
    ids=["blocks", "text", "object", "null", "empty"],
)
def test_a_block_is_added_to_content_of_any_shape_and_nothing_is_lost(content: Any, kept: list[Any]) -> None:
    """What is no list of blocks stays as a block beside the new one."""
    answer = Answer(wire={"content": content, "novel": 1})

    assert answer.with_last(NOTE).wire == {"content": [*kept, NOTE], "novel": 1}
    assert answer.with_first(NOTE).wire == {"content": [NOTE, *kept], "novel": 1}


@pytest.mark.parametrize("meta", [None, "text", ["list"], {"a": 1}], ids=str)
def test_a_mark_stands_in_meta_beside_the_keys_of_the_server(meta: Any) -> None:
    """A `_meta` that is no object gives way to one."""
    marked = Answer(wire={"_meta": meta}).with_meta({"ours": True})

    assert marked.meta == {**(meta if isinstance(meta, dict) else {}), "ours": True}


def test_changes_leave_the_object_of_the_server_as_it_was_and_keep_what_steps_know() -> None:
    """The same object may be in the cache."""
    wire = {"content": [], "_meta": {"a": 1, "b": 2}, "tools": []}
    answer = Answer(wire=wire, cached=True, opened=("t",))

    changed = answer.with_last(NOTE).with_meta({"c": 3}).without_meta(lambda key: key == "a")
    changed = changed.without_field("tools").with_fields({"x": 1})

    assert wire == {"content": [], "_meta": {"a": 1, "b": 2}, "tools": []}
    assert changed == Answer(
        wire={"content": [NOTE], "_meta": {"b": 2, "c": 3}, "x": 1}, cached=True, opened=("t",)
    )


def test_an_answer_in_which_there_is_nothing_to_take_out_is_the_same_object() -> None:
    """So that most calls pay nothing."""
    answer = Answer(wire={"content": [], "_meta": {"a": 1}})

    assert answer.without_meta(lambda key: key == "b") is answer
    assert answer.without_field("tools") is answer
    assert answer.with_wire(answer.wire) is answer
