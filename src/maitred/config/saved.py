"""The section `chains` of a configuration: which chains are saved, in which files, and reviewed as what.

Here stand names, files and hashes only; what is in the files is read where chains are run. To the gateway
they are one more server, whose specification changes when any of them is reviewed again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from maitred.config.settings import SAVED, SavedEntry
from maitred.model.servers import ServerSpec, Timeouts

_DEFAULT = Timeouts()


@dataclass(frozen=True, kw_only=True)
class SavedFile:
    """A saved chain: its name, its file, and the hash that it had when it was reviewed."""

    name: str
    hash: str
    file: str


def saved_spec(source: Path, chains: Mapping[str, SavedEntry], timeouts: Timeouts = _DEFAULT) -> ServerSpec:
    """The specification of the server whose tools are these chains; files count from the configuration's."""
    words = [word for name, entry in chains.items() for word in (name, entry.hash, entry.file)]
    folder = str(source.absolute().parent)
    return ServerSpec(name=SAVED, transport="chain", args=tuple(words), cwd=folder, timeouts=timeouts)


def files_of(spec: ServerSpec) -> Sequence[SavedFile]:
    """What `saved_spec` was made from."""
    words = spec.args
    triples = zip(words[::3], words[1::3], words[2::3], strict=True)
    return [SavedFile(name=name, hash=digest, file=file) for name, digest, file in triples]
