"""`maitred upgrade`: asks an index only if one is configured, and says how this installation is replaced."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.surfaces.cli.rig import Run, runner, write

from maitred import __version__
from maitred.installation import OwnInstallation
from maitred.surfaces.cli import upgrade
from maitred.surfaces.cli.package_index import version_key

DIGEST = "a" * 64


def wheel(version: str, **more: Any) -> dict[str, Any]:
    name = f"maitred-{version}-py3-none-any.whl"
    return {"filename": name, "url": f"../../files/{name}", "hashes": {"sha256": DIGEST}, **more}


class Index:
    """An index on this machine; `files` is what its page has, `asked` the headers of the requests."""

    def __init__(self) -> None:
        self.files: list[Any] = []
        self.asked: list[str] = []
        self.status, self.body = 200, b""
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}/simple/maitred/"

    def handler(index) -> type[BaseHTTPRequestHandler]:  # noqa: N805  # the handler's own is `self`
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.asked.append(self.headers["Accept"])
                page = {"meta": {"api-version": "1.1"}, "name": "maitred", "files": index.files}
                self.send_response(index.status)
                self.end_headers()
                self.wfile.write(index.body or json.dumps(page).encode())

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@pytest.fixture
def index() -> Iterator[Index]:
    found = Index()
    thread = threading.Thread(target=found.server.serve_forever, args=[0.02])
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    pipx = OwnInstallation(way="pipx", python=tmp_path / "python", prefix=tmp_path / "venvs" / "maitred")
    monkeypatch.setattr(upgrade, "find_installation", lambda: pipx)
    return runner(tmp_path, monkeypatch, capsys)


def configure(folder: Path, index: Index) -> None:
    write(folder, {"maitred.yaml": f"upgrade: {{url: '{index.url}'}}\n"})


def test_without_an_address_nothing_is_asked(run: Run, tmp_path: Path) -> None:
    """No index is a default: on none of the public ones is the name ours."""
    write(tmp_path, {"maitred.yaml": "servers: {}\n"})

    assert "upgrade.url: 1 fault\n  names no index, so nothing was asked" in run("upgrade", "--check").refused


def test_without_check_it_says_how_and_asks_nothing(run: Run, tmp_path: Path, index: Index) -> None:
    configure(tmp_path, index)

    said = run("upgrade").fine

    assert f"maitred {__version__}, installed by pipx, into {tmp_path}/venvs/maitred" in said
    assert "    pipx install --force NEW_WHEEL" in said
    assert index.asked == []


def test_a_newer_version_comes_with_the_command_that_installs_it(
    run: Run, tmp_path: Path, index: Index
) -> None:
    """The newest by number, not by order; by its address and its digest, which installers check."""
    configure(tmp_path, index)
    index.files = [
        wheel("0.10.0"), wheel("0.9.0"), wheel("1.0rc1"), wheel("2.0.0", yanked="broken"), wheel("nonsense"),
        {"filename": "maitred-3.0.0.tar.gz", "url": "x"},
        {"filename": "other-4.0.0-py3-none-any.whl", "url": "x"},
        None, {"filename": 5},
    ]  # fmt: skip

    said = run("upgrade", "--check").fine
    as_json = json.loads(run("upgrade", "--check", "--json").fine)

    address = (
        f"{index.url.removesuffix('simple/maitred/')}files/maitred-0.10.0-py3-none-any.whl#sha256={DIGEST}"
    )
    assert "0.10.0 is there." in said
    assert as_json["command"] == f"pipx install --force '{address}'"
    assert (as_json["newest"], as_json["newer"], as_json["version"]) == ("0.10.0", True, __version__)
    assert index.asked == ["application/vnd.pypi.simple.v1+json"] * 2


@pytest.mark.parametrize(
    ("own", "is_newer"), [("0.2.0rc1", True), ("0.2.0.dev3", True), ("0.2.0", False), ("0.2.0+local", False)]
)
def test_a_release_is_newer_than_its_own_pre_release(
    run: Run, tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch, own: str, is_newer: bool
) -> None:
    configure(tmp_path, index)
    index.files = [wheel("0.2.0")]
    monkeypatch.setattr(upgrade, "__version__", own)

    assert json.loads(run("upgrade", "--check", "--json").fine)["newer"] is is_newer


@pytest.mark.parametrize(
    ("files", "expected"),
    [([__version__, "0.0.1"], "This is the newest version."), ([], "The index has no version of it.")],
)
def test_what_is_not_newer_is_not_offered(
    run: Run, tmp_path: Path, index: Index, files: list[str], expected: str
) -> None:
    configure(tmp_path, index)
    index.files = [wheel(version) for version in files]

    said = run("upgrade", "--check").fine

    assert expected in said
    assert "pipx install" not in said


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, b"", "cannot be asked for versions: HTTP 404"),
        (200, b"<html>", "is no page of this project in the simple JSON API"),
        (200, b'{"name": "another", "files": []}', "is no page of this project in the simple JSON API"),
        (200, b" " * 5_000_000, "cannot be asked for versions"),
    ],
    ids=["missing", "no JSON", "another project", "endless"],
)
def test_another_answer_is_an_error(
    run: Run, tmp_path: Path, index: Index, status: int, body: bytes, expected: str
) -> None:
    configure(tmp_path, index)
    index.status, index.body = status, body

    assert expected in run("upgrade", "--check").refused


def test_the_address_must_be_safe(run: Run, tmp_path: Path) -> None:
    write(tmp_path, {"maitred.yaml": "upgrade: {url: 'http://index.example/simple/maitred/'}\n"})
    plain = run("upgrade", "--check").refused
    write(tmp_path, {"maitred.yaml": "upgrade: {url: 'https://me:secret@index.example/simple/maitred/'}\n"})
    secret = run("upgrade", "--check").refused

    assert "upgrade.url: must start with https://" in plain
    assert "upgrade.url: must hold no name or password" in secret


def test_versions_are_compared_by_their_numbers() -> None:
    versions = ["0.1", "0.1.1", "0.2.0", "0.10.0", "0.10.0.post1", "1.0"]
    keys = [version_key(version) for version in versions]

    assert all(keys)
    assert sorted(keys, key=lambda key: key or ()) == keys
    assert version_key("1.0") == version_key("1.0.0")
    assert [version_key(text) for text in ("1.0rc1", "1.0.dev1", "x", "")] == [None] * 4
