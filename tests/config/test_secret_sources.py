"""References to secrets: of the keyring, and of commands. What is not allowed is refused."""

import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.file_keyring import FileKeyring, no_keyring, using

from maitred.config.interpolate import UnresolvedReferenceError, references, resolve, resolver
from maitred.config.load import parse
from maitred.config.redaction import redact
from maitred.config.secret_commands import MOST_BYTES, SecretCommandError, SecretCommands, _communicate
from maitred.config.secret_store import SecretStore, SecretStoreError
from maitred.errors import ConfigError

ENVIRON = {"PATH": "/usr/bin:/bin"}
SECRET = "hunter-two-0987654321"


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[FileKeyring]:
    backend = FileKeyring(tmp_path / "ring.json")
    with using(backend):
        yield backend


@pytest.fixture
def store(tmp_path: Path) -> SecretStore:
    return SecretStore(tmp_path / "state" / "names.json")


def program(folder: Path, text: str) -> str:
    """A program of Python that prints something, by its path."""
    path = folder / "tell"
    path.write_text(f"#!{sys.executable}\nimport os, sys, time\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


# --- the keyring --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("ring")
def test_a_secret_is_kept_used_listed_by_name_and_removed(store: SecretStore, tmp_path: Path) -> None:
    """The file beside the keyring has the name alone, and is for its owner alone."""
    title = store.write("github/TOKEN", SECRET)
    value = resolve("Bearer ${keyring:github/TOKEN}", ENVIRON)
    names, file = store.names(), tmp_path / "state" / "names.json"
    text, mode = file.read_text(), stat.S_IMODE(file.stat().st_mode)
    store.remove("github/TOKEN")

    assert (title, value, names) == ("a file of the tests", f"Bearer {SECRET}", ["github/TOKEN"])
    assert (SECRET in text, mode) == (False, 0o600)
    assert store.names() == []
    assert SECRET not in redact(f"the server said {SECRET}")
    with pytest.raises(UnresolvedReferenceError, match=r"no secret 'github/TOKEN'; `maitred secret set"):
        resolve("${keyring:github/TOKEN}", ENVIRON)


@pytest.mark.usefixtures("ring")
@pytest.mark.usefixtures("ring")
def test_secrets_that_are_kept_at_once_are_all_listed(store: SecretStore) -> None:
    """Each of several commands adds a name to one list."""
    names = [f"server{number}/KEY" for number in range(24)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.write(name, "quiet-river"), names))

    assert store.names() == sorted(names)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "../x", "/x", "x/", "a/../b", "a}b", "n" * 200, "a\n"])
def test_what_is_no_name_of_a_secret_is_refused(store: SecretStore, name: str) -> None:
    with pytest.raises(SecretStoreError, match="is no name of a secret"):
        store.write(name, SECRET)


def test_without_a_keyring_the_error_says_what_to_do(store: SecretStore) -> None:
    """And a default counts, as for a variable that is not set."""
    with using(no_keyring()):
        with pytest.raises(UnresolvedReferenceError, match=r"no keyring that can be used.*or use a variable"):
            resolve("${keyring:x}", ENVIRON)
        with pytest.raises(SecretStoreError, match="no keyring"):
            store.write("x", SECRET)
        assert resolve("${keyring:x:-plain}", ENVIRON) == "plain"


def test_a_locked_keyring_says_so(ring: FileKeyring) -> None:
    ring.is_locked = True
    with pytest.raises(UnresolvedReferenceError, match="it was not unlocked; unlock it, and try again"):
        resolve("${keyring:x}", ENVIRON)


def test_a_manifest_reads_the_secrets_below_its_own_name_alone(ring: FileKeyring, store: SecretStore) -> None:
    """Whatever the checks of the manifest said: the keyring is not even asked for another one."""
    for name in ("notes/TOKEN", "other/TOKEN", "notes-two/TOKEN", "TOKEN"):
        store.write(name, f"{SECRET}-{name}")
    ring.reads.clear()
    own = resolver(ENVIRON, owner="notes", commands=("*",))

    assert own("${keyring:notes/TOKEN}") == f"{SECRET}-notes/TOKEN"
    for name in ("other/TOKEN", "notes-two/TOKEN", "TOKEN", "notes", "notes/../other/TOKEN"):
        with pytest.raises(UnresolvedReferenceError):
            own(f"${{keyring:{name}:-${{keyring:other/TOKEN}}}}")
    with pytest.raises(UnresolvedReferenceError, match="a manifest may not run a command"):
        own("${NO:-${command:echo x:-y}}")
    assert set(ring.reads) == {"notes/TOKEN"}


def test_what_a_server_needs_is_said_without_names_of_secrets() -> None:
    """Agents see it."""
    needs = references("${TOKEN} ${keyring:bank/PIN} ${command:op read op://bank/pin} ${file:/x}")
    assert needs == ["TOKEN", "a secret of the keyring", "a secret that a command prints", "a file"]


# --- commands -----------------------------------------------------------------------------------------------


def test_a_command_runs_once_and_its_output_is_kept(tmp_path: Path) -> None:
    """Without its last newline; by eight threads at once, it still runs once."""
    log = tmp_path / "log"
    command = program(tmp_path, f"open({str(log)!r}, 'a').write('x')\nprint({SECRET!r} + sys.argv[1])")
    commands, values = SecretCommands(), []
    text = f'{command} "two words; $(no shell)"'

    def read() -> None:
        values.append(commands.read(text, [command], ENVIRON))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert values == [f"{SECRET}two words; $(no shell)"] * 8
    assert log.read_text() == "x"
    assert SECRET not in redact(f"it is {SECRET}two words; $(no shell)")


@pytest.mark.parametrize("allowed", [(), ("op",), ("tel",), ("/bin/tell",)])
def test_a_command_that_is_not_listed_does_not_run(tmp_path: Path, allowed: tuple[str, ...]) -> None:
    """Off by default; a program is compared as a whole."""
    command = program(tmp_path, f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(UnresolvedReferenceError, match=r"commands are off|is not in `secrets.commands`"):
        resolver(ENVIRON, commands=allowed)(f"${{command:{command} x}}")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("sys.exit('no session; log in')", "ended with code 1: no session; log in"),
        (f"print({SECRET!r}); sys.exit('bad value {SECRET}')", r"ended with code 1: bad value \*\*\*"),
        ("print()", "printed nothing"),
        ("os.write(1, b'\\xff\\xfe')", "is not UTF-8 text"),
        ("print('a\\0b')", "printed NUL"),
        (f"print('x' * {MOST_BYTES + 1})", "printed more than 65,536 bytes"),
        ("os.write(2, b'y' * 300000); print('x' * 300000)", "printed more than 65,536 bytes"),
        ("time.sleep(600)", "did not end within 1.5 seconds"),
    ],
)
def test_a_command_that_fails_says_why(tmp_path: Path, does: str, said: str) -> None:
    """Never with what it printed; and the next attempt runs it again."""
    command = program(tmp_path, does)
    with pytest.raises(SecretCommandError, match=said) as failed:
        SecretCommands(timeout_s=1.5 if "sleep" in does else 60).read(command, ["*"], ENVIRON)
    assert SECRET not in str(failed.value)


def test_a_program_that_stays_in_the_background_holds_nothing_up(tmp_path: Path) -> None:
    """As an agent of keys does that keeps the streams of the command open."""
    text = f"if os.fork() == 0:\n    time.sleep(120); os._exit(0)\nprint({SECRET!r})"
    assert SecretCommands().read(program(tmp_path, text), ["*"], ENVIRON) == SECRET


# --- the setting --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "commands"),
    [("true", ("*",)), ("false", ()), ("[op, /usr/bin/pass]", ("op", "/usr/bin/pass")), ("['*']", ("*",))],
)
def test_the_setting_is_a_list_or_a_choice(written: str, commands: tuple[str, ...]) -> None:
    assert parse(Path("m.yaml"), f"secrets: {{commands: {written}}}\n").secrets.commands == commands


@pytest.mark.parametrize("written", ["op", "['op read']", "['op*']", "[bin/op]", "['']", "{op: x}"])
def test_a_setting_that_means_nothing_is_a_fault(written: str) -> None:
    with pytest.raises(ConfigError, match=r"line 1: secrets\.commands"):
        parse(Path("m.yaml"), f"secrets: {{commands: {written}}}\n")


def test_what_a_command_prints_just_before_it_ends_is_read(tmp_path: Path) -> None:
    """It used to be lost when it came between a look for output and a look whether the command runs."""
    go_on = tmp_path / "go-on"

    class EndsLate(subprocess.Popen[bytes]):
        def poll(self) -> int | None:
            go_on.touch()
            return self.wait(30)

    script = f"while [ ! -e {go_on} ]; do sleep 0.02; done; echo quiet-river"
    with EndsLate(["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert _communicate(process, time.monotonic() + 60) == (b"quiet-river\n", b"")


def test_on_windows_a_command_is_refused_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pipes cannot be waited for as elsewhere. Source: docs/windows.md."""
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SecretCommandError, match="cannot be read from on Windows"):
        SecretCommands().read("echo x", ["echo"], ENVIRON)
