"""Groups that rules propose: tools of a server that act on the same thing, by their names."""

import random
from itertools import product
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maitred.config.taxonomy import is_category_name
from maitred.mediation import propose_groups

TENANTS = ["create_tenant", "get_tenant_by_id", "list_tenants", "suspend_tenant"]


def named(*names: str, source: str = "backoffice") -> dict[str, str]:
    """The name of the group of each tool that has one."""
    return {tool: group.name for tool, group in propose_groups(names, source).items()}


@pytest.mark.parametrize(
    ("names", "group", "description"),
    [
        (TENANTS, "tenants", "Tools for tenants: create, get, list, suspend."),
        (["gt_usr", "del_usr", "upd_usr"], "users", "Tools for users: delete, get, update."),
        (["tenantCreate", "tenantDelete", "tenantList"], "tenant", "Tools for tenant: create, delete, list."),
        (
            ["create_purchase_order", "list_purchase_orders", "cancel_purchase_order"],
            "purchase_orders",
            "Tools for purchase orders: cancel, create, list.",
        ),
        (["send_sms", "receive_sms", "delete_sms"], "sms", "Tools for SMS: delete, receive, send."),
    ],
)
def test_tools_about_one_thing_are_a_group(names: list[str], group: str, description: str) -> None:
    """Whatever the style of their names; the description has the verbs."""
    found = propose_groups(names)

    assert {(found[name].name, found[name].description, found[name].by) for name in names} == {
        (group, description, "rules")
    }


@pytest.mark.parametrize(
    "names",
    [
        ["echo", "add", "print_env"],
        ["create_tenant", "list_tenants"],  # too few
        [
            "get_user_by_email",
            "send_email",
            "check_email_server",
            "block_by_email",
        ],  # only two are about mail
        ["list_data", "get_data", "delete_data"],  # says nothing
        ["get_backoffice_a", "get_backoffice_b", "get_backoffice_c"],  # the server's own name
        ["get_x1", "get_x2", "get_x3"],
        [],
    ],
)
def test_tools_that_share_no_thing_are_no_group(names: list[str]) -> None:
    """A verb, the name of the server, or what a tool goes by makes none."""
    assert named(*names) == {}


def test_the_vendor_in_all_names_is_no_group() -> None:
    """The things are."""
    things = ["order", "invoice"]
    names = [f"acme_{verb}_{thing}" for verb in ("create", "get", "cancel") for thing in things]

    assert set(named(*names).values()) == {"orders", "invoices"}


def test_the_order_of_the_tools_does_not_matter() -> None:
    """The same tools have the same groups after each start."""
    names = [*TENANTS, *(f"{verb}_order" for verb in ("get", "pay", "list")), "get_tenant_order", "ping"]
    expected = propose_groups(names)
    for seed in range(20):
        random.Random(seed).shuffle(names)
        assert propose_groups(names) == expected


def test_tools_that_have_a_group_no_longer_count_for_another() -> None:
    """Four act on invoices. Without one of them, two tools are left for tenants, which are too few."""
    invoices = ["get_invoice", "list_invoices", "delete_invoice", "get_invoice_tenant"]

    assert named(*invoices, "list_tenants", "delete_tenant") == dict.fromkeys(invoices, "invoices")


@pytest.mark.timeout(60)
def test_thousands_of_tools_in_as_many_groups_take_seconds() -> None:
    """Each new group looks at its own tools alone; with a look at all tools it is more than two minutes."""
    words = ["".join(letters) for letters in product(ascii_lowercase, repeat=4)][-1_333:]
    names = [f"get_{word}_{end}" for word in words for end in "abc"]

    assert set(propose_groups(names)) == set(names)


@pytest.mark.timeout(60)
def test_of_a_long_name_the_first_twelve_words_count() -> None:
    """So one name has few phrases."""
    long = "_".join(["get", *["order"] * 10, "invoice", *["tenant"] * 10_000])

    assert set(named(long, "get_tenant", "list_tenants", "get_invoice", "list_invoices").values()) == {
        "invoices"
    }


@given(st.lists(st.text(max_size=30), max_size=12, unique=True))
def test_whatever_the_names_are_a_group_can_be_published(names: list[str]) -> None:
    """Its name is that of a category, and its description consists of words alone."""
    for tool, group in propose_groups(names).items():
        assert tool in names
        assert is_category_name(group.name)
        assert group.description.isascii()
        assert group.description.isprintable()
        assert len(group.description) <= 200
