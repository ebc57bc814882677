"""The commands of registration and approval: all faults at once, nothing approved unseen, exit codes."""

import io
import json
import re
import sys
from pathlib import Path

import anyio
import pytest
from tests.surfaces.cli.rig import Run, runner, write

from maitred.admission.manifest import manifest_schema
from maitred.admission.review import CHECKS
from maitred.config.load import load
from maitred.gateway import Gateway
from maitred.storage import signals
from maitred.wiring import open_gateway

SOON_S = 120.0
CLOCK = "name: clock\ncommand: clock-mcp\n"
POLICY = 'admission: {trusted_commands: ["clock-mcp"]}\n'


@pytest.fixture
def maitred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs commands in a folder with a configuration without servers."""
    write(tmp_path, {"maitred.yaml": "catalog: {path: c.db}\n", "clock.yml": CLOCK})
    return runner(tmp_path, monkeypatch, capsys)


def digest_of(maitred: Run, server: str = "clock") -> str:
    """The digest that `maitred approvals` prints."""
    found = json.loads(maitred("approvals", "--all", "--json").fine)["cases"]
    return str(next(case["digest"] for case in found if case["server"] == server))


# --- register ---------------------------------------------------------------------------------------------


def test_a_server_waits_and_the_next_command_is_told(maitred: Run) -> None:
    """With the digest of what was registered; registering again changes nothing."""
    said = maitred("register", "clock.yml").fine
    again = maitred("register", "clock.yml").fine

    assert "clock: registered; waits for your approval" in said
    assert "clock.yml:2: command: this command line is not on the list of commands" in said
    assert f"Go on with `maitred approve clock --seen {digest_of(maitred)}`." in said
    assert "clock: registered before, and unchanged; waits for your approval" in again


def test_a_server_that_the_policy_trusts_waits_for_nobody(maitred: Run, tmp_path: Path) -> None:
    """And a new manifest of it that it does not trust waits again."""
    write(tmp_path, {"maitred.yaml": "catalog: {path: c.db}\n" + POLICY})
    said = maitred("register", "clock.yml").fine
    write(tmp_path, {"clock.yml": CLOCK + "args: [--evil]\n"})
    anew = maitred("register", "clock.yml").fine

    assert "clock: registered; approved by policy" in said
    assert "within two seconds" in said
    assert "clock: registered again; waits for your approval" in anew


def test_an_image_whose_tag_the_policy_trusts_is_used_like_a_program(maitred: Run, tmp_path: Path) -> None:
    """Nothing is started for that yet, so no engine is needed."""
    write(
        tmp_path,
        {"maitred.yaml": 'catalog: {path: c.db}\nadmission: {trusted_images: ["docker.io/acme/*"]}\n'},
    )
    write(tmp_path, {"box.yml": "name: box\nimage: acme/box:1.0\n"})
    said = maitred("register", "box.yml").fine

    assert "box: registered; approved by policy" in said
    assert "within two seconds" in said


def test_all_faults_of_all_files_are_told_and_nothing_is_registered(maitred: Run, tmp_path: Path) -> None:
    """One refused file keeps the others of the same command out."""
    write(tmp_path, {"bad.yml": "name: bad\ncommand: bash\nmemroy: 1g\n", "worse.yml": "memory: 9t\n"})
    done = maitred("register", "clock.yml", "bad.yml", "worse.yml")

    assert done.code == 2
    assert "bad.yml: refused; nothing was registered" in done.err
    assert "bad.yml:3: memroy: is not a known key (did you mean `memory`?)" in done.err
    assert "bad.yml:2: command: 'bash' runs another program" in done.err
    assert "worse.yml:1: name: is missing (add it)" in done.err
    assert "worse.yml:1: memory: is no size" in done.err
    assert "clock.yml: the server 'clock' can be registered" in done.out
    assert "Nothing waits for you." in maitred("approvals").fine


def test_a_check_registers_nothing(maitred: Run) -> None:
    """And says what would become of it, for people and programs."""
    said = maitred("register", "--check", "clock.yml").fine
    [found] = json.loads(maitred("register", "--check", "--json", "clock.yml").fine)

    assert "clock.yml: the server 'clock' can be registered; a person would have to approve it" in said
    assert (found["file"], found["server"], found["outcome"]) == ("clock.yml", "clock", "needs approval")
    assert "Nothing waits for you." in maitred("approvals", "--all").fine


def test_standard_input_is_read_as_a_manifest(maitred: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """For what a program writes."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(CLOCK))
    [made] = json.loads(maitred("register", "-", "--json").fine)

    assert (made["file"], made["happened"], made["case"]["state"]) == (
        "standard input",
        "registered",
        "pending",
    )


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (("absent.yml",), "absent.yml: the file cannot be read: No such file or directory"),
        (("latin.yml",), "latin.yml: is not UTF-8 text"),
        ((".",), ".: the file cannot be read: Is a directory"),
        (("clock.yml", "twin.yml"), "twin.yml: the server 'clock' is also defined in clock.yml"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    maitred: Run, tmp_path: Path, files: tuple[str, ...], says: str
) -> None:
    """Before anything is registered."""
    (tmp_path / "latin.yml").write_bytes(b"name: b\xfccher\n")
    write(tmp_path, {"twin.yml": CLOCK})

    assert says in maitred("register", *files).refused


# --- decisions --------------------------------------------------------------------------------------------


def test_what_waits_is_shown_with_the_commands_that_decide(maitred: Run) -> None:
    """And is gone from the list once it is decided."""
    maitred("register", "clock.yml")
    said = maitred("approvals").fine
    digest = digest_of(maitred)

    assert f"clock  waits for your approval  digest {digest}" in said
    assert "  command: clock-mcp" in said
    assert f"  maitred approve clock --seen {digest}" in said
    assert "1 server waits for a decision." in said
    assert "Approved 'clock'." in maitred("approve", "clock", "--seen", digest, "--why", "read it").fine
    assert "Nothing waits for you." in maitred("approvals").fine
    assert "clock  approved" in maitred("approvals", "--all").fine


def test_nothing_is_approved_unseen(maitred: Run, tmp_path: Path) -> None:
    """Without a terminal a digest or `--yes` is needed, and a digest of something else is refused."""
    maitred("register", "clock.yml")
    digest = digest_of(maitred)
    write(tmp_path, {"clock.yml": CLOCK + "args: [--evil]\n"})
    maitred("register", "clock.yml")

    assert "--seen DIGEST" in maitred("approve", "clock").refused
    assert "look at it again" in maitred("approve", "clock", "--seen", digest).refused
    assert "waits for your approval" in maitred("approvals").fine
    assert "Approved 'clock'." in maitred("approve", "clock", "--yes").fine


class Terminal(io.StringIO):
    """Standard input with somebody at it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "says", "left"), [("y\n", "Approved 'clock'.", False), ("n\n", "Nothing was decided.", True)]
)
def test_at_a_terminal_it_is_shown_and_asked(
    maitred: Run, monkeypatch: pytest.MonkeyPatch, answer: str, says: str, left: bool
) -> None:
    """The case stands before the question."""
    maitred("register", "clock.yml")
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    said = maitred("approve", "clock").fine

    assert said.index("command: clock-mcp") < said.index("Approve it?") < said.index(says)
    assert ("1 server waits" in maitred("approvals").fine) is left


def test_a_server_goes_through_its_states(maitred: Run) -> None:
    """Each with its reason in the log, which stays when the server is withdrawn."""
    maitred("register", "clock.yml")
    assert "Rejected 'clock'" in maitred("reject", "clock", "--why", "not now").fine
    assert "only what is approved can be suspended" in maitred("suspend", "clock").refused
    maitred("approve", "clock", "--yes", "--again")
    assert "Suspended 'clock'" in maitred("suspend", "clock", "--why", "an incident").fine
    assert "Resumed 'clock': approved" in maitred("resume", "clock").fine
    log = json.loads(maitred("explain", "clock", "--json").fine)["log"]
    assert "Withdrew 'clock'." in maitred("unregister", "clock").fine

    assert [(event["kind"], event["why"]) for event in log] == [
        ("registered", ""), ("rejected", "not now"), ("approved", ""),
        ("suspended", "an incident"), ("resumed", ""),
    ]  # fmt: skip
    assert "There is no server 'clock'" in maitred("explain", "clock").refused


def test_an_approval_does_not_undo_a_refusal_unnoticed(maitred: Run) -> None:
    """Neither by `--yes` nor by a digest from before; `approvals --all` says who refused it, when and why."""
    maitred("register", "clock.yml")
    before = digest_of(maitred)
    maitred("reject", "clock", "--why", "not now")

    listed = maitred("approvals", "--all").fine
    [case] = json.loads(maitred("approvals", "--all", "--json").fine)["cases"]
    for how in (["--yes"], ["--seen", before]):
        refusal = maitred("approve", "clock", *how).refused
        assert "local refused it on 20" in refusal
        assert "(not now); to approve it all the same, say `--again`" in " ".join(refusal.split())

    assert re.search(r"refused: local refused it on 20\S+ \S+ UTC \(not now\)", listed)
    assert (case["refused"]["who"], case["refused"]["why"]) == ("local", "not now")
    assert case["refused"]["at"].startswith("20")
    assert "Approved 'clock'" in maitred("approve", "clock", "--yes", "--again").fine
    [case] = json.loads(maitred("approvals", "--all", "--json").fine)["cases"]
    assert case["refused"] is None


def test_at_a_terminal_a_person_reads_of_a_refusal_before_it_is_undone(
    maitred: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    maitred("register", "clock.yml")
    maitred("reject", "clock", "--why", "not now")
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    said = maitred("approve", "clock").fine

    assert said.index("local refused it on") < said.index("Approve it all the same?") < said.index("Approved")


def test_an_unknown_server_is_answered_with_the_nearest(maitred: Run) -> None:
    """By each command that takes one."""
    maitred("register", "clock.yml")

    for command in (["approve", "--yes"], ["reject"], ["suspend"], ["resume"], ["unregister"], ["explain"]):
        assert "Did you mean 'clock'?" in maitred(command[0], "clok", *command[1:]).refused


def test_the_explanation_has_every_layer_and_the_log(maitred: Run) -> None:
    """In order, with who decided as the last."""
    maitred("register", "clock.yml")
    waiting = maitred("explain", "clock").fine
    maitred("approve", "clock", "--yes", "--why", "read its source")
    said = maitred("explain", "clock").fine

    layers = [*(check.layer for check in CHECKS), "approval"]
    places = [said.index(f"  {n} {layer}: ") for n, layer in enumerate(layers, start=1)]
    assert places == sorted(places)
    assert f"  {len(layers)} approval: waits for a person, who has not decided yet" in waiting
    assert f"  {len(layers)} approval: approved by local: read its source" in said
    assert "registered by local" in said


# --- beside a gateway that runs ---------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_running_gateway_takes_over_what_a_command_decided(
    maitred: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registration, an approval and a withdrawal, by the log that both read."""
    monkeypatch.setattr(signals, "POLL_S", 0.02)
    with anyio.fail_after(SOON_S):
        async with open_gateway(load(tmp_path / "maitred.yaml")) as gateway:
            for words, state in (
                (("register", "clock.yml"), "pending"),
                (("approve", "clock", "--yes"), "approved"),
                (("unregister", "clock"), ""),
            ):
                await anyio.to_thread.run_sync(maitred, *words)
                while taken_over(gateway) != state:  # noqa: ASYNC110  # it notices by itself, and tells nobody
                    await anyio.sleep(0.01)


def taken_over(gateway: Gateway) -> str:
    """What a gateway makes of the server."""
    spec = gateway.settings.servers.get("clock")
    return "" if spec is None else "approved" if spec.usable else "pending"


# --- schema -----------------------------------------------------------------------------------------------


def test_the_schema_is_printed_for_editors(maitred: Run) -> None:
    """As it is published."""
    assert json.loads(maitred("schema", "manifest").fine) == manifest_schema()
