"""Published names: legal, unique, and the same whatever else happens."""

import random
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maitred.catalog.names import (
    MAX_NAME,
    RESOURCES,
    publish,
    publish_offers,
    resource_uri,
    split_resource_uri,
)
from maitred.model.resources import Offer, OfferKey, OfferKind
from maitred.model.tools import ToolKey

LEGAL = re.compile(r"[A-Za-z0-9_-]{1,64}")

short = st.text(alphabet="ab_-. é", min_size=1, max_size=4)
anything = st.text(min_size=1, max_size=90)
keys = st.builds(lambda server, name: ToolKey(server=server, name=name), short | anything, short | anything)
key_sets = st.lists(keys, max_size=25, unique=True)


def key(server: str, name: str) -> ToolKey:
    return ToolKey(server=server, name=name)


@given(key_sets)
@example([key("s", "a b"), key("s", "a_b"), key("s", "a.b")])
@example([key("a", "b__c"), key("a__b", "c")])
@example([key("s", "\ud800"), key("s", "\U000e0041")])
def test_every_name_is_legal_and_no_two_are_the_same(tools: list[ToolKey]) -> None:
    """Model APIs take `[A-Za-z0-9_-]{1,64}`, and a name stands for one tool. Source: DESIGN 5, rule 5."""
    names = publish(tools)

    assert names.keys() == set(tools)
    assert len(set(names.values())) == len(names)
    assert [name for name in names.values() if not LEGAL.fullmatch(name)] == []


@given(key_sets, st.randoms(use_true_random=False))
def test_the_order_in_which_tools_are_found_changes_no_name(tools: list[ToolKey], rng: random.Random) -> None:
    """Servers start in any order; an agent's names stay. Source: DESIGN 5, rule 5."""
    shuffled = rng.sample(tools, len(tools))

    assert publish(tools) == publish(shuffled)


@given(key_sets, keys)
def test_a_new_tool_renames_another_only_when_the_two_clash(tools: list[ToolKey], new: ToolKey) -> None:
    """Who is renamed by a newcomer would otherwise have had its name, or the newcomer a hash of its own."""
    others = [tool for tool in tools if tool != new]
    before, alone = publish(others), publish([new])[new]

    after = publish([*others, new])

    renamed = [tool for tool in others if after[tool] != before[tool]]
    assert all(before[tool] == alone or before[tool] == after[new] for tool in renamed)


def test_a_plain_name_is_the_server_and_the_tool() -> None:
    """A name that is legal and free needs no hash. Source: DESIGN 5, rule 5."""
    assert publish([key("github", "create_issue")]) == {key("github", "create_issue"): "github__create_issue"}


def test_a_long_name_is_cut_and_ends_in_its_hash_also_beside_others() -> None:
    """Two names that differ only behind the 64th character stay apart, each under the name it has alone."""
    one, two = key("server", "x" * 80 + "one"), key("server", "x" * 80 + "two")

    names = publish([one, two])

    assert names[one] != names[two]
    assert all(len(name) == MAX_NAME for name in names.values())
    assert names == publish([one]) | publish([two])


def test_the_tool_that_bears_a_name_keeps_it_when_others_would_be_cut_to_it() -> None:
    """`get user` and `get.user` both become `get_user`; whose name it is loses nothing."""
    own, spaced, dotted = key("crm", "get_user"), key("crm", "get user"), key("crm", "get.user")

    names = publish([spaced, own, dotted])

    assert names[own] == "crm__get_user"
    assert re.fullmatch(r"crm__get_user_[0-9a-f]{8}", names[spaced])
    assert re.fullmatch(r"crm__get_user_[0-9a-f]{8}", names[dotted])


def test_two_servers_that_spell_the_same_name_both_get_their_hash() -> None:
    """Neither `a` + `b__c` nor `a__b` + `c` has the better claim; a call never reaches the wrong one."""
    names = publish([key("a", "b__c"), key("a__b", "c")])

    assert sorted(name.rpartition("_")[0] for name in names.values()) == ["a__b__c", "a__b__c"]


def test_a_tool_that_bears_the_hashed_name_of_another_is_told_apart() -> None:
    """A server may publish a name that looks like one of ours."""
    pair = [key("crm", "get user"), key("crm", "get_user")]
    imitated = publish(pair)[pair[0]].removeprefix("crm__")

    names = publish([*pair, key("crm", imitated)])

    assert len(set(names.values())) == 3
    assert names[pair[1]] == "crm__get_user"


# --- offers -----------------------------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@given(st.lists(st.tuples(texts, texts), unique=True, max_size=8))
def test_the_uri_of_a_resource_tells_its_server_and_holds_its_own(pairs: list[tuple[str, str]]) -> None:
    """Whatever either is called: no two are the same, and both can be read back."""
    uris = [resource_uri(server, uri) for server, uri in pairs]

    assert len(set(uris)) == len(pairs)
    assert [split_resource_uri(uri) for uri in uris] == pairs


@pytest.mark.parametrize(
    "uri", ["", "note:///1", RESOURCES, f"{RESOURCES}s", f"{RESOURCES}s/", RESOURCES.upper()]
)
def test_what_is_no_uri_of_ours_stands_for_nothing(uri: str) -> None:
    assert split_resource_uri(uri) is None


def test_prompts_are_named_as_tools_are_and_templates_keep_their_expressions() -> None:
    """A prompt and a tool may share a name: they are asked for in different ways."""

    def offer(kind: OfferKind, name: str) -> Offer:
        return Offer(key=OfferKey(server="my wiki", kind=kind, key=name), name="")

    named = publish_offers([offer("prompt", "a b"), offer("prompt", "a/b"), offer("template", "x:///{+a}")])

    assert named[2].name == "maitred://resource/my%20wiki/x:///{+a}"
    assert len({named[0].name, named[1].name}) == 2
    assert all(re.fullmatch(r"my_wiki__a_b_[0-9a-f]{8}", prompt.name) for prompt in named[:2])


@given(key_sets, st.data())
def test_a_withheld_tool_renames_no_other(tools: list[ToolKey], data: st.DataObject) -> None:
    """What nobody approved gets what is left, and a name of its own. Source: DESIGN 5, rule 5."""
    withheld = data.draw(st.sets(st.sampled_from(tools))) if tools else set()
    others = [tool for tool in tools if tool not in withheld]

    names = publish(tools, withheld=withheld)

    assert {tool: names[tool] for tool in others} == publish(others)
    assert len(set(names.values())) == len(names) == len(tools)
    assert [name for name in names.values() if not LEGAL.fullmatch(name)] == []
    assert publish(tools[::-1], withheld=withheld) == names


def test_an_approved_tool_keeps_its_name_beside_one_that_imitates_its_hash() -> None:
    """Neither a plain name nor one with a hash is taken by what is withheld."""
    pair = [key("crm", "a b"), key("crm", "a.b")]
    imitating = key("crm", publish(pair)[pair[0]].removeprefix("crm__"))

    names = publish([*pair, imitating], withheld={imitating})

    assert {one: names[one] for one in pair} == publish(pair)
    assert len(set(names.values())) == 3
