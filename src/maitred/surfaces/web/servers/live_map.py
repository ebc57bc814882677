"""The map of clients, the gateway and servers. The table of the page has the same facts."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from maitred.gateway import ServerStatus
from maitred.surfaces.web.charts import Node, node_map
from maitred.surfaces.web.screen import url_of
from maitred.surfaces.web.servers.recent_use import ClientUse, RecentUse
from maitred.surfaces.web.servers.trouble import state_text, tone_of
from maitred.wording import count_of

MOST_CLIENTS: Final = 12
MOST_SERVERS: Final = 24


def live_map(servers: Sequence[ServerStatus], use: RecentUse | None) -> Markup:
    """The busiest clients, and the servers in trouble or use before all others, in their usual order.

    Without `use`, the map has no clients.
    """
    clients = use.clients if use else ()
    calls = Counter[str]()
    for one in clients:
        calls.update(one.calls)
    drawn = _most_important(servers, calls)
    shown = sorted(clients[:MOST_CLIENTS], key=lambda one: (one.client, one.principal))
    return node_map(
        [_client_node(one) for one in shown],
        "gateway",
        [_server_node(one, calls[one.name]) for one in drawn],
        rest=(_rest(len(clients) - len(shown)), _rest(len(servers) - len(drawn))),
        title="Clients, the gateway and servers",
        desc=f"{count_of(len(clients), 'client')} and {count_of(len(servers), 'server')};"
        " the table below has the same.",
    )


def _most_important(servers: Sequence[ServerStatus], calls: Counter[str]) -> Sequence[ServerStatus]:
    tones = {one.name: tone_of(one) for one in servers}
    order = sorted(servers, key=lambda one: (tones[one.name] not in ("bad", "warn"), -calls[one.name]))
    chosen = {one.name for one in order[:MOST_SERVERS]}
    return [one for one in servers if one.name in chosen]


def _client_node(use: ClientUse) -> Node:
    return Node(name=use.client, note=f"{use.principal}, {count_of(use.total, 'call')}", weight=use.total)


def _server_node(status: ServerStatus, calls: int) -> Node:
    now, parts = status.health.in_flight, status.withheld_parts
    about = [state_text(status), f"{now} now" if now else "", f"{parts} withheld" if parts else ""]
    return Node(
        name=status.name,
        note=", ".join(filter(None, about)),
        tone=tone_of(status),
        weight=calls,
        href=url_of("servers", status.name),
    )


def _rest(number: int) -> str:
    return f"and {number} more" if number > 0 else ""
