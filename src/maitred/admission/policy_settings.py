"""Turn the section `admission` of the settings into the policy of the layers."""

from dataclasses import asdict
from typing import Final

from maitred.admission.checks.base import Bounds, Exemption, Policy
from maitred.config.settings import Admission

_PATTERNS: Final = (
    "images",
    "trusted_images",
    "trusted_digests",
    "trusted_commands",
    "trusted_hosts",
    "references",
    "secret_folders",
    "readable",
    "writable",
)


def policy_of(section: Admission) -> Policy:
    """The operator's policy.

    Raises:
        ValueError: A pattern or a network is invalid; the text names all.
    """
    return Policy(
        **{name: getattr(section, name) for name in _PATTERNS},
        exemptions={name: Exemption(**asdict(entry)) for name, entry in section.exemptions.items()},
        bounds=Bounds(
            memory_bytes=section.max_memory,
            nano_cpus=round(section.max_cpus * 1e9),
            cpu_shares=section.max_cpu_shares,
            pids=section.max_pids,
            output_bytes_s=section.max_output,
        ),
    )
