"""Make the files of a release: sdist, wheel, bill of materials, provenance and digests.

`make release` runs it. It publishes nothing and signs nothing: that needs the key of who publishes. The same
commit gives the same bytes, since every time in the files is that of the commit.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
BUILDER = "urn:maitred:builder:local"
"""Who built, if nothing else is given; a service that builds gives its own address."""
BUILD_TYPE = "urn:maitred:build:make-release:1"


class ReleaseError(Exception):
    """Why no release can be made."""


def main(words: Sequence[str] | None = None) -> int:
    """Make a release in a folder; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="an empty or new folder")
    parser.add_argument("--builder", default=BUILDER, help="a URI that names who builds")
    parser.add_argument("--allow-changes", action="store_true", help="build what is not committed, too")
    given = parser.parse_args(words)
    try:
        for path in make_release(given.out, builder=given.builder, allows_changes=given.allow_changes):
            sys.stdout.write(f"{path}\n")
    except ReleaseError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def make_release(folder: Path, *, builder: str, allows_changes: bool = False) -> Sequence[Path]:
    """Make all files; returns their paths.

    Raises:
        ReleaseError: The folder has files, the checkout has changes, or a build failed.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ReleaseError(f"{folder} has files; remove them, or name another folder by --out")
    commit, moment = _commit(allows_changes=allows_changes)
    folder.mkdir(parents=True, exist_ok=True)
    build(folder, moment)
    built = sorted(folder.iterdir())
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in built}
    sbom, statement = folder / "sbom.cdx.json", folder / "provenance.intoto.json"
    _write(sbom, bill_of_materials(digests, moment))
    _write(statement, provenance(digests, commit, moment, builder=builder))
    files = [*built, sbom, statement]
    sums = folder / "SHA256SUMS"
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    sums.write_text("".join(lines), encoding="utf-8")
    return [*files, sums]


def build(folder: Path, moment: datetime) -> None:
    """Build the wheel and the sdist by the build backend, with one time in all of it.

    Raises:
        ReleaseError: The backend failed.
    """
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(int(moment.timestamp()))}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"the build failed:\n{done.stderr}")


def _commit(*, allows_changes: bool) -> tuple[str, datetime]:
    """The commit that is checked out, and its time."""
    if _git("status", "--porcelain") and not allows_changes:
        raise ReleaseError("the checkout has changes that are not committed: commit or stash them")
    seconds = int(_git("log", "-1", "--format=%ct"))
    return _git("rev-parse", "HEAD"), datetime.fromtimestamp(seconds, UTC)


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607  # on PATH
    if done.returncode != 0:
        raise ReleaseError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


# --- what is in it ----------------------------------------------------------------------------------------


def needs(name: str, extras: frozenset[str] = frozenset()) -> Mapping[str, Distribution]:
    """Every package that an installation has, as resolved in this environment, by its name.

    Raises:
        ReleaseError: One of them is not installed here.
    """
    found: dict[str, Distribution] = {}
    queue = [(name, extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while queue:
        key = queue.pop()
        if key in seen:
            continue
        seen.add(key)
        try:
            package = distribution(key[0])
        except PackageNotFoundError as error:
            raise ReleaseError(f"{error} is not installed; `make release` installs it") from None
        found[_plain(key[0])] = package
        queue += _requirements(package, key[1])
    return found


def _requirements(package: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for line in package.requires or ():
        need = Requirement(line)
        wanted = [{"extra": extra} for extra in ("", *extras)]
        if need.marker is None or any(need.marker.evaluate(one) for one in wanted):
            yield _plain(need.name), frozenset(need.extras)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def bill_of_materials(digests: Mapping[str, str], moment: datetime) -> Mapping[str, Any]:
    """What an installation of the wheel without extras consists of: CycloneDX 1.6."""
    packages = needs("maitred")
    own = packages["maitred"]
    references = {name: f"pkg:pypi/{name}@{package.version}" for name, package in packages.items()}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, ' '.join(sorted(digests.values())))}",
        "version": 1,
        "metadata": {
            "timestamp": moment.isoformat().replace("+00:00", "Z"),
            "component": {
                "type": "application", "bom-ref": references["maitred"], "name": "maitred",
                "version": own.version, "licenses": _licences(own),
                "components": [
                    {"type": "file", "bom-ref": file, "name": file, "hashes": _hashes(digest)}
                    for file, digest in digests.items()
                ],
            },
        },
        "components": [
            {
                "type": "library", "bom-ref": references[name], "name": package.metadata["Name"],
                "version": package.version, "purl": references[name], "licenses": _licences(package),
            }
            for name, package in sorted(packages.items()) if name != "maitred"
        ],
        "dependencies": [
            {"ref": references[name], "dependsOn": _direct(package, references)}
            for name, package in sorted(packages.items())
        ],
    }  # fmt: skip


def _direct(package: Distribution, references: Mapping[str, str]) -> Sequence[str]:
    return sorted({references[name] for name, _ in _requirements(package, frozenset()) if name in references})


def _hashes(digest: str) -> Sequence[Mapping[str, str]]:
    return [{"alg": "SHA-256", "content": digest}]


def _licences(package: Distribution) -> list[Mapping[str, Any]]:
    """As the package says: an SPDX expression, or a text of its own."""
    if expression := _field(package, "License-Expression"):
        return [{"expression": expression}]
    text = _field(package, "License").strip().partition("\n")[0]
    lines = package.metadata.get_all("Classifier") or []
    classes = [line.rpartition(" :: ")[2] for line in lines if line.startswith("License ::")]
    name = text or " or ".join(classes)
    return [{"license": {"name": name}}] if name else []


def _field(package: Distribution, name: str) -> str:
    values = package.metadata.get_all(name) or [""]
    return str(values[0])


def provenance(
    digests: Mapping[str, str], commit: str, moment: datetime, *, builder: str
) -> Mapping[str, Any]:
    """How the files were made: an in-toto statement of SLSA, to be signed by who publishes."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"command": "make release"},
                "internalParameters": {
                    "SOURCE_DATE_EPOCH": str(int(moment.timestamp())),
                    "python": platform.python_version(),
                },
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    *(
                        {"uri": f"pkg:pypi/{name}@{package.version}"}
                        for name, package in sorted(needs("hatchling").items())
                    ),
                ],
            },
            "runDetails": {"builder": {"id": builder}, "metadata": {"invocationId": commit}},
        },
    }


def _write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
