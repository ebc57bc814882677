"""Images are fetched, taken by what they are and not by what they are called, and looked at for faults."""

import json
import os
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import anyio
import pytest
from tests.backends.container_rig import PODMAN, SOON_S, Rig, options
from tests.support.podman import IMAGE, Podman
from tests.support.waiting import eventually

from maitred.backends.base import ConnectError
from maitred.backends.isolation.engine_api import Engine
from maitred.backends.isolation.images import Images
from maitred.backends.isolation.scan import Trivy

pytestmark = PODMAN

FAULTS = {
    "SchemaVersion": 2,
    "Results": [
        {
            "Target": "guest (debian 12.8)",
            "Vulnerabilities": [
                {
                    "VulnerabilityID": "CVE-2026-0002",
                    "PkgName": "zlib1g",
                    "InstalledVersion": "1.2.13",
                    "FixedVersion": "1.2.14",
                    "Severity": "HIGH",
                },
                {
                    "VulnerabilityID": "CVE-2026-0001",
                    "PkgName": "libssl3",
                    "InstalledVersion": "3.0.15",
                    "Severity": "CRITICAL",
                },
            ],
        },
        {"Target": "Python"},
    ],
}
FOUND = (
    "its image has 2 known faults of high or critical severity (CVE-2026-0001 in libssl3 3.0.15 (critical);"
    " CVE-2026-0002 in zlib1g 1.2.13 (high, mended in 1.2.14)); use a mended image"
)


# --- fetching ---------------------------------------------------------------------------------------------


async def test_an_image_that_is_not_here_is_fetched_and_each_layer_is_told(rig: Rig, podman: Podman) -> None:
    """Once: the next time it is here."""
    name = f"{podman.registry.host}/acme/tool"
    podman.registry.put("acme/tool", "1", [os.urandom(20_000), b"two"])
    images = rig.images(pull="missing")
    engine = await rig.engines.engine()
    found = await images.ready(engine, "tool", f"{name}:1", within_s=SOON_S)
    podman.registry.asked.clear()
    again = await images.ready(engine, "tool", f"{name}:1", within_s=SOON_S)

    assert re.fullmatch(r"sha256:[0-9a-f]{64}", found.identity)
    assert found.user == "1000"
    assert again == found
    assert podman.registry.asked == []
    said = list(images.progress(f"{name}:1"))
    assert len([line for line in said if "Download complete" in line or "Pulling fs layer" in line]) >= 2, (
        said
    )


async def test_an_image_that_is_always_fetched_is_the_newest_one(rig: Rig, podman: Podman) -> None:
    """And is asked about anew: a tag means another image today."""
    name = f"{podman.registry.host}/acme/newest:1"
    images = rig.images(pull="always")
    engine = await rig.engines.engine()
    podman.registry.put("acme/newest", "1", [b"one"])
    first = await images.ready(engine, "tool", name, within_s=SOON_S)
    podman.registry.put("acme/newest", "1", [b"another"])
    second = await images.ready(engine, "tool", name, within_s=SOON_S)

    assert first.identity != second.identity
    assert rig.admitted == [("tool", first.identity), ("tool", second.identity)]


async def test_an_image_by_its_digest_is_that_image_whatever_the_tag_says(rig: Rig, podman: Podman) -> None:
    """And nobody is asked: its digest stands in what was approved."""
    rig.refusal = "nobody approved it"
    digest = podman.registry.put("acme/pinned", "1", [b"one"])
    podman.registry.put("acme/pinned", "1", [b"another"])
    engine = await rig.engines.engine()
    name = f"{podman.registry.host}/acme/pinned"
    pinned = await rig.images(pull="missing").ready(engine, "tool", f"{name}@{digest}", within_s=SOON_S)

    assert rig.admitted == []
    with pytest.raises(ConnectError, match="nobody approved it"):
        await rig.images(pull="missing").ready(engine, "tool", f"{name}:1", within_s=SOON_S)
    assert rig.admitted != [("tool", pinned.identity)]


async def test_an_image_that_was_not_admitted_never_starts(rig: Rig, podman: Podman) -> None:
    """Nothing is made of it."""
    rig.refusal = "nobody approved it"
    with pytest.raises(ConnectError, match="nobody approved it"):
        async with rig.backend().connect(options()):
            raise AssertionError
    assert podman.containers() == []


async def test_what_cannot_be_fetched_is_told_with_the_registrys_reason(rig: Rig, podman: Podman) -> None:
    """Of an image that is not there."""
    engine, name = await rig.engines.engine(), f"{podman.registry.host}/acme/none:1"
    with pytest.raises(ConnectError, match=f"its image {name} cannot be fetched: .*404"):
        await rig.images(pull="missing").ready(engine, "tool", name, within_s=SOON_S)


async def test_fetching_goes_on_when_a_start_was_given_up(rig: Rig, podman: Podman) -> None:
    """And the next start finds it done, or waits for the same."""
    name = f"{podman.registry.host}/acme/slow:1"
    podman.registry.put("acme/slow", "1", [b"slow"])
    images = rig.images(pull="missing")
    engine = await rig.engines.engine()
    with pytest.raises(ConnectError, match="is still being fetched; that goes on"):
        await images.ready(engine, "tool", name, within_s=0.001)
    found = await images.ready(engine, "tool", name, within_s=SOON_S)

    assert found.identity
    assert len([path for path in podman.registry.asked if path.startswith("/v2/acme/slow/manifests/")]) <= 2


# --- known faults -----------------------------------------------------------------------------------------


@pytest.fixture
def trivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a program called `trivy` on PATH: it writes down its arguments, and does what it is told."""

    def put(does: str) -> Path:
        program = tmp_path / "bin" / "trivy"
        program.parent.mkdir(exist_ok=True)
        said = tmp_path / "asked"
        program.write_text(f'#!/bin/sh\necho "$@" >> {said}\n{does}\n', encoding="utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return said

    return put


@pytest.fixture
def small(podman: Podman) -> str:
    """An image that is quickly handed over."""
    podman.registry.put("acme/small", "1", [b"small"])
    podman.run("pull", "-q", f"{podman.registry.host}/acme/small:1")
    return f"{podman.registry.host}/acme/small:1"


async def test_faults_of_an_image_are_told_or_keep_it_from_starting(
    rig: Rig, small: str, trivy: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """As the operator chose; an image is looked at once, and as what it is."""
    asked = trivy(f"cat <<'END'\n{json.dumps(FAULTS)}\nEND\ntar tf \"${{10}}\" > /dev/null || exit 7")
    engine, warning = await rig.engines.engine(), rig.images(scan="warn")
    for _ in range(2):
        assert await warning.ready(engine, "tool", small, within_s=SOON_S)
        assert "CVE-2026-0001 in libssl3" in await printed(capfd, "known faults")

    with pytest.raises(ConnectError, match=re.escape(FOUND)):
        await rig.images(scan="block").ready(engine, "tool", small, within_s=SOON_S)
    calls = asked.read_text(encoding="utf-8").splitlines()
    assert len(calls) == 2
    assert calls[0].startswith(
        "image --quiet --format json --scanners vuln --severity CRITICAL,HIGH --input /"
    )


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("echo database is gone >&2; exit 1", "Trivy cannot scan its image: database is gone"),
        ("echo not JSON", "the gateway cannot read what Trivy reports of its image"),
    ],
)
async def test_an_image_that_could_not_be_looked_at_starts_only_where_faults_are_only_told(
    rig: Rig,
    small: str,
    trivy: Callable[[str], Path],
    capfd: pytest.CaptureFixture[str],
    does: str,
    said: str,
) -> None:
    """Else faults would be got past by breaking what finds them."""
    trivy(does)
    engine = await rig.engines.engine()
    assert await rig.images(scan="warn").ready(engine, "tool", small, within_s=SOON_S)
    assert said in await printed(capfd, "was not looked at")
    with pytest.raises(ConnectError, match=f"`isolation.scan` is `block`, and {said}"):
        await rig.images(scan="block").ready(engine, "tool", small, within_s=SOON_S)


async def printed(capfd: pytest.CaptureFixture[str], words: str) -> str:
    """What was printed until some words were."""
    text = ""
    with anyio.move_on_after(SOON_S):
        while words not in text:
            await anyio.sleep(0.01)  # a thread says it: looking without a pause would hold it up
            text += capfd.readouterr().out
    assert words in text
    return text


class Slow:
    """A scanner that takes its time."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()

    def faults(self, _: Engine, __: str) -> Sequence[str]:
        self.goes_on.wait(SOON_S)
        return []


async def test_looking_for_faults_holds_a_start_up_only_where_it_decides(rig: Rig, small: str) -> None:
    """And no longer than all that comes before a start may take together."""
    engine, slow = await rig.engines.engine(), Slow()

    def images(scan: Literal["warn", "block"]) -> Images:
        return Images(admit=rig._admit, scanner=slow, pull="always", scan=scan)

    try:
        with anyio.fail_after(SOON_S / 2):
            assert await images("warn").ready(engine, "tool", small, within_s=SOON_S)
            started = anyio.current_time()
            with pytest.raises(ConnectError, match="still being looked at for known faults; that goes on"):
                await images("block").ready(engine, "tool", small, within_s=0.5)
            assert anyio.current_time() - started < SOON_S / 4
    finally:
        slow.goes_on.set()


async def test_trivy_sees_no_secret_of_ours_and_ends_with_the_gateway(
    rig: Rig, small: str, trivy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It reads what a stranger made; its own settings it has, and the mark by which it is found."""
    monkeypatch.setenv("MAITRED_KEY", "s3cret-of-the-gateway")
    monkeypatch.setenv("TRIVY_CACHE_DIR", "/cache-of-trivy")
    seen = tmp_path / "seen"
    trivy(f"env > {seen}.part; mv {seen}.part {seen}; exec sleep 60")
    engine, images = await rig.engines.engine(), rig.images(scan="block")

    async def close() -> None:
        await eventually(seen.exists)
        rig.trivy.close()

    with anyio.fail_after(SOON_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(close)
            with pytest.raises(ConnectError, match="Trivy cannot scan its image: it exits with -9"):
                await images.ready(engine, "tool", small, within_s=SOON_S)
    text = seen.read_text(encoding="utf-8")

    assert "s3cret-of-the-gateway" not in text
    assert "TRIVY_CACHE_DIR=/cache-of-trivy\n" in text
    assert f"MAITRED_GATEWAY={rig.warden.mark}\n" in text
    with pytest.raises(ConnectError, match="since the gateway ends"):
        await images.ready(engine, "tool", small, within_s=SOON_S)


async def test_trivy_may_not_say_more_than_can_be_kept(
    rig: Rig, small: str, trivy: Callable[[str], Path]
) -> None:
    """It is ended then."""
    trivy("exec yes")
    engine = await rig.engines.engine()
    scanner = Trivy({}, longest_bytes=1_000_000)
    images = Images(admit=rig._admit, scanner=scanner, pull="never", scan="block")
    with pytest.raises(ConnectError, match="Trivy reports more than 1000000 bytes"):
        await images.ready(engine, "tool", small, within_s=SOON_S)


async def test_without_trivy_the_error_says_so(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it has to be."""
    monkeypatch.setenv("PATH", "/nowhere")
    engine = await rig.engines.engine()
    assert await rig.images(scan="off").ready(engine, "probe", IMAGE, within_s=SOON_S)
    with pytest.raises(ConnectError, match="Trivy is not installed"):
        await rig.images(scan="block").ready(engine, "probe", IMAGE, within_s=SOON_S)
