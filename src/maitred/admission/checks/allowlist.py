"""Whether the operator trusts what would run: an image, a program with its arguments, or a host.

    image       by tag            by digest
    listed      asked             approved
    trusted     approved, warned  approved
    otherwise   asked             approved if the digest itself is trusted, else asked

The layers after this one check a listed image, too. A program that runs another program is refused, since the
list would be about the wrong program.
"""

import re
from collections.abc import Iterator, Sequence
from typing import assert_never

from maitred.admission.addresses import parse_host, parse_url, why_forbidden
from maitred.admission.checks.base import LayerCheck, Policy
from maitred.admission.findings import Finding, unknown_transport
from maitred.admission.image_names import Image, parse_command_pattern, parse_image, parse_image_pattern
from maitred.admission.inline_code import SHELLS, code_at, code_at_of_image, program
from maitred.admission.manifest import Manifest
from maitred.model.transports import manifest_reach, transport_kind

_WRAPPERS = frozenset({
    "env", "xargs", "nohup", "nice", "ionice", "setsid", "timeout", "script", "time", "watch", "stdbuf",
    "exec", "eval", "unshare", "nsenter", "chroot", "flock", "ssh", "start", "parallel", "ld.so",
})  # fmt: skip
_RAISERS = frozenset({
    "sudo", "doas", "su", "pkexec", "runuser", "setpriv", "run0",
})  # fmt: skip
_ENGINES = frozenset({
    "docker", "podman", "nerdctl", "ctr", "crictl", "kubectl", "lxc", "runc", "crun", "buildah",
})  # fmt: skip
STEERING = re.compile(
    r"PATH|IFS|SHELL|LD_.*|DYLD_.*|GCONV_PATH|BASH_ENV|ENV|PROMPT_COMMAND|PYTHON(PATH|HOME|STARTUP|INSPECT|USERBASE)"
    r"|NODE_(OPTIONS|PATH)|PERL5?(LIB|OPT|5LIB|5OPT)|RUBY(OPT|LIB)|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS"
    r"|GIT_(SSH|SSH_COMMAND|EXEC_PATH|ASKPASS|EXTERNAL_DIFF|CONFIG.*)|(HTTPS?|ALL)_PROXY|SSL_CERT_(FILE|DIR)"
    r"|NODE_EXTRA_CA_CERTS|NODE_TLS_REJECT_UNAUTHORIZED|REQUESTS_CA_BUNDLE|NPM_CONFIG_.*|PIP_.*|UV_.*",
    re.IGNORECASE,
)
"""The names of variables that decide which other code is loaded, or from where."""
_BY_HAND = "a person with the admin role may approve it"


class AllowlistCheck(LayerCheck):
    """Asks a person about what the policy does not list, and refuses programs that run another program."""

    layer = "allowlist"

    def check(self, manifest: Manifest, policy: Policy) -> Sequence[Finding]:
        """Findings about the image, the command or the host, whichever the transport has."""
        match manifest_reach(manifest.transport):
            case "image":
                inline = self._inline(code_at_of_image(manifest.args))
                return [*self._image(manifest, policy), *inline, *self._environment(manifest)]
            case "network":
                return list(self._host(manifest, policy))
            case "program":
                return [*self._command(manifest, policy), *self._environment(manifest)]
            case "internal" | None:
                return [unknown_transport(self.layer, manifest.transport)]
            case unknown:
                assert_never(unknown)

    def _image(self, manifest: Manifest, policy: Policy) -> Iterator[Finding]:
        if not manifest.image:
            return
        try:
            image = parse_image(manifest.image)
        except ValueError as error:
            yield self._finding("refuse", "image", str(error), "write it like ghcr.io/acme/tool:1.2")
            return
        trusted = any(parse_image_pattern(one).matches(image) for one in policy.trusted_images)
        listed = any(parse_image_pattern(one).matches(image) for one in policy.images)
        address = parse_host(image.registry.partition(":")[0]).address
        if address is not None and not (trusted or listed) and (what := why_forbidden(address)):
            yield self._finding("refuse", "image", f"comes from {what}", "write the name of a registry")
        yield from self._standing(image, policy, listed=listed, trusted=trusted)

    def _standing(self, image: Image, policy: Policy, *, listed: bool, trusted: bool) -> Iterator[Finding]:
        pin = "pin it with @sha256:..."
        if image.digest in policy.trusted_digests or (image.digest and (listed or trusted)):
            return
        if trusted:
            reason = f"the tag {image.tag!r} may mean another image tomorrow"
            yield self._finding("warn", "image", reason, pin)
        elif listed:
            yield self._finding(
                "ask", "image", "is listed, but by tag and not by digest", f"{pin}, or {_BY_HAND}"
            )
        else:
            yield self._finding("ask", "image", "is not on the list of images", _BY_HAND)

    def _host(self, manifest: Manifest, policy: Policy) -> Iterator[Finding]:
        target = parse_url(manifest.url, transport_kind(manifest.transport).url_schemes)
        listed = any(fits_host(pattern, target.host.name) for pattern in policy.trusted_hosts)
        if manifest.url and not target.fault and not listed:
            yield self._finding("ask", "url", "its host is not on the list of hosts", _BY_HAND)

    def _command(self, manifest: Manifest, policy: Policy) -> Iterator[Finding]:
        command = manifest.command
        if not command:
            return
        if refused := _refused(command):
            yield self._finding("refuse", "command", *refused)
            return
        words = (command, *manifest.args)
        code = code_at(words)
        trusted = [
            p
            for p in map(parse_command_pattern, policy.trusted_commands)
            if p.matches(command, manifest.args)
        ]
        if any((one.command, *one.args) == words for one in trusted):  # the very code is listed
            return
        yield from self._inline(None if code is None else code - 1)
        if not trusted:
            yield self._finding(
                "ask", "command", "this command line is not on the list of commands", _BY_HAND
            )

    def _inline(self, at: int | None) -> Iterator[Finding]:
        """Findings about code in an argument; a policy that lists the program does not know the code."""
        if at is not None:
            fix = f"name a program that is installed; {_BY_HAND}"
            yield self._finding("ask", f"args[{at}]", "runs code that its arguments contain", fix)

    def _environment(self, manifest: Manifest) -> Iterator[Finding]:
        for name in manifest.env:
            if STEERING.fullmatch(name):
                yield self._finding(
                    "ask", f"env.{name}", "controls which other code is loaded, or from where", _BY_HAND
                )


def fits_host(pattern: str, host: str) -> bool:
    """Whether a host matches a pattern; a leading `*.` stands for exactly one more label."""
    pattern = pattern.lower()
    if pattern.startswith("*."):
        first, _, rest = host.partition(".")
        return bool(first) and rest == pattern[2:]
    return host == pattern


def _refused(command: str) -> tuple[str, str] | None:
    """Why a program cannot be one that a manifest starts, and what to do instead."""
    folders = command.replace("\\", "/").split("/")
    is_drive = len(folders[0]) == 2 and folders[0][1] == ":"  # noqa: PLR2004 - as in C:
    if len(folders) > 1 and ((folders[0] and not is_drive) or ".." in folders or "." in folders):
        return "is a relative path, or contains `.` or `..`", "write the absolute path, or the name alone"
    if len(folders) == 1 and re.search(r"\s", command):
        return "contains white space", "give the program alone; its arguments belong into `args`"
    name = program(command)
    if name in SHELLS or name in _WRAPPERS or name.startswith("ld-linux"):
        return f"{name!r} runs another program, which no layer would check", "name that program itself"
    if name in _RAISERS:
        return f"{name!r} runs a program with the rights of another user", "name the program itself"
    if name in _ENGINES:
        return f"{name!r} starts containers without any limit", "use `image` instead of `command`"
    return None
