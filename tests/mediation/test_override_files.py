"""Reading files of overrides: all faults at once, and community files only as they were pinned."""

import hashlib
from pathlib import Path

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from structlog.testing import capture_logs
from tests.mediation.test_overrides import write

from maitred.errors import ConfigError
from maitred.mediation import fetch_overrides, load_overrides

pytestmark = pytest.mark.anyio

URL = "https://tools.example/overrides.yaml"
GOOD = "overrides:\n  shop:\n    del: {rename: delete_file}\n"

# --- faults -----------------------------------------------------------------------------------------------

FAULTY = """\
overrides:
  shop:
    gt_usr:
      rename: get user
      descripton: x
      hide: maybe
    del:
      rename: remove
      parameters:
        id: {type: strin, required: true}
        x: 5
        y:
          minimum: three
    del2: {rename: remove, tags: a}
    "d*": {rename: foo}
    e: {}
    f: {title: ""}
    g:
      description: "a\\u202Eb"
      hide: true
      pin: true
    h: {rename: del, category: "a\\nb", use_cases: [fine, 3, [x]]}
    i: {zzz: 1}
    j: {parameters: {p: {pattern: "("}}}
    k: {parameters: {p: {examples: ["\\u200b"]}}}
    i: {title: again}
  other: 5
override: {}
"""


def faults_of(path: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_overrides(path)
    return list(caught.value.faults)


def test_all_faults_of_a_file_are_told_at_once_with_line_and_key(tmp_path: Path) -> None:
    """Source: issue "Mediation and visibility", done when 2."""
    at = "overrides.shop"
    types = "array, boolean, integer, null, number, object, string"

    found = faults_of(write(tmp_path, FAULTY))

    told = [fault for fault in found if ".i.zzz" not in fault and "JSON Schema" not in fault]
    assert told == [
        f"line 4: {at}.gt_usr.rename: 'get user' is no name: use up to 64 letters, digits, `_` and `-`",
        f"line 5: {at}.gt_usr.descripton: is not a known key; did you mean `description`?",
        f"line 6: {at}.gt_usr.hide: must be true or false",
        f"line 10: {at}.del.parameters.id.required: cannot be changed: only the server knows"
        " which parameters are required",
        f"line 10: {at}.del.parameters.id.type: 'strin' is not a type; the types are {types}",
        f"line 11: {at}.del.parameters.x: must be a mapping such as {{description: What it is.}}",
        f"line 14: {at}.del2.rename: 'remove' is the new name of 'del' already",
        f"line 14: {at}.del2.tags: must be a list of texts",
        f"line 15: {at}.d*.rename: a pattern may fit several tools, which cannot have one name",
        f"line 16: {at}.e: says nothing; leave it out",
        f"line 17: {at}.f.title: must be text, and not empty",
        f"line 19: {at}.g.description: holds the invisible character U+202E",
        f"line 21: {at}.g.pin: contradicts `hide`; keep one of the two",
        f"line 22: {at}.h.category: must be one line",
        f"line 22: {at}.h.rename: 'del' is the name of another tool here",
        f"line 22: {at}.h.use_cases[2]: must be text, and not empty",
        f"line 25: {at}.k.parameters.p: holds the invisible character U+200B",
        "line 26: i: is given twice, first in line 23",
        "line 27: overrides.other: must be a mapping of tools to overrides",
        "line 28: override: is not a known key; did you mean `overrides`?",
    ]
    schemas = [fault.partition(": is no JSON Schema")[0] for fault in found if "JSON Schema" in fault]
    assert schemas == [
        f"line 13: {at}.del.parameters.y.minimum", f"line 24: {at}.j.parameters.p.pattern",
    ]  # fmt: skip


def test_a_key_like_no_other_is_told_which_there_are(tmp_path: Path) -> None:
    assert faults_of(write(tmp_path, "overrides: {s: {t: {zzz: 1}}}")) == [
        "line 1: overrides.s.t.zzz: is not a known key; there are rename, title, category, description,"
        " parameters, tags, use_cases, hide, pin"
    ]


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        ("", "a.yaml", "line 1: the top level must have the key `overrides`"),
        ("- a", "a.yaml", "the top level must be a mapping with `overrides`"),
        ("a: [", "a.yaml", "line 1: "),
        ('{"overrides": {', "a.json", "line 1: is not valid JSON"),
        (
            "overrides: {S.com: {a: {title: x}}, s.com: {}}",
            "a.yaml",
            "line 1: overrides.s.com: is given twice",
        ),
        (
            "overrides: {s: {a: {parameters: {? [x] : {type: string}}}}}",
            "a.yaml",
            "line 1: a key must be text",
        ),
        ("#" * 1_000_001, "a.yaml", "is larger than 1,000,000 bytes"),
    ],
)
def test_a_file_that_is_none_says_why(tmp_path: Path, text: str, name: str, told: str) -> None:
    assert told in "\n".join(faults_of(write(tmp_path, text, name)))


def test_a_file_that_expands_without_end_is_refused(tmp_path: Path) -> None:
    """A few lines of references to references would be billions of values."""
    levels = [f"        l{n}: &l{n} {{examples: [{', '.join([f'*l{n - 1}'] * 9)}]}}" for n in range(1, 12)]
    text = "\n".join(
        ["overrides:", "  s:", "    t:", "      parameters:", "        l0: &l0 {title: x}", *levels]
    )

    assert "holds more than 10,000 values" in faults_of(write(tmp_path, text))[0]


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    assert faults_of(tmp_path / "none.yaml") == ["the file cannot be read: No such file or directory"]
    (tmp_path / "bytes.yaml").write_bytes(b"\xff")
    assert faults_of(tmp_path / "bytes.yaml") == ["is not UTF-8 text"]


def test_json_may_have_comments(tmp_path: Path) -> None:
    """People write files by hand."""
    text = '{"overrides": {"shop": {"a": {"title": "\\ud83d\\ude00", /* x */ "hide": true,}}}}'

    found = load_overrides(write(tmp_path, text, "a.json")).find("shop", "a")

    assert found is not None
    assert (found.title, found.hide) == ("\U0001f600", True)


# --- community files --------------------------------------------------------------------------------------


class Community:
    """Serves one text by HTTP, counts, and can go away."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.status = 200
        self.requests = 0
        self.is_away = False

    def client(self) -> httpx2.AsyncClient:
        async def serve(_: Request) -> Response:
            self.requests += 1
            return Response(self.text, status_code=self.status)

        app = httpx2.ASGITransport(app=Starlette(routes=[Route("/overrides.yaml", serve)]))
        return httpx2.AsyncClient(transport=_Network(app, self))


class _Network(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport, community: Community) -> None:
        self._inner = inner
        self._community = community

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._community.is_away:
            raise httpx2.ConnectError("no route to host")
        return await self._inner.handle_async_request(request)


def checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def fetched(community: Community, cache: Path, wanted: str) -> str:
    """The new name of `del` in the community's file."""
    with anyio.fail_after(120):
        async with community.client() as client:
            found = (await fetch_overrides(URL, wanted, cache=cache, client=client)).find("shop", "del")
    return found.rename if found else ""


async def test_a_copy_is_used_when_the_network_is_gone(tmp_path: Path) -> None:
    """And also without asking: what a checksum names does not change."""
    community, cache = Community(GOOD), tmp_path / "new" / "cache"

    assert await fetched(community, cache, checksum(GOOD).upper()) == "delete_file"
    assert await fetched(community, cache, checksum(GOOD)) == "delete_file"
    community.is_away = True
    assert await fetched(community, cache, checksum(GOOD)) == "delete_file"
    assert community.requests == 1


async def test_another_checksum_brings_the_new_version(tmp_path: Path) -> None:
    newer = GOOD.replace("delete_file", "remove_file")
    community = Community(GOOD)
    await fetched(community, tmp_path, checksum(GOOD))
    community.text = newer

    assert await fetched(community, tmp_path, checksum(newer)) == "remove_file"


@pytest.mark.parametrize(
    ("text", "status", "is_away", "told"),
    [
        (
            GOOD + " ",
            200,
            False,
            f"has the SHA-256 {checksum(GOOD + ' ')} instead of {checksum(GOOD)}; look at",
        ),
        (GOOD, 404, False, "cannot be fetched: HTTP 404"),
        (GOOD, 200, True, "cannot be fetched, and there is no copy of this version: ConnectError"),
        ("#" * 1_000_001, 200, False, "is larger than 1,000,000 bytes"),
    ],
)
async def test_what_is_not_the_pinned_version_is_refused(
    tmp_path: Path, text: str, status: int, is_away: bool, told: str
) -> None:
    """Nothing of it is kept."""
    community = Community(text)
    community.status, community.is_away = status, is_away

    with pytest.raises(ConfigError) as caught:
        await fetched(community, tmp_path, checksum(GOOD))

    assert caught.value.source == URL
    assert caught.value.faults[0].startswith(told)
    assert [path async for path in anyio.Path(tmp_path).iterdir()] == []


async def test_a_copy_that_was_changed_is_fetched_again(tmp_path: Path) -> None:
    """Whoever can write to the cache cannot put words into descriptions."""
    community = Community(GOOD)
    await fetched(community, tmp_path, checksum(GOOD))
    [copy] = [path async for path in anyio.Path(tmp_path).iterdir()]
    await copy.write_text(GOOD.replace("delete_file", "evil"))

    assert await fetched(community, tmp_path, checksum(GOOD)) == "delete_file"
    assert await copy.read_text() == GOOD


async def test_faults_of_a_community_file_name_its_url(tmp_path: Path) -> None:
    bad = "overrides: {shop: {del: {renam: x}}}"

    with pytest.raises(ConfigError) as caught:
        await fetched(Community(bad), tmp_path, checksum(bad))

    assert str(caught.value).startswith(f"{URL}: 1 fault\n  line 1: overrides.shop.del.renam")


async def test_a_cache_that_cannot_be_written_does_not_matter(tmp_path: Path) -> None:
    blocked = write(tmp_path, "a file, not a folder")

    with capture_logs() as logs:
        assert await fetched(Community(GOOD), blocked, checksum(GOOD)) == "delete_file"

    assert logs[0]["event"] == "the copy of overrides cannot be kept"


async def test_a_checksum_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        await fetched(Community(GOOD), tmp_path, "abc")


def test_a_local_file_can_be_pinned_too(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)

    assert load_overrides(path, checksum(GOOD)).find("shop", "del") is not None
    with pytest.raises(ConfigError, match="has the SHA-256"):
        load_overrides(path, checksum("another"))
