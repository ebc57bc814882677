"""An MCP server that tries to get out of whatever it runs in, and says how far it came.

It needs Python's standard library only, so it runs in any cage: `python3 probe_server.py`. It speaks JSON-RPC
on its standard streams, one line a message, in the handshake era (`initialize`, `ping`, `tools/list`,
`tools/call`); one request after the other. With `--banner TEXT` it first writes TEXT to standard error.

Every tool answers with one text, a JSON object: `{"ok": true, ...}` if what it tried worked, and otherwise
`{"ok": false, "error": "ENETUNREACH", "said": "..."}`, where `error` is the name of the errno, or the kind
of the exception where there is none.

  hello                          pid, ppid, uid, gid, groups, cwd, python
  read      path                 `text`: the first 2000 characters of a file
  list      path                 `names`: what is in a folder, at most 500, sorted
  write     path, bytes=1        writes that much into a new file; `written`: how much of it was, in any case
  remove    path                 removes a file
  environment                    `variables`: its whole environment
  processes                      `processes`: {pid: command line} of all that /proc shows
  status                         `status`: CapEff, CapBnd, NoNewPrivs, Seccomp, ... of /proc/self/status
  interfaces                     `names` of the network interfaces
  connect   host, port           opens a TCP connection (2 s at most)
  datagram  host, port           sends one UDP packet
  resolve   host                 `addresses` of a name by DNS
  unix      path                 connects to a Unix socket; a leading @ means an abstract one
  fork      number               starts that many processes that wait, and ends them; `started`: how many
  memory    bytes                takes and touches that much memory, and gives it back; `taken`
  spin      seconds, processes=1 burns CPU in so many processes; `cpu_s` used, `wall_s` gone by
  flood     bytes, stream="stdout" | "stderr" | "noise", line=200
                                 writes that many bytes of lines; on stdout they are notifications
                                 (`notifications/message`), noise is what means nothing there;
                                 `wall_s` it took
  blob      bytes                answers with `data`, a text that long
  namespace kind="user"          makes a namespace of its own (user, pid, net, mnt, ipc, uts)
  mount     path                 mounts a tmpfs there
  setuid                         becomes root by setuid(0)
  mode      path, mode, at_once=false
                                 makes a file with a mode, by chmod or as it is made
  run       argv                 runs a program (10 s at most); `code`, `output` (both streams, 2000 char.)
  kill      pid, signal=9        sends a signal
  keys                           asks for the keyring of its session; any error but EPERM means it has one
  family    number               makes a socket of a family
  ptrace    pid                  begins to trace a process
  stray                          starts a process in a session of its own that ignores SIGTERM and has cleared
                                 its environment, and leaves it running; `pid`
  sleep     seconds              answers after a while
  exit      code=0               ends, without an answer, having written `leaving with CODE` to standard error
  die       signal=9             sends itself a signal, without an answer
  hang                           answers nothing any more, and reads nothing
"""

import contextlib
import ctypes
import errno
import json
import mmap
import os
import pathlib
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

Answer = dict[str, Any]
_TOOLS: dict[str, Callable[..., Answer]] = {}
_KINDS = {"user": 0x10000000, "pid": 0x20000000, "net": 0x40000000, "mnt": 0x20000, "ipc": 0x8000000}
_KINDS["uts"] = 0x4000000
_KEYCTL = 219 if os.uname().machine == "aarch64" else 250
_PTRACE_ATTACH = 16
_ZEROES = b"\0" * 65_536


def tool(function: Callable[..., Answer]) -> Callable[..., Answer]:
    _TOOLS[function.__name__.rstrip("_")] = function
    return function


# --- what it can see --------------------------------------------------------------------------------------


@tool
def hello() -> Answer:
    who = {"uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(), "pid": os.getpid()}
    return who | {"ppid": os.getppid(), "cwd": str(pathlib.Path.cwd()), "python": sys.version}


@tool
def read(path: str) -> Answer:
    with pathlib.Path(path).open(encoding="utf-8", errors="replace") as file:
        return {"text": file.read(2000)}


@tool
def list_(path: str) -> Answer:
    return {"names": sorted(one.name for one in pathlib.Path(path).iterdir())[:500]}


@tool
def environment() -> Answer:
    return {"variables": dict(os.environ)}


@tool
def processes() -> Answer:
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found[entry.name] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return {"processes": found}


@tool
def status() -> Answer:
    lines = pathlib.Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return {"status": {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}}


# --- the network ------------------------------------------------------------------------------------------


@tool
def interfaces() -> Answer:
    return {"names": [name for _, name in socket.if_nameindex()]}


@tool
def connect(host: str, port: int) -> Answer:
    socket.create_connection((host, port), timeout=2).close()
    return {}


@tool
def datagram(host: str, port: int) -> Answer:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        return {"sent": sender.sendto(b"probe", (host, port))}


@tool
def resolve(host: str) -> Answer:
    return {"addresses": sorted({str(found[4][0]) for found in socket.getaddrinfo(host, 443)})}


@tool
def unix(path: str) -> Answer:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(2)
        caller.connect("\0" + path[1:] if path.startswith("@") else path)
    return {}


# --- what it can use up -----------------------------------------------------------------------------------


@tool
def write(path: str, bytes: int = 1) -> Answer:  # noqa: A002  # the name of the argument in JSON
    written = 0
    try:
        with pathlib.Path(path).open("xb", buffering=0) as file:
            while written < bytes:
                written += file.write(_ZEROES[: bytes - written])
    except OSError as error:
        return _failed(error) | {"written": written}
    return {"written": written}


@tool
def remove(path: str) -> Answer:
    pathlib.Path(path).unlink()
    return {}


@tool
def fork(number: int) -> Answer:
    children: list[int] = []
    failed: Answer = {}
    try:
        for _ in range(number):
            if (pid := os.fork()) == 0:
                signal.pause()
                os._exit(0)
            children.append(pid)
    except OSError as error:
        failed = _failed(error)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return failed | {"started": len(children)}


@tool
def memory(bytes: int) -> Answer:  # noqa: A002
    with mmap.mmap(-1, bytes) as taken:
        for offset in range(0, bytes, mmap.PAGESIZE):
            taken[offset] = 1
    return {"taken": bytes}


@tool
def spin(seconds: float, processes: int = 1) -> Answer:
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    children: list[int] = []
    while len(children) < processes and 0 not in children:
        children.append(os.fork())
    if 0 in children:
        while time.monotonic() < started + seconds:
            pass
        os._exit(0)
    for pid in children:
        os.waitpid(pid, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_s": round(used, 3), "wall_s": round(time.monotonic() - started, 3)}


@tool
def flood(bytes: int, stream: str = "stdout", line: int = 200) -> Answer:  # noqa: A002
    started = time.monotonic()
    text = "x" * max(1, line - 90)
    params = {"level": "debug", "data": text}
    message = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    one = (json.dumps(message) + "\n") if stream == "stdout" else "x" * (line - 1) + "\n"
    out: TextIO = sys.stderr if stream == "stderr" else sys.stdout
    out.writelines(one for _ in range(max(1, bytes // len(one))))
    out.flush()
    return {"wall_s": round(time.monotonic() - started, 3)}


@tool
def blob(bytes: int) -> Answer:  # noqa: A002
    return {"data": "b" * bytes}


# --- what it can become -----------------------------------------------------------------------------------


def _libc(call: str, *args: Any) -> Answer:
    if getattr(ctypes.CDLL(None, use_errno=True), call)(*args) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return {}


@tool
def namespace(kind: str = "user") -> Answer:
    if (pid := os.fork()) == 0:  # a child of its own: whoever succeeds must not change what comes after
        try:
            _libc("unshare", _KINDS[kind])
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 255)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {} if code == 0 else _failed(OSError(code, os.strerror(code)))


@tool
def mount(path: str) -> Answer:
    return _libc("mount", b"probe", path.encode(), b"tmpfs", 0, None)


@tool
def mode(path: str, mode: int, at_once: bool = False) -> Answer:  # JSON
    os.umask(0)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode if at_once else 0o600))
    os.chmod(path, mode)  # noqa: PTH101
    return {}


@tool
def setuid() -> Answer:
    os.setuid(0)
    return {"uid": os.getuid()}


@tool
def run(argv: list[str]) -> Answer:
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=10,
        check=False,
    )
    return {"ok": done.returncode == 0, "code": done.returncode, "output": done.stdout.decode()[:2000]}


@tool
def kill(pid: int, signal: int = 9) -> Answer:
    os.kill(pid, signal)
    return {}


@tool
def keys() -> Answer:
    return _libc("syscall", _KEYCTL, 0, -3, 0)


@tool
def family(number: int) -> Answer:
    socket.socket(number, socket.SOCK_STREAM).close()
    return {}


@tool
def ptrace(pid: int) -> Answer:
    return _libc("ptrace", _PTRACE_ATTACH, pid, None, None)


@tool
def stray() -> Answer:
    code = "from signal import *; signal(15, SIG_IGN); print(flush=True); pause()"
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert child.stdout is not None
    child.stdout.readline()  # it ignores the signal from now on
    return {"pid": child.pid}


# --- how it can end ---------------------------------------------------------------------------------------


@tool
def sleep(seconds: float) -> Answer:
    time.sleep(seconds)
    return {}


@tool
def exit_(code: int = 0) -> Answer:
    sys.stderr.write(f"leaving with {code}\n")
    sys.stderr.flush()
    os._exit(code)


@tool
def die(signal: int = 9) -> Answer:
    os.kill(os.getpid(), signal)
    return {}


@tool
def hang() -> Answer:
    while True:
        select.select([], [], [], 3600)


# --- the protocol -----------------------------------------------------------------------------------------


def _failed(error: BaseException) -> Answer:
    number = error.errno if isinstance(error, OSError) and not isinstance(error, socket.gaierror) else None
    kind = errno.errorcode.get(number, str(number)) if number else type(error).__name__
    return {"ok": False, "error": kind, "said": str(error)[:500]}


def _call(params: Answer) -> Answer:
    try:
        answer = {"ok": True} | _TOOLS[params["name"]](**params.get("arguments") or {})
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the answer
        answer = _failed(error)
    return {"content": [{"type": "text", "text": json.dumps(answer)}]}


def _answer(method: str, params: Answer) -> Answer | None:
    match method:
        case "initialize":
            info = {"name": "probe", "version": "1.0.0"}
            version = params.get("protocolVersion", "2025-06-18")
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "ping":
            return {}
        case "tools/list":
            schema = {"type": "object"}
            told = {"description": "Tries it.", "inputSchema": schema}
            return {"tools": [{"name": name, **told} for name in _TOOLS]}
        case "tools/call":
            return _call(params)
    return None


def main() -> None:
    if "--banner" in sys.argv:
        sys.stderr.write(sys.argv[sys.argv.index("--banner") + 1] + "\n")
        sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = _answer(message["method"], message.get("params") or {})
        reply: Answer = {"jsonrpc": "2.0", "id": message["id"]}
        reply |= (
            {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        )
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
