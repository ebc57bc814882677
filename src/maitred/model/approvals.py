"""The log of approvals as values: what an approval is bound to, and what happened.

`maitred.admission.approval` derives the state from a log; `maitred.admission.registry` stores it.
"""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["refuse", "ask", "warn"]
"""The severity of a finding: the server cannot register, a person decides, or it only informs."""

EventKind = Literal[
    "registered",
    "auto_approved",
    "approved",
    "part_approved",
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
    """The subject of a decision: the hashes of the manifest, the image, and all that the server publishes.

    `image` is empty for a server that is not a container, `definition` until the gateway has asked the
    server. An image without a digest in its manifest is here by its name alone until its first start. After
    that it has its identity too: see `image_with_identity`.
    """

    manifest: str = ""
    image: str = ""
    definition: str = ""


def image_with_identity(name: str, identity: str) -> str:
    """Return the bound form of an image without a digest, after its identity is known.

    `identity` is a hash of its content, by which the engine knows it.
    """
    return f"{name}@{identity}"


def name_and_identity(image: str) -> tuple[str, str]:
    """Split the result of `image_with_identity` into its two parts; the second is empty for any other image.

    A name with a digest of its own has no tag, which distinguishes the two.
    """
    name, _, identity = image.rpartition("@")
    return (name, identity) if ":" in name.rpartition("/")[2] else (image, "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One event of a registered server.

    `registered` and the decisions carry the whole binding of their subject, the changes the new hash;
    suspended, resumed and withdrawn carry none. The definition of `part_approved` has some parts as they
    are now, and all others as they were approved. `who` is a principal, `why` its words, `at` a UTC time.
    """

    kind: EventKind
    binding: Binding = Binding()
    who: str = ""
    why: str = ""
    at: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Registration:
    """A server's registration: its normalised manifest, the source of that, and the record of the checks.

    `manifest` and `record` (the findings of each security check) are JSON texts that only admission reads.
    """

    server: str
    manifest: str
    manifest_hash: str
    source: str = ""
    who: str = ""
    at: str = ""
    record: str = "{}"
