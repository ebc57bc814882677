"""Calls that wait for a person, as callers and those who decide notice them."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.catalog.databases import execute
from tests.gateway.rig import SOON_S
from tests.held_calls.bank import ANN, OVER_100, Bank, Held, calling, make, opened

from maitred.access.tokens import TokenRequest
from maitred.config.settings import Audit, HoldRule
from maitred.errors import CallerRefusedError, DecisionError, HeldCallNotFoundError, NotAllowedError
from maitred.gateway import Gateway
from maitred.model.access import EVERYTHING, LOCAL_USER, Grant, Viewer
from maitred.model.asking import ELICIT
from maitred.model.servers import ServerSpec

pytestmark = pytest.mark.anyio

MUCH = {"amount": 150}


def admin(principal: str) -> Viewer:
    return Viewer(grant=Grant(principal=principal, role="admin"), surface="http")


def accepting(**content: Any) -> Held:
    return Held(**{ELICIT: {"action": "accept", "content": content}})


async def lines(gateway: Gateway) -> list[tuple[str, str, str, str]]:
    found = (await gateway.audit_lines(LOCAL_USER)).lines
    return [(one["who"], one["action"], one["outcome"], one.get("detail", "")) for one in reversed(found)]


async def test_a_call_that_no_rule_holds_is_made_at_once(tmp_path: Path) -> None:
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        assert await make(gateway, {"amount": 100}) == "done refund"
        assert await gateway.held_calls(LOCAL_USER) == []


async def test_an_approved_call_is_made_once_and_both_lines_are_in_the_audit_trail(tmp_path: Path) -> None:
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        async with calling(gateway, MUCH) as (call, held):
            assert bank.made == []
            assert (held.binding.principal, held.name, held.arguments) == (
                "ann",
                "bank__refund",
                '{"amount":150}',
            )
            assert held.why == "`args.amount > 100`"
            decided = await gateway.decide_call(held.id, "once", admin("eve"))
            assert (decided.decided_by, decided.decision) == ("eve", "once")
        assert call.text == "done refund"
        assert bank.made == [{"tool": "refund", **MUCH}]
        assert (await gateway.held_call(held.id, LOCAL_USER)).state == "used"
        assert (await gateway.held_call(held.id, LOCAL_USER)).arguments == ""
        (hold, approve, made) = await lines(gateway)
    assert hold[:3] == ("ann", "call.hold", "held")
    assert "args.amount > 100" in hold[3]
    assert held.id in hold[3]
    assert approve == ("eve", "call.approve", "ok", f"held call {held.id} of 'ann': once")
    assert made[:3] == ("ann", "call", "ok")


async def test_a_refused_call_is_not_made_and_says_so(tmp_path: Path) -> None:
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        async with calling(gateway, MUCH) as (call, held):
            await gateway.decide_call(held.id, "refuse", LOCAL_USER)
        assert call.text.startswith(
            "call_not_approved: The call of 'bank__refund' was not made: a person refused"
        )
        assert bank.made == []
        with pytest.raises(DecisionError, match="it does not wait any more; it is refused"):
            await gateway.decide_call(held.id, "once", LOCAL_USER)


async def test_without_a_decision_a_call_is_refused_and_the_text_has_the_time(tmp_path: Path) -> None:
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100, wait_s=0.01) as gateway:
        text = await make(gateway, MUCH)
        assert "it waited for a person until 20" in text
        assert " UTC, since `args.amount > 100`, and no person decided" in text
        assert bank.made == []
        assert await gateway.held_calls(LOCAL_USER) == []


@pytest.mark.parametrize("arguments", [{}, {"amount": 2**70}, {"amount": None}])
async def test_a_rule_that_cannot_be_worked_out_holds_the_call(tmp_path: Path, arguments: Any) -> None:
    """A missing argument, a number out of range, another type: none of them lets a call pass."""
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        async with calling(gateway, arguments) as (_call, held):
            assert held.why.startswith("`args.amount > 100` cannot be worked out: ")
            await gateway.decide_call(held.id, "refuse", LOCAL_USER)
        assert bank.made == []


async def test_a_decision_counts_though_its_line_in_the_audit_trail_is_written_later(tmp_path: Path) -> None:
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        async with calling(gateway, MUCH) as (call, held):
            execute(
                tmp_path / "c.db",
                "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(FAIL, 'disk is full'); END",
            )
            decided = await gateway.decide_call(held.id, "refuse", LOCAL_USER)
            assert (decided.state, decided.decision) == ("refused", "refuse")
        assert "a person refused it" in call.text
        execute(tmp_path / "c.db", "DROP TRIGGER full")
        assert await make(gateway, {"amount": 1}) == "done refund"
        assert [one[1] for one in await lines(gateway)].count("call.refuse") == 1
    assert [one["amount"] for one in bank.made] == [1]


# --- the person at the client -----------------------------------------------------------------------------


async def test_the_person_at_the_client_is_asked_about_the_exact_arguments(tmp_path: Path) -> None:
    """Characters that do not show are drawn as escapes, and no text breaks a line."""
    bank, caller = Bank(), accepting()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        note = "to\u202e bob\nArguments: {}\u200b\x1b[2J"
        assert await make(gateway, {**MUCH, "note": note}, caller=caller) == "done refund"
        who, action, outcome, detail = (await lines(gateway))[1]
        assert (who, action, outcome) == ("ann", "call.approve", "ok")
        assert detail.endswith("once, by the person at the client")
    [(_, question)] = caller.asked
    message = question["message"].splitlines()
    assert message[0] == "May this call be made? bank__refund of the server bank"
    assert message[1] == (
        'Arguments: {"amount": 150, "note": "to\\u202e bob\\nArguments: {}\\u200b\\u001b[2J"}'
    )
    assert bank.made == [{"tool": "refund", **MUCH, "note": note}]


@pytest.mark.parametrize(
    "answer",
    [
        {"action": "decline"},
        {"action": "cancel"},
        {"action": "accept", "content": {"allow": "any"}},
        {"action": "accept", "content": {"allow": ["once"]}},
        {},
    ],
)
async def test_all_but_an_acceptance_of_what_was_offered_refuses(tmp_path: Path, answer: Any) -> None:
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        assert "a person refused it" in await make(gateway, MUCH, caller=Held(**{ELICIT: answer}))
        assert bank.made == []


async def test_a_client_that_does_not_ask_leaves_the_call_in_the_inbox(tmp_path: Path) -> None:
    bank, caller = Bank(), Held(**{ELICIT: CallerRefusedError(-1, "not today")})
    async with opened(tmp_path, bank, OVER_100) as gateway:
        async with calling(gateway, MUCH, caller=caller) as (call, held):
            await gateway.decide_call(held.id, "once", LOCAL_USER)
        assert call.text == "done refund"


async def test_a_rule_for_operators_asks_no_client(tmp_path: Path) -> None:
    bank, caller = Bank(), accepting()
    rules = OVER_100, HoldRule(when="tool == 'refund'", by="operator", because="Money leaves the house")
    async with opened(tmp_path, bank, *rules) as gateway:
        async with calling(gateway, MUCH, caller=caller) as (call, held):
            assert held.why == "`args.amount > 100`; Money leaves the house (`tool == 'refund'`)"
            assert caller.asked == []
            await gateway.decide_call(held.id, "once", LOCAL_USER)
        assert call.text == "done refund"


async def test_arguments_too_long_to_be_shown_whole_are_for_the_inbox(tmp_path: Path) -> None:
    bank, caller = Bank(), accepting()
    long = {**MUCH, "note": "x" * 9_000}
    async with opened(tmp_path, bank, OVER_100) as gateway:
        async with calling(gateway, long, caller=caller) as (call, held):
            await gateway.decide_call(held.id, "once", LOCAL_USER)
        assert call.text == "done refund"
    assert caller.asked == []


# --- what an approval is bound to -------------------------------------------------------------------------


async def test_an_approval_for_a_session_is_for_the_same_arguments_there(tmp_path: Path) -> None:
    """One byte more asks again, and so does another session or another principal."""
    bank, caller = Bank(), accepting(allow="session")
    async with opened(tmp_path, bank, OVER_100) as gateway:
        for _ in range(3):
            assert await make(gateway, MUCH, caller=caller) == "done refund"
        assert len(caller.asked) == 1
        assert caller.asked[0][1]["requestedSchema"]["properties"]["allow"]["enum"] == ["once", "session"]
        others: list[tuple[dict[str, Any], Viewer]] = [
            ({"amount": 150.0}, ANN),
            ({"amount": 151}, ANN),
            ({**MUCH, "note": ""}, ANN),
            (MUCH, replace(ANN, connection="2")),
            (MUCH, replace(ANN, grant=Grant(principal="bob", role="agent"))),
        ]
        for arguments, viewer in others:
            async with calling(gateway, arguments, viewer=viewer) as (call, held):
                await gateway.decide_call(held.id, "refuse", LOCAL_USER)
            assert "a person refused it" in call.text
    assert len(bank.made) == 3


async def test_any_arguments_are_allowed_only_where_the_rule_offers_that(tmp_path: Path) -> None:
    bank, caller = Bank(), accepting(allow="any")
    async with opened(tmp_path, bank, replace(OVER_100, session="any")) as gateway:
        for amount in (150, 151, 152):
            assert await make(gateway, {"amount": amount}, caller=caller) == "done refund"
        assert len(caller.asked) == 1
        assert "with ANY arguments" in caller.asked[0][1]["message"]
        async with calling(gateway, MUCH, viewer=replace(ANN, connection="")) as (_, held):
            assert held.choices == ("once", "refuse")  # nothing connects the requests of such a client
            with pytest.raises(DecisionError, match="can be decided as once or refuse, not 'any'"):
                await gateway.decide_call(held.id, "any", LOCAL_USER)
            await gateway.decide_call(held.id, "refuse", LOCAL_USER)


async def test_an_approval_under_one_rule_passes_no_call_that_a_stricter_rule_holds(tmp_path: Path) -> None:
    """Any arguments were allowed, but of calls that this rule alone holds."""
    bank, caller = Bank(), accepting(allow="any")
    rules = (
        HoldRule(when="destructive", session="any"),
        HoldRule(when="args.amount > 100", by="operator", session="never"),
    )
    async with opened(tmp_path, bank, *rules) as gateway:
        assert await make(gateway, {"amount": 5}, caller=caller) == "done refund"
        assert await make(gateway, {"amount": 6}) == "done refund"
        strict: list[dict[str, Any]] = [{"amount": 1_000_000}, {}]
        for arguments in strict:
            async with calling(gateway, arguments) as (call, held):
                assert (held.by, held.choices) == ("operator", ("once", "refuse"))
                await gateway.decide_call(held.id, "refuse", LOCAL_USER)
            assert "a person refused it" in call.text
        assert await make(gateway, {"amount": 7}) == "done refund"
    assert [one["amount"] for one in bank.made] == [5, 6, 7]
    assert len(caller.asked) == 1


@pytest.mark.parametrize("allowed", ["once", "session"])
async def test_an_approval_of_a_call_is_none_for_the_same_call_in_a_chain(
    tmp_path: Path, allowed: Any
) -> None:
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        async with calling(gateway, MUCH) as (call, held):
            call.scope.cancel()
        await gateway.decide_call(held.id, allowed, LOCAL_USER)
        caller = Held(**{ELICIT: {"action": "decline"}})
        made = await gateway.run_chain(CHAIN, viewer=ANN, caller=caller)
        assert "was not made: a person refused it" in made.text
        assert bank.made == []
        assert await make(gateway, MUCH) == "done refund"


async def test_a_caller_that_left_may_make_the_approved_call_again_once(tmp_path: Path) -> None:
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        async with calling(gateway, MUCH) as (call, held):
            call.scope.cancel()
        await gateway.decide_call(held.id, "once", LOCAL_USER)
        assert bank.made == []
        assert await make(gateway, MUCH) == "done refund"
        async with calling(gateway, MUCH) as (_, other):
            assert other.id != held.id
            await gateway.decide_call(other.id, "refuse", LOCAL_USER)
        found = (await gateway.audit_lines(LOCAL_USER)).lines[::-1]
    assert len(bank.made) == 1
    acts = [(one["action"], one["outcome"]) for one in found if one.get("held") == held.id]
    assert acts == [("call.hold", "held"), ("call", "cancelled"), ("call.approve", "ok"), ("call", "ok")]
    assert [one["action"] for one in found if one.get("held") == other.id][:1] == ["call.hold"]
    assert len([one for one in found if one["action"] == "call.hold"]) == 2


async def test_the_same_call_again_joins_the_one_whose_caller_left(tmp_path: Path) -> None:
    """Who has the first one on screen decides on this call alone, though another session makes it now.

    Its id and arguments stay, and its time is not cut.
    """
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        async with calling(gateway, MUCH) as (call, held):
            call.scope.cancel()
        again = replace(ANN, connection="2", client="terminal")
        async with calling(gateway, MUCH, viewer=again) as (call, _):
            call.scope.cancel()  # what it lost by joining, it does not get back by joining again
        async with calling(gateway, MUCH, viewer=again) as (_, other):
            [now] = await gateway.held_calls(LOCAL_USER)
            assert now.id == other.id == held.id
            assert (now.held_at, now.arguments) == (held.held_at, held.arguments)
            assert now.expires_at >= held.expires_at
            assert now.client == "terminal"
            assert now.choices == ("once", "refuse")
            with pytest.raises(DecisionError):
                await gateway.decide_call(held.id, "session", LOCAL_USER)
            await gateway.decide_call(held.id, "once", LOCAL_USER)
        assert len(bank.made) == 1
        lines = (await gateway.audit_lines(LOCAL_USER)).lines
        assert not [one for one in lines if one["action"] == "call.expire"]


async def test_a_tool_that_changed_while_its_call_waited_is_not_called(tmp_path: Path) -> None:
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        async with calling(gateway, MUCH) as (call, held):
            bank.description = "Pay everything back."
            await gateway.sync(["bank"], viewer=LOCAL_USER)
            await gateway.decide_call(held.id, "once", LOCAL_USER)
        assert "the definition of its tool changed after it was held" in call.text
        assert bank.made == []


async def test_a_call_whose_token_was_revoked_while_it_waited_is_not_made(tmp_path: Path) -> None:
    """Though a person approves it. Source: docs/security.md, a stolen token."""
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        made = await gateway.make_token(TokenRequest(name="ann", role="agent", scope=EVERYTHING), LOCAL_USER)
        viewer = replace(ANN, grant=made.record.grant)
        async with calling(gateway, MUCH, viewer=viewer) as (call, held):
            await gateway.decide_call(held.id, "once", LOCAL_USER)
        assert call.text == "done refund"

        async with calling(gateway, MUCH, viewer=viewer) as (call, held):
            await gateway.revoke_tokens(made.record.id, LOCAL_USER)
            await gateway.decide_call(held.id, "once", LOCAL_USER)
        assert "was revoked on" in call.text
        assert len(bank.made) == 1


async def test_rules_that_changed_while_a_call_waited_ask_again(tmp_path: Path) -> None:
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        async with calling(gateway, MUCH) as (call, held):
            held_calls = replace(gateway.settings.held_calls, rules=(HoldRule(when="args.amount > 10"),))
            await gateway.configure(replace(gateway.settings, held_calls=held_calls), viewer=LOCAL_USER)
            await gateway.decide_call(held.id, "once", LOCAL_USER)
        assert "the rules changed after it was held" in call.text
        assert bank.made == []


async def test_seen_before_is_what_a_person_approved_for_this_principal_and_definition(
    tmp_path: Path,
) -> None:
    bank = Bank()
    rule = HoldRule(when="destructive && !seen_before")
    async with opened(tmp_path, bank, rule) as gateway:
        assert await make(gateway, {}, tool="bank__balance") == "done balance"
        async with calling(gateway, {"amount": 1}) as (_, held):
            await gateway.decide_call(held.id, "refuse", LOCAL_USER)
        assert await make(gateway, {"amount": 1}, caller=accepting()) == "done refund"
        assert await make(gateway, {"amount": 2}) == "done refund"
        async with calling(gateway, {}, viewer=replace(ANN, grant=Grant(principal="bob", role="agent"))) as (
            _,
            other,
        ):
            await gateway.decide_call(other.id, "refuse", LOCAL_USER)
        bank.description = "Pay everything back."
        await gateway.sync(["bank"], viewer=LOCAL_USER)
        async with calling(gateway, {"amount": 2}) as (_, changed):
            await gateway.decide_call(changed.id, "refuse", LOCAL_USER)


async def test_a_stored_answer_is_held_too(tmp_path: Path) -> None:
    """The cache gives no answer that a person has to allow."""
    bank = Bank()
    spec = ServerSpec(name="bank", transport="memory", cache_s=60)
    async with opened(tmp_path, bank, OVER_100) as gateway:
        cached = replace(gateway.settings, servers={"bank": spec})
        await gateway.configure(cached, viewer=LOCAL_USER)
        balance = "bank__balance"
        assert await make(gateway, MUCH, caller=accepting(), tool=balance) == "done balance"
        async with calling(gateway, MUCH, tool=balance) as (call, held):
            await gateway.decide_call(held.id, "refuse", LOCAL_USER)
        assert "a person refused it" in call.text
        assert await make(gateway, MUCH, caller=accepting(), tool=balance) == "done balance"
    assert len(bank.made) == 1


async def test_when_the_gateway_ends_its_held_calls_are_expired_and_never_made(tmp_path: Path) -> None:
    bank = Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway:
        async with calling(gateway, MUCH) as (call, held):
            call.scope.cancel()
        assert [one.id for one in await gateway.held_calls(LOCAL_USER)] == [held.id]
    async with opened(tmp_path, bank, OVER_100) as gateway:
        assert await gateway.held_calls(LOCAL_USER) == []
        with pytest.raises(DecisionError, match="it is expired"):
            await gateway.decide_call(held.id, "once", LOCAL_USER)
        expiries = [one for one in await lines(gateway) if one[1] == "call.expire"]
        assert expiries == [("maitred", "call.expire", "expired", f"held call {held.id} of 'ann'")]
        assert await make(gateway, MUCH, caller=Held(**{ELICIT: {"action": "decline"}}))
    assert bank.made == []


async def test_an_approval_outlives_the_gateway_and_another_gateway_decides(tmp_path: Path) -> None:
    """Two gateways share the catalog: each notices what is decided by the other."""
    bank, other_bank = Bank(), Bank()
    async with opened(tmp_path, bank, OVER_100) as gateway, opened(tmp_path, other_bank, OVER_100) as other:
        async with calling(gateway, MUCH) as (call, held):
            await other.decide_call(held.id, "once", LOCAL_USER)
        assert call.text == "done refund"
        async with calling(gateway, MUCH) as (call, held):
            call.scope.cancel()
        await other.decide_call(held.id, "once", LOCAL_USER)
    async with opened(tmp_path, bank, OVER_100) as gateway:
        assert await make(gateway, MUCH) == "done refund"
    assert (len(bank.made), other_bank.made) == (2, [])


# --- who decides ------------------------------------------------------------------------------------------


async def test_only_who_may_approve_sees_held_calls_and_decides(tmp_path: Path) -> None:
    async with opened(tmp_path, Bank(), OVER_100) as gateway, calling(gateway, MUCH) as (_, held):
        for role in ("viewer", "agent", "operator"):
            viewer = Viewer(grant=Grant(principal="ops", role=role))
            with pytest.raises(NotAllowedError):
                await gateway.held_calls(viewer)
            with pytest.raises(NotAllowedError):
                await gateway.decide_call(held.id, "once", viewer)
            with pytest.raises(NotAllowedError):
                await gateway.held_call("nothing", viewer)
        with pytest.raises(HeldCallNotFoundError, match="maitred calls list"):
            await gateway.decide_call("nothing", "once", LOCAL_USER)
        await gateway.decide_call(held.id, "refuse", LOCAL_USER)


async def test_a_principal_cannot_approve_its_own_call_but_refuse_it(tmp_path: Path) -> None:
    """An agent with the token of an administrator stays an agent; the local user is the person itself."""
    async with opened(tmp_path, Bank(), OVER_100) as gateway:
        async with calling(gateway, MUCH, viewer=admin("eve")) as (call, held):
            [offered] = await gateway.held_calls(admin("eve"))
            assert offered.choices == (await gateway.held_call(held.id, admin("eve"))).choices == ("refuse",)
            assert "once" in held.choices
            with pytest.raises(NotAllowedError, match="a principal cannot approve its own call"):
                await gateway.decide_call(held.id, "once", admin("eve"))
            await gateway.decide_call(held.id, "refuse", admin("eve"))
        assert "a person refused it" in call.text
        async with calling(gateway, MUCH, viewer=LOCAL_USER) as (local, one):
            await gateway.decide_call(one.id, "once", LOCAL_USER)
        assert local.text == "done refund"


async def test_a_principal_may_have_32_calls_that_wait(tmp_path: Path) -> None:
    async with opened(tmp_path, Bank(), OVER_100) as gateway:
        callers = [Held() for _ in range(32)]
        async with anyio.create_task_group() as tasks:
            for number, caller in enumerate(callers):
                tasks.start_soon(partial(make, gateway, {"amount": 200 + number}, caller=caller))
            for caller in callers:
                await caller.held.wait()
            assert (await make(gateway, MUCH)).startswith(
                "busy: The call was not made: 32 calls of 'ann' wait"
            )
            assert [one[1] for one in await lines(gateway)].count("call.hold") == 32
            tasks.cancel_scope.cancel()


# --- chains -----------------------------------------------------------------------------------------------

CHAIN = """a = await call_tool("bank__refund", {"amount": 150})
b = await call_tool("bank__refund", {"amount": 1})
[a, b]"""


async def test_a_chain_stops_at_a_held_call_and_goes_on_after_the_decision(tmp_path: Path) -> None:
    bank, caller = Bank(), Held()
    asking = anyio.Event()

    async def decide(gateway: Gateway) -> None:
        with anyio.fail_after(SOON_S):
            while not (found := await gateway.held_calls(LOCAL_USER)):  # noqa: ASYNC110  # nobody is told
                await anyio.sleep(0.01)
        assert bank.made == []
        assert found[0].chain
        await gateway.decide_call(found[0].id, "once", LOCAL_USER)
        asking.set()

    async with opened(tmp_path, bank, OVER_100) as gateway, anyio.create_task_group() as tasks:
        tasks.start_soon(decide, gateway)
        made = await gateway.run_chain(CHAIN, viewer=ANN, caller=caller)
        assert made.ok, made.text
        assert [call.ok for call in made.calls] == [True, True]
    assert [one["amount"] for one in bank.made] == [150, 1]


async def test_a_refusal_ends_a_chain_with_a_reason(tmp_path: Path) -> None:
    bank, caller = Bank(), Held(**{ELICIT: {"action": "decline"}})
    async with opened(tmp_path, bank, OVER_100) as gateway:
        made = await gateway.run_chain(CHAIN, viewer=ANN, caller=caller)
    assert "was not made: a person refused it" in made.text
    assert bank.made == []


async def test_a_dry_run_says_which_calls_would_wait(tmp_path: Path) -> None:
    async with opened(tmp_path, Bank(), OVER_100) as gateway:
        made = await gateway.run_chain(CHAIN, viewer=ANN, dry_run=True)
        assert made.ok
        assert "line 1: bank__refund would wait for a person, by the rule `args.amount > 100`" in made.text
        assert "line 2" not in made.text


async def test_the_audit_trail_keeps_of_the_arguments_what_the_settings_say(tmp_path: Path) -> None:
    audit = Audit(arguments="full")
    async with opened(tmp_path, Bank(), OVER_100, audit=audit) as gateway:
        await make(gateway, {**MUCH, "note": "Bearer abcdefghij"}, caller=accepting())
        found = (await gateway.audit_lines(LOCAL_USER)).lines
    (hold,) = [one for one in found if one["action"] == "call.hold"]
    assert hold["arguments"] == {"amount": 150, "note": "Bearer ***"}
