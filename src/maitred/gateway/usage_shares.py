"""Who used how much, and what it cost: by principal, or by the role or the team of principals."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from maitred.access.token_store import TokenRecord
from maitred.config.monitoring_settings import UsageSettings
from maitred.model.access import LOCAL, ROLES, Role
from maitred.model.usage import Spending
from maitred.usage.prices import MICROS, PriceList, UsageShare

ShareKind = Literal["principal", "role", "team"]
NO_TOKEN: Final = "no token"  # noqa: S105  # a heading
"""The group of principals that have no token here, such as those of an authorization server."""
NO_TEAM: Final = "no team"


def usage_shares(
    rows: Iterable[Spending], group_of: Callable[[str], str], settings: UsageSettings
) -> Sequence[UsageShare]:
    """The shares of some days, the most expensive first, and then those with the most tokens.

    `group_of` says of which group a principal's use is part.
    """
    prices = PriceList(settings)
    grouped: dict[str, list[Spending]] = defaultdict(list)
    for row in rows:
        grouped[group_of(row.principal)].append(row)
    shares = [_share(name, of_group, prices) for name, of_group in grouped.items()]
    return sorted(shares, key=lambda one: (-one.cost, -one.read_tokens, one.name))


def roles_of(tokens: Iterable[TokenRecord]) -> Mapping[str, Role]:
    """The greatest role of each principal, by the tokens that it has or had."""
    found: dict[str, Role] = {LOCAL: "admin"}
    for record in tokens:
        grant = record.grant
        known = found.get(grant.principal)
        if known is None or ROLES.index(grant.role) > ROLES.index(known):
            found[grant.principal] = grant.role
    return found


def _share(name: str, rows: Sequence[Spending], prices: PriceList) -> UsageShare:
    micros = sum(row.cost_micros + prices.of_tokens(row) for row in rows)
    return UsageShare(
        name=name,
        calls=sum(row.calls for row in rows),
        read_tokens=sum(row.read_tokens for row in rows),
        argument_tokens=sum(row.argument_tokens for row in rows),
        raw_tokens=sum(row.raw_tokens for row in rows),
        cost=micros / MICROS,
    )
