"""What operators do with a gateway: servers and their approval, tokens, audit trail, mediation, figures.

`Gateway` has these methods beside those for callers of tools. Each takes the viewer who asks, and refuses
what this viewer may not do.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from maitred.access.token_store import NewToken, TokenRecord
from maitred.access.tokens import TokenRequest
from maitred.admission.approval import ApprovalState
from maitred.admission.findings import Decision
from maitred.calls.results import ResultPage
from maitred.catalog.discovery import Report
from maitred.catalog.snapshot import Snapshot
from maitred.config.settings import Settings
from maitred.disclosure.answers import ServerStatus
from maitred.errors import MaitredError
from maitred.gateway.admission import Verdict
from maitred.gateway.audit_methods import AuditMethods
from maitred.gateway.authorization import Authorization
from maitred.gateway.cases import Case, DefinitionPair, RegistrationResult
from maitred.gateway.client_files import ClientFileMethods, ClientFiles
from maitred.gateway.client_register import ClientRegister, SeenClient
from maitred.gateway.configure import Configuration
from maitred.gateway.held_calls import HeldCallService
from maitred.gateway.lookup import PathLookup
from maitred.gateway.mediation import ToolDiff
from maitred.gateway.override_texts import OverrideTexts
from maitred.gateway.parts import GatewayParts
from maitred.gateway.search_reasons import Explanation, SearchReasons, TrialExplanation, TrialText
from maitred.gateway.server_configurations import ServerConfigurations
from maitred.gateway.server_control import ServerControlMethods
from maitred.gateway.settings_file import SettingsEditor, SettingsMethods
from maitred.gateway.state import GatewayState
from maitred.gateway.stats import SpendingLedger, SpendingStats, Stats, UsageStatistics
from maitred.gateway.storage import Storage
from maitred.gateway.switches import ServerSwitches, SwitchMethods
from maitred.gateway.tool_choices import ToolChoices, ToolDecisions
from maitred.gateway.use_cases import UseCaseWriting
from maitred.gateway.visibility import ChangeWatcher, VisibilityService
from maitred.mediation.llm import Estimate, ModelSpending
from maitred.model.access import Ability, Viewer
from maitred.model.held_calls import CallDecision, HeldCall
from maitred.model.sharing import NO_SHARER, sharer_of
from maitred.model.tools import Tool, ToolKey
from maitred.model.usage import ANY_USE, ToolStanding, Usage, UsageFilter


class Operations(
    ToolDecisions, SwitchMethods, ServerControlMethods, SettingsMethods, ClientFileMethods, AuditMethods
):
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
        self._held = HeldCallService(
            context, access, parts.auditing, store=parts.held_calls, notify=parts.notify_of_held
        )
        self._use_cases = UseCaseWriting(context, parts.open_writer)
        self._reasons = SearchReasons(context, access, visibility, parts.search, parts.usage)
        self._texts = OverrideTexts(configuration, parts.auditing)
        self._choices = ToolChoices(configuration, parts.auditing)
        self._switches = ServerSwitches(configuration, parts.auditing)
        self._editor = SettingsEditor(context, configuration, parts.auditing)
        self._client_files = ClientFiles(context, parts.auditing)
        self._clients = ClientRegister()

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

    def server_names(self, viewer: Viewer) -> Sequence[str]:
        """The names of the servers that a viewer may see; `Gateway.servers` knows more, and takes longer."""
        return list(self._access.portion(viewer).context.settings.servers)

    def is_allowed(self, viewer: Viewer, ability: Ability, *, server: str | None = None) -> bool:
        """Whether a viewer has an ability, for a surface that offers only what will not be refused."""
        return not self._access.why_not(viewer, ability, server=server)

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

    def last_output(self, server: str, viewer: Viewer, *, earlier: bool = False) -> Sequence[str]:
        """The last lines that a server wrote to its standard error; `earlier`: also before it was restarted.

        Raises:
            NotAllowedError: The viewer may not watch it.
        """
        self._access.check(viewer, "watch", server=server)
        spec = self._context.settings.servers.get(server)
        withheld = spec is not None and spec.withheld and not spec.suspended
        return () if withheld else self._pool.last_output(server, earlier=earlier)

    def unmatched_rules(self, viewer: Viewer) -> Mapping[str, Sequence[str]]:
        """Names in visibility rules that their server does not offer, by server.

        Raises:
            NotAllowedError: The viewer may not watch.
        """
        self._access.check(viewer, "watch")
        return self._visibility.unmatched(self._context.snapshot)

    def watch_visibility(self, changed: ChangeWatcher) -> None:
        """Call a function after each change of what is visible; it must not block."""
        self._visibility.watch(changed)

    def requirement(self, tool: Tool, viewer: Viewer) -> str:
        """What a tool needs, for a viewer whose list cannot change; see `VisibilityService.requirement`."""
        return self._visibility.requirement(tool, viewer)

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

    async def sync(
        self, names: Sequence[str] = (), *, viewer: Viewer, as_gateway: bool = False
    ) -> list[Report]:
        """List the tools of servers (all enabled ones by default) and update the catalog.

        Where each principal has its own login, the viewer's is used; with `as_gateway` the gateway's.

        Raises:
            NotAllowedError: The viewer may not operate them.
        """
        for name in names or (None,):  # it starts servers, so it is more than watching
            self._access.check(viewer, "operate", server=name)
        wanted = list(names) or [
            name for name, spec in self._context.settings.servers.items() if spec.enabled
        ]
        return await self._keeper.sync_all(wanted, asker=NO_SHARER if as_gateway else sharer_of(viewer))

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

    async def server_configurations(self, viewer: Viewer) -> ServerConfigurations:
        """The configurations of the registered servers that are approved and that the viewer may watch.

        Raises:
            NotAllowedError: The viewer may watch none.
        """
        return await self._admission.configurations(viewer)

    async def decision_count(self) -> int:
        """How many decisions and changes all servers have; another number means that there are new ones."""
        return await self._admission.decisions()

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

    async def definitions(self, server: str, viewer: Viewer) -> DefinitionPair:
        """The definition of a server that was approved, and the present one, to read side by side.

        Raises:
            NotAllowedError: The viewer may not watch it.
            ServerNotFoundError: It is neither configured nor registered.
            AdmissionError: Its log was altered.
        """
        return await self._admission.definitions(server, viewer)

    async def decide(
        self,
        server: str,
        verdict: Verdict,
        *,
        viewer: Viewer,
        why: str = "",
        seen: str = "",
        origin: str = "",
        again: bool = False,
    ) -> Case:
        """Decide on a server, and on the changes that it made since it was approved.

        `seen` is the digest of the case that the operator looked at. The gateway refuses if the server is
        another one since then. With `origin`, the decision is an approval of the tools that web pages of this
        origin have now, and `seen` is the digest of the origin. To approve what a person refused
        needs `again`.

        Raises:
            NotAllowedError: The viewer may not decide this.
            ServerNotFoundError: It is neither configured nor registered.
            AdmissionError: This cannot be decided now; the text says why and what to do.
            StoreError: It cannot be written, and nothing was decided; or it was, and cannot be read again.
        """
        return await self._admission.decide(
            server, verdict, viewer=viewer, why=why, seen=seen, origin=origin, again=again
        )

    # --- held calls ---------------------------------------------------------------------------------------

    @property
    def holds_calls(self) -> bool:
        """Whether there are rules by which a call may wait for a person."""
        return self._held.has_rules

    @property
    def held_here(self) -> int:
        """How many calls of this process wait for a person."""
        return self._held.waiting_here

    def watch_held_calls(self, heard: Callable[[], None]) -> None:
        """Call a function when a call of this process begins to wait, or ends that; it must not block."""
        self._held.listen(heard)

    def decides_calls(self, viewer: Viewer) -> bool:
        """Whether there is a server on whose calls a viewer may decide."""
        return self._held.decides(viewer)

    async def held_calls(self, viewer: Viewer) -> Sequence[HeldCall]:
        """The calls that wait for a person and that a viewer may decide on, the oldest first.

        Raises:
            NotAllowedError: The viewer may decide on none.
            StoreError: They cannot be read.
        """
        return await self._held.waiting(viewer)

    async def held_call(self, held_id: str, viewer: Viewer) -> HeldCall:
        """One call that waits for a person, or did; with its arguments while these are needed.

        Raises:
            HeldCallNotFoundError: There is none of this id.
            NotAllowedError: The viewer may not decide on it.
            StoreError: It cannot be read.
        """
        return await self._held.get(held_id, viewer)

    async def decide_call(self, held_id: str, decision: CallDecision, viewer: Viewer) -> HeldCall:
        """Approve or refuse a call that waits for a person; the call as it is after that.

        Raises:
            HeldCallNotFoundError: There is none of this id.
            NotAllowedError: The viewer may not decide on it, or would approve its own call.
            DecisionError: It does not wait any more, or cannot be decided like this.
            StoreError: The decision cannot be written.
        """
        return await self._held.decide(held_id, decision, viewer)

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

    def seen_clients(self, viewer: Viewer) -> Sequence[SeenClient]:
        """The clients over MCP since the gateway started, the last one first; each name is its own claim.

        Raises:
            NotAllowedError: The viewer may not audit.
        """
        self._access.check(viewer, "audit")
        return self._clients.seen()

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

    # --- why a search finds what it finds -----------------------------------------------------------------

    async def explain_search(
        self,
        phrases: Sequence[str],
        *,
        server: str = "",
        category: str = "",
        tags: Sequence[str] = (),
        read_only: bool = False,
        use: UsageFilter = ANY_USE,
        limit: int = 5,
        expected: str = "",
        viewer: Viewer,
    ) -> Explanation:
        """Why a search ranks the tools of each phrase as it does, and what became of an expected tool.

        Raises:
            PathNotFoundError: There is no such server or category.
            UnknownTagError: A tag is not in the vocabulary.
            StoreError: There are limits of use, and the use of tools cannot be read.
            ToolNotFoundError: There is no tool `expected`; the text names the nearest.
        """
        return await self._reasons.explain(
            phrases,
            server=server,
            category=category,
            tags=tags,
            read_only=read_only,
            use=use,
            limit=limit,
            expected=expected,
            viewer=viewer,
        )

    async def try_text(
        self,
        trial: TrialText,
        phrases: Sequence[str],
        *,
        server: str = "",
        category: str = "",
        tags: Sequence[str] = (),
        read_only: bool = False,
        use: UsageFilter = ANY_USE,
        limit: int = 5,
        viewer: Viewer,
    ) -> TrialExplanation:
        """The same with other texts of one tool, before and after, and whose places they take.

        Nothing is stored, and no other search sees the texts.

        Raises:
            ConfigError: The texts are empty or too long.
            NotFoundError: There is no such tool, server or category.
            UnknownTagError: A tag is not in the vocabulary.
            StoreError: There are limits of use, and the use of tools cannot be read.
        """
        return await self._reasons.try_text(
            trial,
            phrases,
            server=server,
            category=category,
            tags=tags,
            read_only=read_only,
            use=use,
            limit=limit,
            viewer=viewer,
        )

    async def keep_text(self, trial: TrialText, viewer: Viewer) -> Path:
        """Write texts of a person for a tool into the file of overrides, and serve them; returns the file.

        Raises:
            NotAllowedError: The viewer may not configure.
            ToolNotFoundError: There is no such tool.
            ConfigError: The texts have faults, or a file cannot be changed. Nothing is applied.
        """
        self._access.check(viewer, "configure")
        return await self._texts.keep(self._access.find(trial.tool, viewer), trial, viewer)

    async def drop_text(self, name: str, viewer: Viewer) -> Path:
        """Remove the description and use cases of a tool from the file of overrides; returns the file.

        Raises:
            NotAllowedError: The viewer may not configure.
            ToolNotFoundError: There is no such tool.
            ConfigError: A file cannot be changed. Nothing is applied.
        """
        self._access.check(viewer, "configure")
        return await self._texts.drop(self._access.find(name, viewer), viewer)

    # --- figures ------------------------------------------------------------------------------------------

    async def stats(self, days: int = 30, *, viewer: Viewer) -> Stats:
        """Figures of the use of tools, and the tokens spent on finding them.

        Raises:
            NotAllowedError: The viewer may not watch.
            StoreError: The figures cannot be read.
        """
        self._access.check(viewer, "watch")
        return await self._figures.stats(days, raw_tokens=self._ledger.raw_tokens(viewer))

    async def spending_stats(self, days: int, viewer: Viewer) -> SpendingStats:
        """The tokens spent on finding tools, by day and principal, and the calls of each tool.

        Raises:
            NotAllowedError: The viewer may not watch.
            StoreError: The figures cannot be read.
        """
        self._access.check(viewer, "watch")
        return await self._figures.spending(days, raw_tokens=self._ledger.raw_tokens(viewer))

    async def usage_by_server(self, days: int, viewer: Viewer, *, server: str = "") -> Mapping[str, Usage]:
        """Figures of the use of the servers that a viewer may watch, or of one of them.

        Raises:
            NotAllowedError: The viewer may watch none.
        """
        return await self._figures.by_server(days, self._access.watched_names(viewer), server)

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
