"""Which clients were here: those that are connected are not forgotten for those that only came by."""

from tests.support.viewers import agent

from maitred.gateway.client_register import ClientRegister


def test_many_clients_that_came_by_do_not_push_out_one_that_is_connected() -> None:
    register = ClientRegister()
    ann = agent("ann", connection="1", client="editor", surface="mcp", era="handshake")
    register.note(ann)
    for number in range(300):
        register.note(agent("bob", client=f"script {number}", surface="mcp", era="stateless"))

    seen = register.seen()
    assert len(seen) == 200
    assert [one.client for one in seen if one.is_connected] == ["editor"]
    assert seen[0].client == "script 299"

    register.leave(ann)
    assert not any(one.is_connected for one in register.seen())
