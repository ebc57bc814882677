"""What the log of approvals consists of, as values: what an approval is bound to, and what happened.

`maitred.admission.approval` says what follows from a log; `maitred.admission.registry` keeps it.
"""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["refuse", "ask", "warn"]
"""How grave a finding is: the server cannot register, a person decides, or it is shown alone."""

EventKind = Literal[
    "registered",
    "auto_approved",
    "approved",
    "rejected",
    "suspended",
    "resumed",
    "definition_changed",
    "manifest_changed",
    "image_changed",
    "withdrawn",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """What somebody decides on: the hashes of the manifest, the image, and all that the server publishes.

    `image` is empty for a server that is no container, `definition` while the server was never asked. An
    image that its manifest names without a digest is here by its name alone until it was first started, and
    then with what told it apart: see `identified`.
    """

    manifest: str = ""
    image: str = ""
    definition: str = ""


def identified(name: str, identity: str) -> str:
    """An image that is named without a digest, as it is bound once it is known which one that is.

    `identity` is a hash of its content, by which the engine knows it.
    """
    return f"{name}@{identity}"


def name_and_identity(image: str) -> tuple[str, str]:
    """The two parts of what `identified` made; the second is empty where that made it not.

    A name that holds a digest itself has no tag, by which the two are told apart.
    """
    name, _, identity = image.rpartition("@")
    return (name, identity) if ":" in name.rpartition("/")[2] else (image, "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One thing that happened to a registered server.

    `registered` and the decisions carry the whole binding that they are about, the changes the hash that is
    new; suspended, resumed and withdrawn carry none. `who` is a principal, `why` its words, `at` a UTC time.
    """

    kind: EventKind
    binding: Binding = Binding()
    who: str = ""
    why: str = ""
    at: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Registration:
    """A server as it was registered: its normalised manifest, where that came from, and what was found.

    `manifest` and `record` (what each security check found) are JSON texts that only admission reads.
    """

    server: str
    manifest: str
    manifest_hash: str
    source: str = ""
    who: str = ""
    at: str = ""
    record: str = "{}"
