"""What operators do with a gateway: servers and their approval, tokens, audit trail, mediation, figures.

`Gateway` has these methods beside those for callers of tools. Each takes the viewer who asks, and refuses
what this viewer may not do.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maitred.access.token_store import NewToken, TokenRecord
from maitred.access.tokens import TokenRequest
from maitred.admission.approval import ApprovalState
from maitred.admission.findings import Decision
from maitred.audit.hash_chain import AuditLines, Mark, Verification
from maitred.calls.results import ResultPage
from maitred.catalog.discovery import Report
from maitred.catalog.snapshot import Snapshot
from maitred.config.settings import Settings
from maitred.disclosure.answers import ServerStatus
from maitred.errors import MaitredError
from maitred.gateway.admission import Case, RegistrationResult, Verdict
from maitred.gateway.authorization import Authorization
from maitred.gateway.configure import Configuration
from maitred.gateway.lookup import PathLookup
from maitred.gateway.mediation import ToolDiff
from maitred.gateway.parts import GatewayParts
from maitred.gateway.state import GatewayState
from maitred.gateway.stats import SpendingLedger, Stats, UsageStatistics
from maitred.gateway.storage import Storage
from maitred.gateway.use_cases import UseCaseWriting
from maitred.gateway.visibility import VisibilityService
from maitred.mediation.llm import Estimate, ModelSpending
from maitred.model.access import Viewer
from maitred.model.tools import ToolKey
from maitred.model.usage import ToolStanding, Usage


class Operations:
    """The methods of a gateway for operators."""

    def __init__(
        self,
        parts: GatewayParts,
        *,
        context: GatewayState,
        access: Authorization,
        visibility: VisibilityService,
        ledger: SpendingLedger,
        paths: PathLookup,
        storage: Storage,
        configuration: Configuration,
    ) -> None:
        self._context, self._access, self._visibility = context, access, visibility
        self._ledger, self._paths, self._storage, self._configuring = ledger, paths, storage, configuration
        self._keeper, self._pool = parts.keeper, parts.pool
        self._auditing, self._screen = parts.auditing, parts.screen
        self._tokens = access.tokens
        self._admission, self._mediation = configuration.admission, configuration.mediation
        self._figures = UsageStatistics(context, parts.usage)
        self._use_cases = UseCaseWriting(context, parts.open_writer)

    # --- configuration and servers ------------------------------------------------------------------------

    async def configure(self, settings: Settings, *, viewer: Viewer) -> None:
        """Apply new settings: add, remove and restart servers that differ.

        Raises:
            NotAllowedError: The viewer may not configure.
            ConfigError: A file that they refer to has faults. Nothing is applied.
        """
        self._access.check(viewer, "configure")
        await self._configuring.take(settings)

    def watched_servers(self, viewer: Viewer) -> Sequence[ServerStatus]:
        """The configured servers that a viewer may watch, in the order of the configuration.

        Raises:
            NotAllowedError: The viewer may watch none.
        """
        return self._access.servers(viewer)

    def watches(self, viewer: Viewer) -> bool:
        """Whether there is a server that a viewer may watch."""
        return self._access.watches(viewer)

    def watched_server(self, name: str, viewer: Viewer) -> ServerStatus:
        """One configured server.

        Raises:
            PathNotFoundError: There is none; the text names the nearest.
            NotAllowedError: The viewer may not watch it.
        """
        return self._paths.server(name, viewer, "watch")

    def last_output(self, server: str, viewer: Viewer) -> Sequence[str]:
        """The last lines that a server wrote to its standard error.

        Raises:
            NotAllowedError: The viewer may not watch it.
        """
        self._access.check(viewer, "watch", server=server)
        spec = self._context.settings.servers.get(server)
        return () if spec and spec.withheld and not spec.suspended else self._pool.last_output(server)

    def unmatched_rules(self, viewer: Viewer) -> Mapping[str, Sequence[str]]:
        """Names in visibility rules that their server does not offer, by server.

        Raises:
            NotAllowedError: The viewer may not watch.
        """
        self._access.check(viewer, "watch")
        return self._visibility.unmatched(self._context.snapshot)

    async def catalog_status(self, viewer: Viewer) -> Mapping[str, Any]:
        """Where the catalog is, and why it cannot be written now; empty if it can be. It is tried.

        Raises:
            NotAllowedError: The viewer may watch no server.
        """
        self._access.servers(viewer)
        return await self._storage.status()

    def authorize_stop(self, viewer: Viewer) -> None:
        """Refuse a viewer who may not stop the gateway.

        Raises:
            NotAllowedError: The viewer may not configure.
        """
        self._access.check(viewer, "configure")

    async def sync(self, names: Sequence[str] = (), *, viewer: Viewer) -> list[Report]:
        """List the tools of servers (all enabled ones by default) and update the catalog.

        Raises:
            NotAllowedError: The viewer may not operate them.
        """
        for name in names or (None,):  # it starts servers, so it is more than watching
            self._access.check(viewer, "operate", server=name)
        wanted = list(names) or [
            name for name, spec in self._context.settings.servers.items() if spec.enabled
        ]
        return await self._keeper.sync_all(wanted)

    # --- admission ----------------------------------------------------------------------------------------

    async def check_manifest(self, text: str, *, source: str, viewer: Viewer) -> Decision:
        """What all layers find of the text of a manifest; nothing is registered.

        `source` names it in messages, and tells JSON from YAML by its ending.

        Raises:
            NotAllowedError: The viewer may not register.
        """
        return await self._admission.check(text, source=source, viewer=viewer)

    async def register_server(self, text: str, *, source: str, viewer: Viewer) -> RegistrationResult:
        """Register a server by the text of a manifest, or another manifest of one that is registered.

        Raises:
            NotAllowedError: The viewer may not register.
            StoreError: It cannot be written, and nothing was; or it was, and cannot be read again.
        """
        return await self._admission.register(text, source=source, viewer=viewer)

    async def registrations(self, viewer: Viewer) -> Mapping[str, tuple[str, ApprovalState]]:
        """The registered servers with the source of the manifest and the approval state of each.

        Raises:
            NotAllowedError: The viewer may not register.
        """
        return await self._admission.registered(viewer)

    async def cases(self, viewer: Viewer) -> Sequence[Case]:
        """All servers that are configured or registered and that the viewer may watch, by name.

        Raises:
            NotAllowedError: The viewer may watch none.
        """
        return await self._admission.cases(viewer)

    async def case(self, server: str, *, viewer: Viewer, to_decide: bool = False) -> Case:
        """One server, to look at or `to_decide` on.

        Raises:
            NotAllowedError: The viewer may not watch it, or not decide on it.
            ServerNotFoundError: It is neither configured nor registered.
        """
        return await self._admission.case(server, viewer=viewer, to_decide=to_decide)

    async def decide(
        self, server: str, verdict: Verdict, *, viewer: Viewer, why: str = "", seen: str = ""
    ) -> Case:
        """Decide on a server, and on the changes that it made since it was approved.

        `seen` is the digest of the case that the operator looked at. The gateway refuses if the server is
        another one since then.

        Raises:
            NotAllowedError: The viewer may not decide this.
            ServerNotFoundError: It is neither configured nor registered.
            AdmissionError: This cannot be decided now; the text says why and what to do.
            StoreError: It cannot be written, and nothing was decided; or it was, and cannot be read again.
        """
        return await self._admission.decide(server, verdict, viewer=viewer, why=why, seen=seen)

    # --- access tokens ------------------------------------------------------------------------------------

    async def make_token(self, request: TokenRequest, viewer: Viewer) -> NewToken:
        """Make an access token; its text is in the answer and nowhere else.

        Raises:
            NotAllowedError: The viewer may not grant.
            ConfigError: The request has faults.
            StoreError: The token cannot be stored.
        """
        return await self._tokens.make(request, viewer)

    async def access_tokens(self, viewer: Viewer) -> Sequence[TokenRecord]:
        """All tokens, the newest first, with those that expired or were revoked.

        Raises:
            NotAllowedError: The viewer may not grant.
            StoreError: The tokens cannot be read.
        """
        return await self._tokens.listed(viewer)

    async def revoke_tokens(self, id_or_name: str, viewer: Viewer) -> Sequence[TokenRecord]:
        """Revoke the token of an id, or all tokens of a name; returns those that were valid until now.

        Raises:
            NotAllowedError: The viewer may not grant.
            TokenNotFoundError: No valid token has this id or name.
            StoreError: The revocation cannot be stored.
        """
        return await self._tokens.revoke(id_or_name, viewer)

    # --- the audit trail ----------------------------------------------------------------------------------

    async def audit_lines(
        self,
        viewer: Viewer,
        *,
        since: str = "",
        who: str = "",
        tool: str = "",
        before: int = 0,
        limit: int = 50,
    ) -> AuditLines:
        """The newest lines of the audit trail; see `AuditService.latest`.

        Raises:
            NotAllowedError: The viewer may not audit.
            StoreError: The trail cannot be read.
        """
        return await self._auditing.latest(
            viewer, since=since, who=who, tool=tool, before=before, limit=limit
        )

    async def verify_audit(self, viewer: Viewer, known: Mark | None = None) -> Verification:
        """Check the whole audit trail; `known` is a head that was saved elsewhere.

        Raises:
            NotAllowedError: The viewer may not audit.
            StoreError: The trail cannot be read.
        """
        return await self._auditing.verify(viewer, known)

    def withheld_answer(
        self, answer_id: str, cursor: str = "", *, viewer: Viewer, request_id: str = ""
    ) -> ResultPage:
        """A page of an answer that screening withheld from a model. The audit trail records the reading.

        Raises:
            NotAllowedError: The viewer may not audit.
            ResultNotFoundError: It is not stored, or not any more.
        """
        self._access.check(viewer, "audit")
        said = {"arguments": {"answer": answer_id}, "request_id": request_id, "outcome": "ok"}
        try:
            return self._screen.withheld(answer_id, cursor)
        except MaitredError as error:
            said["outcome"] = error.code
            raise
        finally:
            self._auditing.note(viewer, "read-withheld", **said)

    # --- mediation ----------------------------------------------------------------------------------------

    async def mediation_diff(self, servers: Sequence[str] = (), *, viewer: Viewer) -> Sequence[ToolDiff]:
        """All tools of some servers, by default of all, for which mediation proposes something.

        Raises:
            NotAllowedError: The viewer may not watch them.
            PathNotFoundError: There is no such server.
            StoreError: What was proven cannot be kept.
        """
        return await self._mediation.diff(servers, viewer=viewer)

    async def estimate_mediation(self, servers: Sequence[str] = (), *, viewer: Viewer) -> Estimate | None:
        """What asking the language model all open questions will cost at most; `None` without a model.

        Raises:
            NotAllowedError: The viewer may not watch them.
            PathNotFoundError: There is no such server.
            StoreError: What it answered before cannot be read.
        """
        return await self._mediation.estimate(servers, viewer=viewer)

    async def ask_model(
        self,
        servers: Sequence[str] = (),
        *,
        viewer: Viewer,
        progress: Callable[[int, int], None] = lambda _, __: None,
    ) -> ModelSpending:
        """Ask the language model all open questions of mediation now; returns what it cost.

        `progress` is called with the number of servers that are done, and of all.

        Raises:
            NotAllowedError: The viewer may not operate them.
            ConfigError: No model is configured.
            PathNotFoundError: There is no such server.
            LlmError: It does not answer, or not as it should.
            StoreError: What it answered cannot be shown.
        """
        return await self._mediation.ask(servers, viewer=viewer, progress=progress)

    def model_spending(self, viewer: Viewer) -> ModelSpending | None:
        """What the language model did cost since the settings were taken over; `None` without one.

        Raises:
            NotAllowedError: The viewer may not watch.
        """
        return self._mediation.spent(viewer)

    async def write_use_cases(
        self, server: str = "", *, viewer: Viewer, progress: Callable[[int, int], None]
    ) -> int:
        """Ask the language model for use cases of tools (of one server) without any; returns for how many.

        Raises:
            NotAllowedError: The viewer may not operate.
            ConfigError: No model is configured, or it cannot be used as it is.
            MaitredError: The model cannot be reached, or answers with something else.
        """
        self._access.check(viewer, "operate", server=server or None)
        return await self._use_cases.write(server, progress=progress)

    # --- figures ------------------------------------------------------------------------------------------

    async def stats(self, days: int = 30, *, viewer: Viewer) -> Stats:
        """Figures of the use of tools, and the tokens spent on finding them.

        Raises:
            NotAllowedError: The viewer may not watch.
            StoreError: The figures cannot be read.
        """
        self._access.check(viewer, "watch")
        return await self._figures.stats(days, raw_tokens=self._ledger.raw_tokens(viewer))

    async def usage_by_server(self, days: int, viewer: Viewer) -> Mapping[str, Usage]:
        """Figures of the use of the servers that a viewer may watch.

        Raises:
            NotAllowedError: The viewer may watch none.
            StoreError: The figures cannot be read.
        """
        return await self._figures.by_server(days, {one.name for one in self._access.servers(viewer)})

    def whole_catalog(self, viewer: Viewer) -> Snapshot:
        """The present catalog as a whole, with the standing of every tool.

        Raises:
            NotAllowedError: The viewer may not watch.
        """
        self._access.check(viewer, "watch")
        return self._context.snapshot

    async def update_tiers(self, viewer: Viewer) -> Mapping[ToolKey, ToolStanding]:
        """Compute the standing of every tool now.

        Raises:
            NotAllowedError: The viewer may not operate.
            StoreError: Usage cannot be read, or standings cannot be written.
        """
        self._access.check(viewer, "operate")
        return await self._figures.update_tiers()
