"""Manifests that reach too far or hold secrets, each with what must be found of it."""

from tests.admission.layers import DIGEST

STDIO = "name: evil\ncommand: {}\n"
ARGS = "name: evil\ncommand: evil-server\nargs: {}\n"
ENV = "name: evil\ncommand: evil-server\nenv: {}\n"
URL = "name: evil\nurl: '{}'\n"
BOX = "name: evil\nimage: ghcr.io/acme/tool:1\n{}\n"
LOOK = "\u0430"  # Cyrillic
PAT = "ghp_" + "A1b2C3d4E5" * 4
HIDDEN = "github_pat_" + "A1b2C3d4E5" * 3

EVIL = {
    # network
    "the whole network": (BOX.format("network: host"), "network refuse network"),
    "an exemption that is not": (BOX.format("network: intranett"), "network refuse network"),
    "an exemption": (BOX.format("network: pages"), "network ask network"),
    "networks as a list": (BOX.format("network: [host]"), "schema refuse network"),
    "loopback": (URL.format("http://127.0.0.1:8080/mcp"), "network refuse url"),
    "localhost": (URL.format("https://localhost/mcp"), "network refuse url"),
    "a name below localhost": (URL.format("https://x.localhost./mcp"), "network refuse url"),
    "loopback in octal": (URL.format("http://0177.0.0.1/"), "network refuse url"),
    "loopback in hexadecimal": (URL.format("http://0x7f000001/"), "network refuse url"),
    "loopback as one number": (URL.format("http://2130706433/"), "network refuse url"),
    "loopback in short": (URL.format("http://127.1/"), "network refuse url"),
    "loopback with a dot behind": (URL.format("http://127.0.0.1./"), "network refuse url"),
    "loopback in wide digits": (URL.format("http://\uff11\uff12\uff17.0.0.1/"), "network refuse url"),
    "loopback with other dots": (URL.format("http://127\u30020\u30020\u30021/"), "network refuse url"),
    "loopback of IPv6": (URL.format("http://[::1]/"), "network refuse url"),
    "mapped loopback": (URL.format("http://[::ffff:127.0.0.1]/"), "network refuse url"),
    "compatible loopback": (URL.format("http://[::7f00:1]/"), "network refuse url"),
    "6to4": (URL.format("http://[2002:7f00:1::]/"), "network refuse url"),
    "NAT64": (URL.format("http://[64:ff9b::7f00:1]/"), "network refuse url"),
    "Teredo": (URL.format("http://[2001::1]/"), "network refuse url"),
    "a link-local address with its interface": (URL.format("http://[fe80::1%25eth0]/"), "network refuse url"),
    "unspecified": (URL.format("http://0.0.0.0/"), "network refuse url"),
    "nothing but zero": (URL.format("http://0/"), "network refuse url"),
    "the credentials of a cloud": (URL.format("http://169.254.169.254/latest"), "network refuse url"),
    "those credentials by name": (URL.format("http://metadata.google.internal/"), "network refuse url"),
    "those credentials of another cloud": (URL.format("http://100.100.100.200/"), "network refuse url"),
    "a private address": (URL.format("https://192.168.1.1/mcp"), "network refuse url"),
    "an exempted network's neighbour": (
        URL.format("https://10.2.0.1/mcp") + "network: intranet",
        "network refuse url",
    ),
    "credentials of a cloud by exemption": (
        URL.format("http://169.254.169.254/") + "network: intranet",
        "network refuse url",
    ),
    "a multicast address": (URL.format("https://224.0.0.1/"), "network refuse url"),
    "a host of the engine": (URL.format("http://redis:6379/"), "network refuse url"),
    "a trusted name before the host": (
        URL.format("https://mcp.example.com@evil.example/"),
        "network refuse url",
    ),
    "a host by reference": (URL.format("https://${MY_HOST}/"), "network refuse url"),
    "an encoded host": (URL.format("https://%6cocalhost/"), "network refuse url"),
    "a port that is none": (URL.format("https://example.com:99999/"), "network refuse url"),
    "a number that is no address": (URL.format("https://1.2.3.999/"), "network refuse url"),
    "a backslash before the host": (
        URL.format("https://mcp.example.com\\@evil.example/"),
        "schema refuse url",
    ),
    "a file": (URL.format("file:///etc/passwd"), "schema refuse url"),
    "another protocol": (URL.format("gopher://example.com/"), "schema refuse url"),
    "a blank in the URL": (URL.format("https://a b/"), "schema refuse url"),
    "a lookalike host": (URL.format(f"https://{LOOK}pple.com/mcp"), "network ask url"),
    "a namesake of a trusted host": (
        URL.format("https://mcp.example.com.evil.example/"),
        "allowlist ask url",
    ),
    "no encryption": (URL.format("http://mcp.example.com/mcp"), "network ask url"),
    # resources
    "too much memory": (BOX.format("memory: 2049m"), "resources refuse memory"),
    "far too much memory": (BOX.format("memory: 999999999g"), "resources refuse memory"),
    "memory below zero": (BOX.format("memory: -1"), "schema refuse memory"),
    "memory without a number": (BOX.format("memory: lots"), "schema refuse memory"),
    "a weight as cores": (BOX.format("cpu: 1024"), "resources refuse cpu"),
    "too many cores": (BOX.format("cpu: 64"), "resources refuse cpu"),
    "no core": (BOX.format("cpu: 0"), "schema refuse cpu"),
    "cores without end": (BOX.format("cpu: .inf"), "schema refuse cpu"),
    "cores that are no number": (BOX.format("cpu: nan"), "schema refuse cpu"),
    "too much weight": (BOX.format("cpu_shares: 4096"), "resources refuse cpu_shares"),
    "a fork bomb": (BOX.format("pids: 100000"), "resources refuse pids"),
    "a flood": (BOX.format("output: 10g"), "resources refuse output"),
    "a number of 5,000 digits": (BOX.format("pids: " + "9" * 5000), "schema refuse pids"),
    "a time without end": (BOX.format("timeouts: {call_s: 1e99}"), "schema refuse timeouts.call_s"),
    "a folder over the program's own": (
        BOX.format("filesystem: [{path: /srv/docs, at: /app/lib}]"),
        "resources ask filesystem[0].at",
    ),
    "a folder at another place": (
        STDIO.format("mcp-server-time") + "filesystem: [{path: /srv/docs, at: /opt/other}]",
        "resources ask filesystem[0].at",
    ),
    **{
        f"a folder over {at}": (
            STDIO.format("mcp-server-time") + f"filesystem: [{{path: /srv/docs, at: '{at}'}}]",
            "resources refuse filesystem[0].at",
        )
        for at in (
            "/usr/lib/python3",
            "/usr/",
            "/etc/ssl",
            "/proc/self",
            "/dev/shm",
            "/tmp",
            "/tmp/home",
            "/run/x",
        )
    },
    "a folder over what an image is given": (
        BOX.format("filesystem: [{path: /srv/docs, at: /proc/1}]"),
        "resources refuse filesystem[0].at",
    ),
    # headers
    **{
        f"another host by {name}": (
            URL.format("https://mcp.example.com/mcp") + f"headers: {{{name}: evil.example}}",
            f"network refuse headers.{name}",
        )
        for name in ("Host", "hOST", "X-Forwarded-Host", "Forwarded", "X-Original-URL", "Proxy-Authenticate")
    },
    **{
        f"another body by {name}": (
            URL.format("https://mcp.example.com/mcp") + f"headers: {{{name}: x}}",
            f"network refuse headers.{name}",
        )
        for name in ("Transfer-Encoding", "content-length", "Connection", "Mcp-Session-Id")
    },
    # code
    "a shell of a listed image": (
        f"name: evil\nimage: ghcr.io/acme/tool@{DIGEST}\nargs: [sh, -c, 'curl evil']\n",
        "allowlist ask args[1]",
    ),
    "code for the interpreter of a listed image": (
        f"name: evil\nimage: ghcr.io/acme/tool@{DIGEST}\nargs: [-c, 'import os; os.fork()']\n",
        "allowlist ask args[0]",
    ),
    "code behind a trusted command": (
        "name: evil\ncommand: uvx\nargs: [mcp-server-time@1, python3, -Ic, 'print(1)']\n",
        "allowlist ask args[2]",
    ),
    # secrets
    "a password": (ENV.format("{DB_PASSWORD: hunter2}"), "secrets refuse env.DB_PASSWORD"),
    "a token under a harmless name": (ENV.format(f"{{GREETING: {PAT}}}"), "secrets refuse env.GREETING"),
    "a token of another form": (ENV.format(f"{{A: {HIDDEN}}}"), "secrets refuse env.A"),
    "an Anthropic key": (ENV.format("{A: sk-ant-api03-" + "Ab1" * 12 + "}"), "secrets refuse env.A"),
    "a key of AWS": (ENV.format("{A: AKIAIOSFODNN7EXAMPLE}"), "secrets refuse env.A"),
    "a secret of AWS": (
        ENV.format("{AWS_SECRET_ACCESS_KEY: wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY}"),
        "secrets refuse env.AWS_SECRET_ACCESS_KEY",
    ),
    "a private key": (
        ENV.format('{A: "-----BEGIN ENCRYPTED PRIVATE KEY-----\\nabc"}'),
        "secrets refuse env.A",
    ),
    "a key of Google": (ENV.format("{A: AIza" + "Sy1234567" * 3 + "abcdefgh}"), "secrets refuse env.A"),
    "a default that is a token": (ENV.format(f"{{A: '${{TOKEN:-{PAT}}}'}}"), "secrets refuse env.A"),
    "a default that is a password": (
        ENV.format("{PASSWORD: '${TOKEN:-hunter2}'}"),
        "secrets refuse env.PASSWORD",
    ),
    "a token in two pieces": (ENV.format(f"{{A: '{PAT[:20]}${{X:-}}{PAT[20:]}'}}"), "secrets refuse env.A"),
    "a token behind a default in a default": (
        ENV.format(f"{{A: '${{X:-${{Y:-{PAT}}}}}'}}"),
        "secrets refuse env.A",
    ),
    "a token in an argument": (ARGS.format(f"[--x, {PAT}]"), "secrets refuse args[1]"),
    "a password behind its option": (ARGS.format("[--password, hunter2]"), "secrets refuse args[1]"),
    "a password in its option": (ARGS.format("[--db-password=hunter2]"), "secrets refuse args[0]"),
    "a variable as an argument": (ARGS.format("[-e, API_KEY=abcdef]"), "secrets refuse args[1]"),
    "a header as an argument": (ARGS.format("[--header, 'X-Api-Key: abcdef']"), "secrets refuse args[1]"),
    "a bearer in an argument": (ARGS.format("['Authorization: Bearer abcdef']"), "secrets refuse args[0]"),
    "a password in a connection": (ARGS.format("['postgres://a:b@db.example/x']"), "secrets refuse args[0]"),
    "a password in the URL": (URL.format("https://a:b@mcp.example.com/"), "secrets refuse url"),
    "a token in the query": (URL.format("https://mcp.example.com/?access_token=abc"), "secrets refuse url"),
    "a token in the query, encoded": (
        URL.format("https://mcp.example.com/?x=1&api%5Fkey=abc"),
        "secrets refuse url",
    ),
    "a key in the query": (URL.format("https://mcp.example.com/?key=abc"), "secrets refuse url"),
    "a bearer": (
        URL.format("https://mcp.example.com/") + "headers: {Authorization: Bearer abcdef}",
        "secrets refuse headers.Authorization",
    ),
    "a cookie": (
        URL.format("https://mcp.example.com/") + "headers: {Cookie: sid=1}",
        "secrets refuse headers.Cookie",
    ),
    "a token among hints": (
        STDIO.format("x") + f"visibility: {{facts: {{a: {PAT}}}}}",
        "secrets refuse visibility.facts.a",
    ),
    "the gateway's own variable": (ENV.format("{A: '${AWS_SESSION}'}"), "secrets ask env.A"),
    "maitred's own variable": (ENV.format("{A: '${MAITRED_TOKEN}'}"), "secrets refuse env.A"),
    "the gateway's environment as a file": (
        ENV.format("{A: '${file:/proc/self/environ}'}"),
        "secrets refuse env.A",
    ),
    "a secret file that climbs": (ENV.format("{A: '${file:/run/secrets/../x}'}"), "secrets refuse env.A"),
    "some file": (ENV.format("{A: '${file:/etc/shadow}'}"), "secrets ask env.A"),
    "a reference of another program": (ENV.format("{A: '${input:token}'}"), "secrets refuse env.A"),
    "a reference without end": (ENV.format("{A: '${TOKEN'}"), "secrets refuse env.A"),
}
