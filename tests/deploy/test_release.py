"""`make release`: the files of a release, what is in them, and that they can be checked."""

import hashlib
import importlib.util
import json
import re
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.files import DEPLOY

from maitred import __version__

_SPEC = importlib.util.spec_from_file_location("release", DEPLOY / "release.py")
assert _SPEC is not None
assert _SPEC.loader is not None
release = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(release)
PROJECT = tomllib.loads((release.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BUILDER = "https://builder.example/1"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """All files of one release."""
    folder = tmp_path_factory.mktemp("release") / "dist"
    made = release.make_release(folder, builder=BUILDER, allows_changes=True)
    return {path.name: path.read_bytes() for path in made}


def test_the_digests_are_those_of_all_other_files(files: Mapping[str, bytes]) -> None:
    """In the form that `sha256sum --check` reads."""
    lines = {
        name: digest
        for digest, name in (line.split("  ") for line in files["SHA256SUMS"].decode().splitlines())
    }

    assert lines == {
        name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != "SHA256SUMS"
    }
    assert {f"maitred-{__version__}-py3-none-any.whl", f"maitred-{__version__}.tar.gz"} < files.keys()


def test_the_bill_of_materials_has_every_package_with_its_licence(files: Mapping[str, bytes]) -> None:
    """All that an installation without extras has, and what needs it; not the packages of the tests."""
    bill: dict[str, Any] = json.loads(files["sbom.cdx.json"])
    names = {one["name"].lower().replace("_", "-") for one in bill["components"]}
    direct = {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for line in PROJECT["dependencies"]}
    references = {one["bom-ref"] for one in bill["components"]} | {f"pkg:pypi/maitred@{__version__}"}

    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert direct <= names
    assert not names & {"pytest", "mypy", "ruff", "maitred", "openai", "docker"}
    assert [one["name"] for one in bill["components"] if not one["licenses"]] == []
    assert {one["ref"] for one in bill["dependencies"]} == references
    assert all(set(one["dependsOn"]) <= references for one in bill["dependencies"])


def test_the_provenance_names_the_source_the_builder_and_the_files(files: Mapping[str, bytes]) -> None:
    """A statement of in-toto with the predicate of SLSA; it is signed elsewhere."""
    statement: dict[str, Any] = json.loads(files["provenance.intoto.json"])
    definition = statement["predicate"]["buildDefinition"]
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=release.ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()

    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["predicate"]["runDetails"]["builder"]["id"] == BUILDER
    assert {"name": "source", "digest": {"gitCommit": commit}} in definition["resolvedDependencies"]
    for subject in statement["subject"]:
        assert subject["digest"]["sha256"] == hashlib.sha256(files[subject["name"]]).hexdigest()
    assert len(statement["subject"]) == 2


def test_what_is_not_committed_is_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is a release mixed with an earlier one."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    for words in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *words], cwd=checkout, check=True)
    (checkout / "changed").write_text("x", encoding="utf-8")
    monkeypatch.setattr(release, "ROOT", checkout)
    old = tmp_path / "old"
    old.mkdir()
    (old / "file").touch()

    assert release.main(["--out", str(tmp_path / "new")]) == 2
    assert "changes that are not committed" in capsys.readouterr().err
    assert release.main(["--out", str(old)]) == 2
    assert "has files" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
