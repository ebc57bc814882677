"""The pictures of the manual: made on demand in a real Chromium, small, each with a text instead of it."""

import os
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.surfaces.web.person import chromium, person
from tests.surfaces.web.sample_house import sample_house

from maitred.model.access import LOCAL_GRANT
from maitred.surfaces.web.screen import url_of

pytestmark = pytest.mark.anyio

_ROOT = Path(__file__).parents[3]
_DOCS = _ROOT / "docs"
WIDTH = 1_280
MOST_BYTES = 120_000
COLOURS = 256
PAGES = {
    "today": (url_of(), 940),
    "servers": (url_of("servers"), 980),
    "search": (url_of("search", q="who broke the build", expected="github__list_commits"), 940),
    "approval": (url_of("approvals", "slack"), 900),
}
"""The pages of the manual, and how much of each is shown, in pixels from its top."""
_PICTURE = re.compile(r"!\[([^\]]*)\]\(((?:docs/)?pictures/([\w-]+)\.png)\)")


def palette_png(pixels: bytes, width: int, height: int) -> bytes:
    """A PNG of the 256 most frequent colours; each other colour becomes the nearest of them."""
    colours = np.frombuffer(pixels, np.uint8).reshape(-1, 4)[:, :3].astype(np.int32)
    packed = colours @ np.array([65_536, 256, 1])
    values, places, counts = np.unique(packed, return_inverse=True, return_counts=True)
    apart = np.stack([values >> 16, values >> 8 & 255, values & 255], axis=1)
    palette = apart[np.argsort(-counts)[:COLOURS]]
    nearest = np.abs(apart[:, None, :] - palette[None, :, :]).sum(axis=2).argmin(axis=1)
    rows = nearest[places].astype(np.uint8).reshape(height, width)
    data = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = (
        (b"IHDR", header),
        (b"PLTE", palette.astype(np.uint8).tobytes()),
        (b"IDAT", zlib.compress(data, 9)),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in (*parts, (b"IEND", b"")))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@pytest.mark.skipif("MAITRED_PICTURES" not in os.environ, reason="on demand: MAITRED_PICTURES=docs/pictures")
async def test_the_pictures_of_the_manual_are_made(tmp_path: Path) -> None:
    """Of a gateway that a team could have, as a person sees it who types `maitred ui`."""
    folder = Path(os.environ["MAITRED_PICTURES"])
    async with sample_house(tmp_path) as house, chromium() as connection:
        for name, (path, height) in PAGES.items():
            me = await person(connection)
            await me.resize(WIDTH, height=height)
            await me.open(house.url + house.web.entry_path(LOCAL_GRANT))
            await me.open(house.url + path)
            file = folder / f"{name}.png"
            file.write_bytes(palette_png(await me.pixels(WIDTH, height), WIDTH, height))
            assert file.stat().st_size < MOST_BYTES


def test_the_manual_shows_each_picture_with_a_text_instead_of_it() -> None:
    """Small enough for who reads on a slow line, and as wide as they were made."""
    manual = (_DOCS / "web.md").read_text(encoding="utf-8")
    readme = (_ROOT / "README.md").read_text(encoding="utf-8")
    found = [*_PICTURE.findall(manual), *_PICTURE.findall(readme)]
    assert {name for _, _, name in found} == set(PAGES)
    assert len(_PICTURE.findall(readme)) == 1
    for alt, _, name in found:
        assert len(alt) > 40, name
    for file in (_DOCS / "pictures").glob("*.png"):  # the one of the walk-through has a test of its own
        data = file.read_bytes()
        assert len(data) < MOST_BYTES, file.name
        assert struct.unpack(">I", data[16:20]) == (WIDTH,)
        assert file.stem in PAGES
