"""`maitred add --from registry NAME`: add a server that a registry describes, after the checks of a manifest.

It chooses a way to run the server that works on this machine, asks for what the server needs, shows all that
would run and what the checks found, and asks. What a check refuses is not added. A secret goes into the
keyring, and the configuration gets a reference to it. What was added is tried at once.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from maitred.config.declined_servers import accept
from maitred.config.edit import add_server
from maitred.config.secret_store import SecretStore, SecretStoreError
from maitred.config.settings import Settings
from maitred.errors import ConfigError
from maitred.model.access import Viewer
from maitred.surfaces.cli.admission import admitting
from maitred.surfaces.cli.console import acting, err, out, remember, run, visible
from maitred.surfaces.cli.find import is_needed, launch_lines, open_registry, settings_for, shorten_line
from maitred.surfaces.cli.session import reach
from maitred.surfaces.cli.trial import show_trial, try_server
from maitred.surfaces.cli.verbosity import VERBOSITY
from maitred.wording import did_you_mean, one_of, quote_input, shorten_middle

if TYPE_CHECKING:  # slow to import
    from maitred.admission.findings import Decision
    from maitred.registry.entries import RegistryEntry
    from maitred.registry.launches import LaunchOption
    from maitred.registry.proposal import GivenValue, Kind, ValueQuestion

REGISTRY: Final = "registry"
_MOST_SHOWN: Final = 2_000
"""Characters of a line of a proposal or of a finding; what a registry wrote may have any length."""
_LONGEST_KEY: Final = 40
_WRITTEN_OUT: Final = "SECRET_THAT_IS_WRITTEN_OUT"
"""A variable in the manifest that the checks see, in place of such a secret."""
_NO_KEY: Final = re.compile(r"[^a-z0-9]+")


FromOption = Annotated[
    str, typer.Option("--from", metavar="registry", help="Take it from the registry, by its name there.")
]
AsOption = Annotated[str, typer.Option("--as", help="With --from: what it is called here.")]
VersionOption = Annotated[str, typer.Option("--version", help="With --from: this version of it.")]
ByOption = Annotated[str, typer.Option("--by", help="With --from: npx, uvx, image or remote.")]
ValueOption = Annotated[
    list[str] | None, typer.Option("--value", help="With --from: NAME=VALUE for other things it needs.")
]
ListOption = Annotated[Path | None, typer.Option("--file", help="With --from: an exported list.")]
RegisterOption = Annotated[
    bool, typer.Option("--isolated", help="With --from: register it as a manifest, isolated.")
]
NetworkOption = Annotated[
    str, typer.Option("--network", help="With --from: its exemption for the network, isolated.")
]
WriteOption = Annotated[
    bool, typer.Option("--write-secrets", help="With --from: write secrets into the file as they are.")
]
_OWN_OPTIONS: Final = {
    "key": "--as", "version": "--version", "by": "--by", "value": "--value", "file": "--file",
    "isolated": "--isolated", "network": "--network", "write_secrets": "--write-secrets", "yes": "--yes",
}  # fmt: skip
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="With --from: ask nothing.")]


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the person wrote on the command line."""

    name: str
    key: str = ""
    version: str = ""
    by: str = ""
    env: Mapping[str, str]
    headers: Mapping[str, str]
    values: Mapping[str, str]
    file: Path | None = None
    network: str = ""
    yes: bool = False
    registers: bool = False
    writes_secrets: bool = False
    tries: bool = True

    @property
    def asks(self) -> bool:
        """Whether the person can be asked."""
        return not self.yes and sys.stdin.isatty()


def refuse_registry_options(options: Mapping[str, Any]) -> None:
    """Refuse options that only `--from registry` has: without it they would do nothing.

    Raises:
        ConfigError: One of them was given; the error says how else a server is isolated.
    """
    if given := [option for key, option in _OWN_OPTIONS.items() if options[key]]:
        hint = "; to isolate a server of your own, write a manifest, see `maitred docs registration`"
        advice = hint if options["isolated"] or options["network"] else ""
        raise ConfigError(", ".join(given), [f"goes with `--from registry` alone{advice}"])


def add_from_registry(options: Mapping[str, Any], pairs: Callable[[str, list[str]], dict[str, str]]) -> None:
    """Add the server that the options of `maitred add` name; `pairs` reads KEY=VALUE.

    Raises:
        ConfigError: It is not there, cannot run here, or needs what was not given. All of that is listed.
        NotAllowedError: The viewer may not do it.
    """
    if options["source"] != REGISTRY:
        raise ConfigError("--from", [f"{quote_input(options['source'])} is no source; there is `registry`"])
    if any(options[key] for key in ("command", "url", "transport", "cwd", "replace", "as_json")):
        raise ConfigError(
            "--from", ["leave out the command, --url, --transport, --cwd, --replace and --json"]
        )
    wishes = Wishes(
        **{key: options[key] for key in ("name", "key", "version", "by", "network", "yes")},
        env=pairs("--env", list(options["env"] or ())),
        headers=pairs("--header", list(options["header"] or ())),
        values=pairs("--value", list(options["value"] or ())),
        file=Path(options["file"]) if options["file"] else None,
        registers=options["isolated"],
        writes_secrets=options["write_secrets"],
        tries=not options["no_try"],
    )
    _add(Path(options["config"]) if options["config"] else None, wishes)


def _add(config: Path | None, wishes: Wishes) -> None:
    settings = settings_for(config)
    viewer = acting(settings, "configure", "register")
    entry = _entry(settings, wishes)
    launch = _launch(entry, wishes)
    key = wishes.key or _key_of(entry.name)
    if key in settings.servers:
        raise _fault(f"there is a server {key!r} already; choose another name with --as, or remove it first")
    if wishes.network and not (wishes.registers or launch.by == "image"):
        raise _fault("--network is for a server that is isolated; add --isolated, or leave it out")
    if entry.status == "deprecated":
        err.print(Text(f"{shorten_line(entry.name)} is deprecated by its author.", style="yellow"))
    answers, secrets = _ValueCollector(launch, key, wishes).all()
    proposal = _Proposal.make(entry, launch, key, wishes, answers)
    decision = _checked(settings, proposal, viewer)
    if decision.outcome == "refused" or not (wishes.yes and VERBOSITY.quiet):
        proposal.show(decision)
    if decision.outcome == "refused":
        raise typer.Exit(2)
    if not _agreed(decision, settings, wishes, registers=proposal.registers):
        out.note("Nothing was added.")
        return
    with _keeping(secrets):
        proposal.write(settings, viewer)
    if wishes.tries and not proposal.registers:
        trial = try_server(config, key)
        show_trial(trial)
        if trial.error:
            raise typer.Exit(1)


def _entry(settings: Settings, wishes: Wishes) -> "RegistryEntry":
    found = open_registry(settings, file=wishes.file)
    named = [one for one in found.entries if one.name == wishes.name and one.status != "deleted"]
    if wishes.version:
        exact = next((one for one in named if one.version == wishes.version), None)
        entry = exact or (None if wishes.file else _fetched(settings, wishes))
        if entry is None or entry.status == "deleted":
            known = ", ".join(shorten_line(one.version, 40) for one in named)
            hint = f"there is {known}" if known else "it has none"
            raise _fault(f"{quote_input(wishes.name)} has no version {quote_input(wishes.version)}; {hint}")
        return entry
    entry = next((one for one in found.latest if one.name == wishes.name), None)
    if entry is None:
        names = [one.name for one in found.latest]
        hint = did_you_mean(wishes.name, names, otherwise="`maitred find WORDS` finds names")
        fault = f"there is no server {quote_input(wishes.name)}; {visible(hint)}"
        raise _fault(f"{fault}{'' if fault.endswith('?') else '.'} {found.age}" if found.age else fault)
    return entry


def _fetched(settings: Settings, wishes: Wishes) -> "RegistryEntry | None":
    from maitred.registry.client import fetch_version  # noqa: PLC0415  # imports the HTTP client
    from maitred.registry.entries import read_entries  # noqa: PLC0415  # with the others of its kind

    item = run(lambda: fetch_version(settings.registry.url, wishes.name, wishes.version))
    entries = read_entries([item])
    is_it = bool(entries) and (entries[0].name, entries[0].version) == (wishes.name, wishes.version)
    return entries[0] if is_it else None


def _launch(entry: "RegistryEntry", wishes: Wishes) -> "LaunchOption":
    """The first way to run it that works here, or the one that the person named."""
    from maitred.registry.launches import BYS, launches, missing  # noqa: PLC0415  # with the others of its kind

    if wishes.by and wishes.by not in BYS:
        raise ConfigError("--by", [f"{quote_input(wishes.by)} is no way to run a server; use {one_of(BYS)}"])
    every = [one for one in launches(entry) if not wishes.by or one.by == wishes.by]
    fitting = [one for one in every if not (one.fault or missing(one))]
    first = [one for one in fitting if one.by != "image"] or fitting
    if first:
        return first[0]
    faults = [f"{one.summary}: {one.fault or missing(one)}" for one in every]
    lines = [shorten_line(fault, 400) for fault in faults] or ["it names no way to run it"]
    raise ConfigError(f"{shorten_line(entry.name)} cannot run here", lines)


def _key_of(name: str) -> str:
    """What a server is called here if the person does not say: the last part of its name."""
    return _NO_KEY.sub("-", name.rpartition("/")[2].lower()).strip("-")[:_LONGEST_KEY].strip("-") or "server"


class _ValueCollector:
    """Collects what a launch needs: from the command line, else from the person, else it is a fault."""

    def __init__(self, launch: "LaunchOption", key: str, wishes: Wishes) -> None:
        self._launch = launch
        self._key = key
        self._wishes = wishes
        self._answers: dict[tuple[Kind, str], GivenValue] = {}
        self._secrets: dict[str, str] = {}
        self._faults: list[str] = []

    def all(self) -> "tuple[Mapping[tuple[Kind, str], GivenValue], Mapping[str, str]]":
        """The answers, and the secrets to keep in the keyring, by their names there.

        Raises:
            ConfigError: Something that is needed was not given, or something was given that means nothing.
        """
        from maitred.registry.proposal import questions  # noqa: PLC0415  # with the others of its kind

        asked = questions(self._launch)
        given = {"variable": self._wishes.env, "header": self._wishes.headers, "value": self._wishes.values}
        options = {"variable": "--env", "header": "--header", "value": "--value"}
        for kind, pairs in given.items():
            known = [one.name for one in asked if one.kind == kind]
            self._faults += [
                f"{options[kind]}: it takes no {quote_input(name)}{did_you_mean(name, known, lead='; ')}"
                for name in pairs
                if name not in known
            ]
        if self._wishes.asks and not self._faults:
            for line in launch_lines(self._launch):
                out.print(Text(visible(line)))
        for one in asked:
            self._answer(one, given[one.kind], options[one.kind])
        if self._faults:
            raise ConfigError("add --from registry", self._faults)
        return self._answers, self._secrets

    def _answer(self, one: "ValueQuestion", pairs: Mapping[str, str], option: str) -> None:
        from maitred.registry.proposal import value_of  # noqa: PLC0415  # with the others of its kind

        if one.name in pairs:
            answer = value_of(pairs[one.name])
        elif not is_needed(one.input):
            return
        elif not self._wishes.asks:
            secret = ", a secret" if one.input.is_secret else ""
            about = f": {shorten_line(one.input.description)}" if one.input.description else ""
            self._faults.append(f"it needs {option} {shorten_line(one.name, 60)}=…{secret}{about}")
            return
        else:
            answer = value_of(self._typed(one))
        if one.input.choices and not answer.is_raw and answer.text not in one.input.choices:
            choices = ", ".join(shorten_line(choice, 40) for choice in one.input.choices)
            self._faults.append(f"{shorten_line(one.name, 60)}: must be one of {choices}")
            return
        self._answers[one.key] = self._without_secret(one, answer)

    def _typed(self, one: "ValueQuestion") -> str:
        """What the person types; a secret does not show."""
        if one.input.choices:
            out.print(Text(f"  one of {', '.join(shorten_line(choice, 40) for choice in one.input.choices)}"))
        title = shorten_line(one.name, 60) + (" (secret, not shown)" if one.input.is_secret else "")
        while not (typed := typer.prompt(title, "", hide_input=one.input.is_secret, show_default=False)):
            out.print("  It is needed. Ctrl-C ends, and adds nothing.")
        return str(typed)

    def _without_secret(self, one: "ValueQuestion", answer: "GivenValue") -> "GivenValue":
        """The answer itself, or for a secret a reference to where it is kept."""
        from maitred.registry.proposal import GivenValue  # noqa: PLC0415  # with the others of its kind

        if answer.is_raw or not one.input.is_secret:
            return answer
        if self._wishes.writes_secrets:
            return answer
        name = f"{self._key}/{re.sub('[^A-Za-z0-9_.-]+', '-', one.name).strip('-.') or 'SECRET'}"
        is_other = _kept_value(name) not in (None, answer.text)
        if not self._wishes.asks and is_other:
            self._faults.append(
                f"the keyring has another secret {name} already; choose another name with --as"
            )
            return answer
        question = (
            f"The keyring has another secret {name}. Replace it?"
            if is_other
            else f"Keep it in the keyring as {name}?"
        )
        if not self._wishes.asks or (_has_keyring() and typer.confirm(question, default=not is_other)):
            self._secrets[name] = answer.text
            return GivenValue(text=f"${{keyring:{name}}}", is_raw=True)
        if typer.confirm("Write it into the configuration file, as it is?", default=False):
            return answer
        variable = re.sub(r"\W+", "_", one.name, flags=re.ASCII).upper()
        out.print(Text(f"Then set the variable {variable} where maitred starts."))
        return GivenValue(text=f"${{{variable}}}", is_raw=True)


def _has_keyring() -> bool:
    """Whether there is a keyring; if not, it prints the reason."""
    try:
        SecretStore().check()
    except SecretStoreError as error:
        out.print(Text(f"  {visible(str(error))}", style="yellow"))
        return False
    return True


def _kept_value(name: str) -> str | None:
    """The secret of this name in the keyring; `None` if it has none, or cannot be read."""
    try:
        return SecretStore().read(name)
    except SecretStoreError:
        return None


@contextmanager
def _keeping(secrets: Mapping[str, str]) -> Iterator[None]:
    """Keep the secrets of a server; those that were not there do not stay if it is not added."""
    with ExitStack() as undo:
        for name, value in secrets.items():
            if _kept_value(name) is None:
                undo.callback(_forget, name)
            _keep(name, value)
        yield
        undo.pop_all()


def _forget(name: str) -> None:
    with suppress(SecretStoreError, ConfigError):
        SecretStore().remove(name)


def _keep(name: str, value: str) -> None:
    try:
        title = SecretStore().write(name, value)
    except SecretStoreError as error:
        hint = "give `${VARIABLE}` instead, or --write-secrets"
        raise ConfigError("add --from registry", [f"{name} cannot be kept: {error}; or {hint}"]) from error
    out.note(Text(f"Kept {name} in the keyring ({title})."))


@dataclass(frozen=True, kw_only=True)
class _Proposal:
    """A server to add: its entry, and the manifest that the checks see."""

    key: str
    source: str
    entry: Mapping[str, Any]
    manifest: Mapping[str, Any]
    notes: Sequence[str]
    texts: str
    registers: bool

    @classmethod
    def make(
        cls,
        entry: "RegistryEntry",
        launch: "LaunchOption",
        key: str,
        wishes: Wishes,
        answers: "Mapping[tuple[Kind, str], GivenValue]",
    ) -> "_Proposal":
        """The proposal. The checks see a reference where the person wants a secret to be written out."""
        from maitred.registry.launches import inputs  # noqa: PLC0415  # with the others of its kind
        from maitred.registry.proposal import GivenValue, as_entry, questions  # noqa: PLC0415  # likewise

        own = as_entry(launch, answers)
        plain = {
            one.key: GivenValue(text=f"${{{_WRITTEN_OUT}}}", is_raw=True)
            for one in questions(launch)
            if one.input.is_secret and one.key in answers and not answers[one.key].is_raw
        }
        about = {"description": entry.description} if entry.description else {}
        network = {"network": wishes.network} if wishes.network else {}
        manifest = {"name": key, **about, **as_entry(launch, {**answers, **plain}), **network}
        texts = "\n".join([entry.title, entry.description, *(one.description for one in inputs(launch))])
        return cls(
            key=key,
            source=f"registry: {entry.name} {entry.version}",
            entry=own,
            manifest=manifest,
            notes=launch.notes,
            texts=texts,
            registers=wishes.registers or launch.by == "image",
        )

    def show(self, decision: "Decision") -> None:
        """Print what would run, and what the checks found."""
        to = err if decision.outcome == "refused" else out
        if decision.outcome == "refused":
            to.print(Text.assemble(f"{self.key}: ", ("refused", "red"), "; nothing was added"))
        else:
            to.print(Text.assemble((self.key, "bold"), f"  from {visible(self.source)}"))
        image = self.entry.get("image")
        shown_entry = {**self.entry, "command": image} if image else self.entry
        for line in reach(shown_entry):
            to.print(Text(f"    {shorten_middle(line, _MOST_SHOWN)}"))
        if not self.registers and "command" in self.entry:
            to.print(Text("    it runs as you, without isolation; --isolated changes that"))
        if self.registers and self.entry.get("command") and "network" not in self.manifest:
            to.print(Text("    it fetches its package when it starts: name an exemption with --network"))
        for note in self.notes:
            to.print(Text(f"  - {shorten_line(note)}", style="yellow"))
        for finding in decision.findings:
            is_own = finding.severity == "ask" and not self.registers  # it is an entry of the operator
            fix = "you approve that by adding it" if is_own else finding.fix
            reason = (
                "is written into the configuration, as it is"
                if _WRITTEN_OUT in finding.reason
                else finding.reason
            )
            said = str(replace(finding, file="manifest", line=0, fix=fix, reason=reason))
            to.print(Text(f"  {visible(shorten_middle(said, _MOST_SHOWN))}"))

    def write(self, settings: Settings, viewer: Viewer) -> None:
        """Put it into the configuration, or register its manifest."""
        if self.registers:
            self._register(settings, viewer)
            return
        path = settings.source
        add_server(path, self.key, self.entry)
        remember(lambda: accept(path, {self.key: self.entry}))
        out.note(Text(f"Added {self.key!r} to {path}."))

    def _register(self, settings: Settings, viewer: Viewer) -> None:
        async def go() -> str:
            async with admitting(settings) as gateway:
                result = await gateway.register_server(self.text, source=self.source, viewer=viewer)
            return result.case.digest if result.case and result.case.awaits else ""

        digest = run(go)
        out.note(Text(f"Registered {self.key!r}, which runs isolated."))
        if digest:
            out.note(Text(f"Go on with `maitred approve {self.key} --seen {digest}`."))

    @property
    def text(self) -> str:
        """The manifest as a file has it."""
        return json.dumps(self.manifest)


def _checked(settings: Settings, proposal: _Proposal, viewer: Viewer) -> "Decision":
    """What every layer says of the manifest, and the scan of the registry's texts."""
    from maitred.admission.findings import Finding, LayerReport  # noqa: PLC0415  # slow to import
    from maitred.poisoning.scan import PoisonScan  # noqa: PLC0415  # slow to import

    async def go() -> "Decision":
        async with admitting(settings) as gateway:
            return await gateway.check_manifest(proposal.text, source=proposal.source, viewer=viewer)

    decision = run(go)
    scanned = PoisonScan({}).scan(proposal.key, {"name": proposal.key, "description": proposal.texts})
    findings = tuple(
        Finding(layer="texts", severity=one.severity, key="description", reason=one.reason, rule=one.rule)
        for one in scanned
        if one.severity != "warn"
    )
    return replace(decision, layers=(*decision.layers, LayerReport(layer="texts", findings=findings)))


def _agreed(decision: "Decision", settings: Settings, wishes: Wishes, *, registers: bool) -> bool:
    """Whether the person wants it, and may decide what the layers ask a person."""
    if not registers and decision.outcome == "needs approval":
        acting(settings, "approve")
    if wishes.yes:
        return True
    if not sys.stdin.isatty():
        raise _fault("there is no terminal to ask at; --yes adds it with the findings above")
    return typer.confirm("Add it?")


def _fault(text: str) -> ConfigError:
    return ConfigError("add --from registry", [text])
