"""The filter that Podman is handed refuses more than its own; what it refuses is tried in a container."""

from maitred.backends.isolation.seccomp import narrow_profile

PROFILE = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}],
    "syscalls": [
        {"names": ["read", "clone", "clone3", "unshare", "keyctl"], "action": "SCMP_ACT_ALLOW"},
        {"names": ["setns"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
        {"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": []},
    ],
}


def test_no_call_that_is_refused_is_allowed_elsewhere() -> None:
    """Also not under a condition; all else is as it was."""
    found = narrow_profile(PROFILE)
    allowed = [rule for rule in found["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW"]
    freely = {name for rule in allowed if not rule.get("args") for name in rule["names"]}

    assert freely == {"read"}
    assert found["defaultAction"] == "SCMP_ACT_ERRNO"
    assert found["archMap"] == [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []}]


def test_processes_and_usual_sockets_are_left() -> None:
    """By their arguments: no flag that makes a namespace, and four families."""
    rules = narrow_profile(PROFILE)["syscalls"]
    (clone,) = [
        rule["args"] for rule in rules if rule["names"] == ["clone"] and "arches" in rule.get("excludes", {})
    ]
    families = {rule["args"][0]["value"] for rule in rules if rule["names"] == ["socket"]}

    assert clone == [{"index": 0, "value": 0x7E020000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]
    assert families == {1, 2, 10, 16}
