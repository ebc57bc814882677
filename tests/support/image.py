"""A container image made of what this machine has: the interpreter of the tests and a few servers.

No registry and no network is needed: the interpreter, its standard library, the shared libraries that they
want and the packages of the servers are put into an archive, which Podman imports as an image.

  /usr/bin/python3          the interpreter
  /srv/probe_server.py      tests/support/probe_server.py, which the image runs unless told otherwise
  /usr/bin/id, rootid       `id`, and the same owned by root and with the setuid bit
  mcp_server_time           a real server, as `python3 -m mcp_server_time`
"""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path

_LEFT_OUT = {
    *("test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "turtledemo", "site-packages"),
    *("pydoc_data", "unittest", "distutils", "venv", "wsgiref", "curses", "dbm"),
}
_LEFT_OUT_LIKE = re.compile(r"config-3.*|_tkinter.*|.*\.opt-\d\.pyc")
_LIBRARY = re.compile(r"(?:\S+ => )?(/\S+) \(0x")
_SERVERS = ("mcp_server_time.server",)
_LOADED = (
    "import json, sys; print(json.dumps([getattr(m, '__file__', None) or '' for m in sys.modules.values()]))"
)
_PROBE = Path(__file__).with_name("probe_server.py")
_PASSWD = b"root:x:0:0:root:/root:/bin/false\nguest:x:65534:65534:guest:/home/guest:/bin/false\n"
VOLUME = "/var/lib/probe"
"""A folder that the image wants to be kept, as databases do."""
CHANGES = [
    *("-c", f"ENTRYPOINT {json.dumps(['/usr/bin/python3', '-u'])}"),
    *("-c", f"CMD {json.dumps(['/srv/probe_server.py'])}"),
    *("-c", "ENV PATH=/usr/bin"),
    *("-c", f"VOLUME {VOLUME}"),
]
"""What `podman import` is told about the image."""


def archive(kept: Path, otherwise: Path) -> Path:
    """The root filesystem as a tar archive: of what there is now, kept for later where there is a place."""
    packages = sorted(f"{one.name} {one.version}" for one in distributions())
    parts = [
        sys.version,
        *packages,
        _PROBE.read_text(encoding="utf-8"),
        Path(__file__).read_text(encoding="utf-8"),
    ]
    name = f"test-image-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}.tar"
    if not (found := kept / name).exists():
        write_archive(otherwise / name)
        if not kept.exists():
            return otherwise / name
        for old in {*kept.glob("test-image-*.tar")} - {found}:
            old.unlink(missing_ok=True)
        part = kept / f"{otherwise.name}.part"
        shutil.move(otherwise / name, part)
        with suppress(FileExistsError):  # another worker was first, and may read its archive now
            os.link(part, found)
        part.unlink()
    return found


def write_archive(path: Path) -> None:
    """Write the root filesystem as a tar archive; takes some seconds."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = Path(sys.base_prefix, "bin", version)
    programs = {"usr/bin/python3": own, "usr/bin/id": _program("id"), "usr/bin/rootid": _program("id")}
    trees = {f"usr/lib/{version}": Path(sysconfig.get_path("stdlib"))}
    trees |= _packages(f"usr/lib/{version}/site-packages")
    with tarfile.open(path, "w", dereference=True) as out:
        for at, source in {**programs, "srv/probe_server.py": _PROBE, **trees}.items():
            out.add(source, arcname=at, filter=_kept)
        extensions = [
            f"{tree}{name.removeprefix(at)}"
            for name in out.getnames()
            for at, tree in trees.items()
            if name.startswith(f"{at}/") and name.endswith(".so")
        ]
        for at, source in shared_libraries([*map(str, programs.values()), *extensions]).items():
            out.add(source, arcname=at, filter=_kept)
        for folder in ("tmp", "proc", "sys", "dev", "run", "home/guest"):
            out.addfile(_folder(folder))
        passwd = tarfile.TarInfo("etc/passwd")
        passwd.size, passwd.mode = len(_PASSWD), 0o644
        out.addfile(passwd, io.BytesIO(_PASSWD))


def _program(name: str) -> Path:
    found = shutil.which(name)
    assert found is not None
    return Path(found).resolve()


def _packages(at: str) -> Mapping[str, Path]:
    """Where each package goes that the servers import, with what it says of itself."""
    code = f"import {', '.join(_SERVERS)}; {_LOADED}"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    files = [Path(one) for one in json.loads(asked.stdout) if "site-packages" in one]
    site = next(parent for parent in files[0].parents if parent.name == "site-packages")
    tops = {file.relative_to(site).parts[0] for file in files} | {"tzdata"}
    tops |= {f"{top}.libs" for top in tops} | {f"{one.name}/METADATA" for one in site.glob("*.dist-info")}
    return {f"{at}/{top}": site / top for top in sorted(tops) if (site / top).exists()}


def shared_libraries(programs: Sequence[str]) -> Mapping[str, Path]:
    """Where each shared library goes that programs and extensions load, by the loader's own word."""
    told = subprocess.run(["ldd", *programs], capture_output=True, check=False, text=True).stdout
    found = {Path(one) for one in _LIBRARY.findall(told)}
    return {str(one)[1:] if "ld-linux" in one.name else f"lib/{one.name}": one for one in found}


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = Path(member.name).name
    if name in _LEFT_OUT or _LEFT_OUT_LIKE.fullmatch(name):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode = 0o4755 if name == "rootid" else member.mode | 0o444
    return member


def _folder(name: str) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
    return made
