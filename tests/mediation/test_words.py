"""How names are written out, and what is left as it is because it is a word or could mean anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.mediation.lexicon import ABBREVIATIONS, ACRONYMS, BY_CONTEXT, KNOWN, NOUNS, VERBS
from maitred.mediation.words import certain_words, expand_abbreviations, is_word, spell


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gt_usr", "get user"),
        ("del", "delete"),
        ("upd_prf", "update profile"),
        ("lstMsgs", "list messages"),
        ("del-cfg", "delete configuration"),
        ("SND.MSG", "send message"),
        ("DelUsrAddr", "delete user address"),
        ("getusr", "get user"),
        ("delmsg", "delete message"),
        ("srchordhist", "search order history"),
        ("getaddrs", "get addresses"),
        ("usrid", "user ID"),
        ("cust_ids", "customer IDs"),
        ("set_rmndrs", "set reminders"),
        ("cmprss_fldr", "cmprss folder"),
        ("get_user2", "get user 2"),
        ("ls_doc", "list document"),
        ("rm_tbl", "remove table"),
        ("ord_no", "order number"),
    ],
)
def test_abbreviations_are_written_out_word_by_word(name: str, words: str) -> None:
    """In any style of spelling; what is unknown stays. Source: design document 000, part 3."""
    assert spell(name, is_tool=True).text == words


@pytest.mark.parametrize(
    "name",
    [
        "get_user", "add_tag", "resetPassword", "update", "listing", "delivery", "select", "target", "forget",
        "listen", "address", "validate", "reset", "delegate", "settings", "reference", "manager", "candidate",
        "make_payload", "runtime", "GTEx_find_tissue", "MSigDB_search", "findGTEvents", "create_pdf",
        "cat_video", "no_data", "天気", "get_résumé", "sportsbook", "get_checklist", "mb_list", "",
    ],
)  # fmt: skip
def test_words_and_names_of_things_stay(name: str) -> None:
    """A word that only looks like an abbreviation is none."""
    assert not spell(name, is_tool=True).is_spelled_out


@pytest.mark.parametrize(
    ("name", "around_it", "words"),
    [
        ("crt_inv", ["cust_id", "amt"], "create invoice"),
        ("upd_inv", ["sku", "qty"], "update inventory"),
        ("snd_inv", ["evt_id", "guest"], "send invite"),
        ("inv", [], "inv"),
        ("get_rms", ["hotel", "guest"], "get rooms"),
        ("rm_file", ["hotel"], "remove file"),
        ("ttl", ["cache_key"], "time to live"),
        ("ttl", ["evt_id"], "title"),
        ("ttl", [], "TTL"),
        ("q", ["search"], "query"),
        ("q", [], "q"),
        ("st", ["city"], "street"),
        ("temp", ["weather"], "temperature"),
        ("temp", ["fldr"], "temporary"),
    ],
)
def test_what_may_mean_two_things_is_written_out_only_where_its_neighbours_decide(
    name: str, around_it: list[str], words: str
) -> None:
    """A wrong reading is worse than none."""
    assert spell(name, certain_words([name, *around_it]), is_tool=True).text == words


def test_the_tables_contradict_neither_english_nor_each_other() -> None:
    """A word of English is no abbreviation; what stands in both tables would have two answers."""
    assert not ABBREVIATIONS.keys() & BY_CONTEXT.keys()
    assert not (ABBREVIATIONS.keys() | BY_CONTEXT.keys()) & (KNOWN | ACRONYMS - {"ttl"})
    assert [long for long in ABBREVIATIONS.values() if " " not in long and len(long) < 4] == []


@given(st.sampled_from(sorted(VERBS)), st.sampled_from(sorted(NOUNS)), st.sampled_from(["_", "-", "."]))
def test_a_name_of_plain_words_is_never_respelled(verb: str, noun: str, separator: str) -> None:
    assert not spell(f"{verb}{separator}{noun}", is_tool=True).is_spelled_out
    assert is_word(noun)


@given(st.text(max_size=60))
def test_any_name_can_be_spelled(name: str) -> None:
    """Names are whatever a server sends; spelling them twice changes nothing more."""
    once = spell(name, is_tool=True)

    assert spell(name, is_tool=True) == once


@pytest.mark.parametrize(
    ("name", "expanded"),
    [
        ("gt_usr", "get_user"),
        ("del_msg", "delete_message"),
        ("upd_usr", "update_user"),
        ("lst_msg", "list_message"),
        ("lstUsr", "list_user"),
        ("usr", "user"),
        ("msg", "message"),
        ("del", "delete"),
        ("upd", "update"),
        ("gt", "get"),
        ("lst", "list"),
        ("getUserById", "getUserById"),
        ("xq7", "xq7"),
    ],
)
def test_the_abbreviations_of_the_document_are_expanded(name: str, expanded: str) -> None:
    """All six; a name without one keeps its style. Source: design document 000, `expandAbbreviations`."""
    assert expand_abbreviations(name) == expanded
