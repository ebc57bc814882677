"""Resources of a cluster: each with an address is registered, and its server goes when it is deleted."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from structlog.testing import capture_logs
from tests.support.cluster import Cluster, mcp_server, serving, watch_of
from tests.support.postgres import Postgres
from tests.support.syslog import certificate
from tests.surfaces.cli.rig import runner, write
from tests.telemetry.rig import ANSWER, NoteServer, listening

from maitred.background import Background
from maitred.config.kubernetes_settings import KubernetesSettings
from maitred.config.load import parse
from maitred.config.settings import Admission, Catalog, ExemptionEntry, Settings
from maitred.errors import ConfigError, MaitredError
from maitred.gateway import Gateway
from maitred.model.access import LOCAL_USER, Viewer
from maitred.model.tools import ToolCall
from maitred.surfaces.kubernetes import server_watch
from maitred.surfaces.kubernetes.cluster_api import ClusterApi, describe_cluster
from maitred.surfaces.kubernetes.server_watch import follow_mcp_servers
from maitred.wiring import open_gateway

pytestmark = pytest.mark.anyio

SOON_S = 120.0
NOTES = "http://notes.mcp-servers.svc.cluster.local:8080/mcp"
CLOCK = "http://clock.mcp-servers.svc.cluster.local:8080/mcp"
CLUSTER = {"hosts": ("*.mcp-servers.svc.cluster.local",), "addresses": ("10.0.0.0/8", "127.0.0.0/8")}


def settings_of(cluster: Cluster, folder: Path, *, url: str = "", **watch: Any) -> Settings:
    exemptions = {"cluster": ExemptionEntry(**CLUSTER, reason="ours")}
    return Settings(
        source=folder / "maitred.yaml",
        catalog=Catalog(url=url) if url else Catalog(path=str(folder / "c.db")),
        admission=Admission(exemptions=exemptions),
        kubernetes=KubernetesSettings(watch=watch_of(cluster, folder, network="cluster", **watch)),
    )


@asynccontextmanager
async def watching(settings: Settings) -> AsyncIterator[Gateway]:
    """A gateway that follows the resources."""
    with anyio.fail_after(SOON_S):
        async with open_gateway(settings, serves=True) as gateway, Background() as background:
            background.start(lambda: follow_mcp_servers(gateway, look_s=0.02, again_s=0.05))
            yield gateway


async def states(gateway: Gateway) -> Mapping[str, str]:
    return {case.server: case.state for case in await gateway.cases(LOCAL_USER)}


async def until(gateway: Gateway, fits: Callable[[Mapping[str, str]], bool]) -> None:
    """Wait until the registered servers are as they should be."""
    while not fits(await states(gateway)):  # noqa: ASYNC110  # decisions of this process set no event
        await anyio.sleep(0.01)


async def until_true(fits: Callable[[], bool]) -> None:
    while not fits():  # noqa: ASYNC110  # the cluster tells no one
        await anyio.sleep(0.01)


async def test_resources_become_servers_that_wait_for_a_person_and_go_with_their_resource(
    tmp_path: Path,
) -> None:
    """Those that are there, also on later pages of the list, and those that come."""
    async with serving(Cluster(page=1)) as cluster:
        cluster.put(mcp_server("notes", NOTES), mcp_server("clock", CLOCK), mcp_server("maps"))
        async with watching(settings_of(cluster, tmp_path)) as gateway:
            await until(gateway, lambda now: now == {"notes": "pending", "clock": "pending"})
            case = await gateway.case("notes", viewer=LOCAL_USER)
            cluster.put(mcp_server("maps", NOTES.replace("notes", "maps")))
            await until(gateway, lambda now: now.keys() == {"notes", "clock", "maps"})
            cluster.delete("notes")
            await until(gateway, lambda now: now.keys() == {"clock", "maps"})

    assert (case.source, case.log[0].who) == ("kubernetes:mcp-servers/notes", "kubernetes")
    assert case.manifest["url"] == NOTES
    assert case.manifest["network"] == "cluster"


async def test_an_approved_server_is_called_until_its_resource_is_deleted(tmp_path: Path) -> None:
    """A real server at the address of the resource."""
    async with listening(NoteServer().server) as url, serving(Cluster()) as cluster:
        cluster.put(mcp_server("notes", url))
        async with watching(settings_of(cluster, tmp_path)) as gateway:
            await until(gateway, lambda now: now == {"notes": "pending"})
            await gateway.decide("notes", "approve", viewer=LOCAL_USER)
            assert await gateway.settled(SOON_S)
            call = ToolCall(name="notes__add", arguments={"text": "tea"})
            answer = await gateway.call(call, viewer=LOCAL_USER)
            cluster.delete("notes")
            await until(gateway, lambda now: now == {})
            with pytest.raises(MaitredError, match="notes"):
                await gateway.call(call, viewer=LOCAL_USER)

    assert ANSWER in str(answer)


async def test_another_image_or_address_waits_for_a_person_again(tmp_path: Path) -> None:
    """The description names the image, so that a person sees what it approves."""
    async with serving(Cluster()) as cluster:
        told = {"maitred/description": "Notes of the team.", "maitred/tags": "function:search, other: x"}
        cluster.put(mcp_server("notes", NOTES, image="registry.example/notes:1"))
        async with watching(settings_of(cluster, tmp_path)) as gateway:
            await until(gateway, lambda now: now == {"notes": "pending"})
            await gateway.decide("notes", "approve", viewer=LOCAL_USER)
            await until(gateway, lambda now: now == {"notes": "approved"})
            cluster.put(mcp_server("notes", NOTES, image="registry.example/notes:2"))
            await until(gateway, lambda now: now == {"notes": "pending"})
            case = await gateway.case("notes", viewer=LOCAL_USER)
            with capture_logs() as logs:
                cluster.put(mcp_server("notes", NOTES, annotations=told))
                await until_true(lambda: any("fault" in entry for entry in logs))

    assert case.manifest["description"] == "Image: registry.example/notes:2"
    assert "other: x" in str(logs)


@pytest.mark.parametrize("gone_by", ["status", "event"])
async def test_what_happened_while_the_cluster_forgot_versions_is_noticed(
    tmp_path: Path, gone_by: str
) -> None:
    """It is read as a whole again, and the servers of what is gone are withdrawn."""
    async with serving(Cluster(gone_by=gone_by)) as cluster:
        cluster.put(mcp_server("notes", NOTES), mcp_server("clock", CLOCK))
        async with watching(settings_of(cluster, tmp_path)) as gateway:
            await until(gateway, lambda now: now.keys() == {"notes", "clock"})
            cluster.delete("clock")
            cluster.put(mcp_server("maps", NOTES.replace("notes", "maps")))
            cluster.forget()
            cluster.cut()
            await until(gateway, lambda now: now.keys() == {"notes", "maps"})

    assert cluster.lists == 2


async def test_a_watch_that_breaks_off_goes_on_from_its_last_version(tmp_path: Path) -> None:
    """Nothing is listed again; a bookmark moves the version on without a change."""
    async with serving(Cluster()) as cluster:
        cluster.put(mcp_server("notes", NOTES))
        async with watching(settings_of(cluster, tmp_path)) as gateway:
            await until_true(lambda: cluster.open == 1)
            cluster.bookmark()
            cluster.put(mcp_server("maps", NOTES.replace("notes", "maps")))
            await until(gateway, lambda now: now.keys() == {"notes", "maps"})
            cluster.cut()
            await until_true(lambda: len(cluster.watches) > 1)
            cluster.put(mcp_server("clock", CLOCK))
            await until(gateway, lambda now: "clock" in now)

    assert cluster.lists == 1
    assert cluster.watches[:2] == ["101", "103"]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (403, "its token may not list or watch them there"),
        (404, "is the operator there?"),
        (500, "status 500"),
    ],
)
async def test_a_cluster_that_refuses_withdraws_nothing_and_is_told_once(
    tmp_path: Path, status: int, reason: str
) -> None:
    """All goes on when it answers again; if it refuses later, that is logged again."""
    async with serving(Cluster()) as cluster:
        cluster.put(mcp_server("notes", NOTES))
        async with watching(settings_of(cluster, tmp_path)) as gateway:
            await until(gateway, lambda now: now == {"notes": "pending"})
            await until_true(lambda: cluster.open == 1)
            with capture_logs() as logs:
                cluster.status = status
                cluster.cut()
                await until_true(lambda: cluster.requests >= 5)
            assert await states(gateway) == {"notes": "pending"}
            cluster.status = 200
            cluster.put(mcp_server("clock", CLOCK))
            await until(gateway, lambda now: "clock" in now)
            with capture_logs() as later:
                cluster.status = status
                cluster.cut()
                await until_true(lambda: any(reason in str(entry) for entry in later))

    told = [entry for entry in logs if entry["event"].endswith("nothing is unregistered")]
    assert [reason in entry["reason"] for entry in told] == [True]


@pytest.mark.parametrize(
    "nonsense",
    [
        "[]", "<html>", '{"items": "x"}', '{"items": ["x"]}', '{"metadata": [], "items": {"a": 1}}',
        '{"type": "NEW", "object": {}}', '{"type": "ADDED", "object": "x"}',
        '{"type": "ERROR", "object": {}}',
    ],
)  # fmt: skip
async def test_an_answer_that_makes_no_sense_changes_nothing(tmp_path: Path, nonsense: str) -> None:
    """Of a list or of a watch: it is logged, and all goes on with the next one that does."""
    async with serving(Cluster()) as cluster:
        cluster.put(mcp_server("notes", NOTES))
        async with watching(settings_of(cluster, tmp_path)) as gateway:
            await until_true(lambda: cluster.open == 1)
            asked = cluster.requests
            cluster.nonsense = nonsense
            cluster.cut()
            await until_true(lambda: cluster.requests > asked + 1)
            assert await states(gateway) == {"notes": "pending"}
            cluster.nonsense = ""
            cluster.put(mcp_server("clock", CLOCK))
            await until(gateway, lambda now: now.keys() == {"notes", "clock"})


async def test_a_token_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Its file is missing, or is no text."""
    async with serving(Cluster()) as cluster:
        missing = watch_of(cluster, tmp_path, token_file=str(tmp_path / "none"))
        (tmp_path / "bytes").write_bytes(b"\xff\xfe")
        garbled = watch_of(cluster, tmp_path, token_file=str(tmp_path / "bytes"))

        assert "none cannot be read (No such file or directory)" in (await describe_cluster(missing))[0]
        assert "bytes has no token" in (await describe_cluster(garbled))[0]


async def test_the_token_is_read_again_for_each_request(tmp_path: Path) -> None:
    """The cluster renews it every hour."""
    async with serving(Cluster()) as cluster:
        cluster.put(mcp_server("notes", NOTES))
        settings = settings_of(cluster, tmp_path)
        async with watching(settings) as gateway:
            await until_true(lambda: cluster.open == 1)
            cluster.token = "token-of-the-next-hour"
            (tmp_path / "cluster-token").write_text(cluster.token, encoding="utf-8")
            cluster.cut()
            cluster.put(mcp_server("clock", CLOCK))
            await until(gateway, lambda now: now.keys() == {"notes", "clock"})


async def test_the_cluster_is_trusted_by_its_own_certificates_alone(tmp_path: Path) -> None:
    """With those of the file it is read; with those of the system it is not."""
    tls, trusted = certificate(tmp_path)
    async with serving(Cluster(), tls=tls) as cluster:
        cluster.put(mcp_server("notes", NOTES))
        with capture_logs() as logs:
            async with watching(settings_of(cluster, tmp_path)) as gateway:
                await until_true(lambda: any("cannot be reached" in str(entry) for entry in logs))
                watch = watch_of(cluster, tmp_path, network="cluster", ca_file=str(trusted))
                fixed = replace(gateway.settings, kubernetes=KubernetesSettings(watch=watch))
                await gateway.configure(fixed, viewer=LOCAL_USER)
                await until(gateway, lambda now: now == {"notes": "pending"})


async def test_a_server_of_another_source_is_not_taken_over(tmp_path: Path) -> None:
    """Or who may make a resource could put a server out of use."""
    async with serving(Cluster()) as cluster:
        settings = settings_of(cluster, tmp_path)
        async with open_gateway(settings) as gateway:
            text = "name: notes\nurl: https://notes.example.com/mcp\n"
            await gateway.register_server(text, source="http", viewer=LOCAL_USER)
        cluster.put(mcp_server("notes", NOTES), mcp_server("clock", CLOCK))
        with capture_logs() as logs:
            async with watching(settings) as gateway:
                await until(gateway, lambda now: "clock" in now)
                await until_true(lambda: any("rename the resource" in str(entry) for entry in logs))
                case = await gateway.case("notes", viewer=LOCAL_USER)

    assert case.source == "http"


@pytest.mark.parametrize(
    ("resource", "reason"),
    [
        (mcp_server("no.server", NOTES), "is no name for a server"),
        (mcp_server("x", NOTES, annotations={"maitred/categry": "search"}), "did you mean 'category'?"),
        (mcp_server("x", "http://169.254.169.254/mcp"), "its host is"),
        (mcp_server("x", "ftp://x.mcp-servers.svc.cluster.local/mcp"), "is no URL"),
    ],
)
async def test_a_resource_that_cannot_be_a_server_is_refused_and_the_others_go_on(
    tmp_path: Path, resource: dict[str, Any], reason: str
) -> None:
    """The log names the resource and the reason."""
    async with serving(Cluster()) as cluster:
        cluster.put(resource, mcp_server("zebra", CLOCK))
        with capture_logs() as logs:
            async with watching(settings_of(cluster, tmp_path)) as gateway:
                await until(gateway, lambda now: now == {"zebra": "pending"})

    [first] = [entry for entry in logs if reason in str(entry)][:1]
    assert first["name"] == resource["metadata"]["name"]


async def test_of_two_gateways_on_one_database_one_watches_and_the_other_takes_over(
    tmp_path: Path, postgres: Postgres
) -> None:
    """What the second one did not hear, it reads when it is its turn."""
    async with serving(Cluster()) as cluster:
        cluster.put(mcp_server("notes", NOTES))
        settings = settings_of(cluster, tmp_path, url=postgres.new_database())
        async with open_gateway(settings, serves=True) as second, Background() as background:
            async with watching(settings):
                await until_true(lambda: cluster.open == 1)
                background.start(lambda: follow_mcp_servers(second, look_s=0.02, again_s=0.05))
                cluster.put(mcp_server("maps", NOTES.replace("notes", "maps")))
                await until(second, lambda now: now.keys() == {"notes", "maps"})
                assert (cluster.lists, cluster.open) == (1, 1)
            cluster.delete("notes")
            cluster.put(mcp_server("clock", CLOCK))
            await until(second, lambda now: now.keys() == {"maps", "clock"})

    assert cluster.lists == 2


class Turns:
    """A gateway that has its turn to watch when the test says so."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.is_mine = True
        self.was_refused = anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)

    @asynccontextmanager
    async def take_turn(self, _: str, *, viewer: Viewer) -> AsyncIterator[bool]:
        if not self.is_mine:
            self.was_refused.set()
        yield self.is_mine


async def test_a_turn_that_comes_again_withdraws_nothing_that_the_other_gateway_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two turns of a gateway another one has registered a server, which a person approved."""
    monkeypatch.setattr(server_watch, "_TURN_S", 0.2)
    async with serving(Cluster()) as cluster:
        cluster.put(mcp_server("notes", NOTES))
        settings = settings_of(cluster, tmp_path)
        watch = settings.kubernetes.watch
        assert watch is not None
        with anyio.fail_after(SOON_S):
            async with open_gateway(settings, serves=True) as gateway, Background() as background:
                turns = Turns(gateway)
                background.start(lambda: server_watch._take_turns(cast("Gateway", turns), watch, 0.01))
                await until(gateway, lambda now: now.keys() == {"notes"})
                turns.is_mine = False
                await turns.was_refused.wait()
                cluster.delete("notes")
                cluster.put(mcp_server("clock", CLOCK))
                await server_watch.ClusterServers(gateway, watch, ClusterApi(watch))._read()
                await gateway.decide("clock", "approve", viewer=LOCAL_USER)
                turns.is_mine = True
                cluster.put(mcp_server("maps", NOTES.replace("notes", "maps")))
                await until(gateway, lambda now: "maps" in now)
                case = await gateway.case("clock", viewer=LOCAL_USER)
    assert case.state == "approved"
    assert "withdrawn" not in [entry.kind for entry in case.log]


async def test_a_change_of_the_settings_is_taken_over(tmp_path: Path) -> None:
    """Servers of the cluster that do not fit them any more are withdrawn."""
    async with serving(Cluster()) as cluster:
        cluster.put(mcp_server("notes", NOTES))
        none = replace(settings_of(cluster, tmp_path), kubernetes=KubernetesSettings())
        async with watching(none) as gateway:
            watched = replace(none, kubernetes=settings_of(cluster, tmp_path).kubernetes)
            await gateway.configure(watched, viewer=LOCAL_USER)
            await until(gateway, lambda now: now == {"notes": "pending"})
            await gateway.configure(none, viewer=LOCAL_USER)
            await until_true(lambda: cluster.open == 0)
            assert await states(gateway) == {"notes": "pending"}


async def test_kubectl_reads_the_cluster_of_these_tests_as_it_reads_any(tmp_path: Path) -> None:
    """So what the gateway understands is the API, and not only what a test wrote: pages, changes and ends."""
    kubectl = Path(__file__).parents[2] / ".servers/kubernetes/kubectl/kubectl"
    if not kubectl.exists():
        pytest.skip("kubectl is not installed: make servers (it comes for Linux on amd64 alone)")
    async with serving(Cluster(token="")) as cluster:
        cluster.put(mcp_server("notes", NOTES), mcp_server("clock", CLOCK), mcp_server("maps"))
        get = [str(kubectl), "--server", cluster.url, "--cache-dir", str(tmp_path), "get", "mcpservers"]
        get += ["--namespace", "mcp-servers"]
        seen = b""
        with anyio.fail_after(SOON_S):
            listed = await anyio.run_process([*get, "--output", "name", "--chunk-size", "2"])
            watch = [*get, "--output", "json", "--watch", "--output-watch-events"]
            async with await anyio.open_process(watch) as process:
                await until_true(lambda: cluster.open == 1)
                cluster.put(mcp_server("shop", NOTES))
                cluster.delete("maps")
                while b'"DELETED"' not in seen:
                    assert process.stdout is not None
                    seen += await process.stdout.receive()
                process.kill()

    names = [f"mcpserver.mcp.x-k8s.io/{name}" for name in ("clock", "maps", "notes")]
    assert listed.stdout.decode().split() == names
    assert b'"name":"shop"' in seen


async def test_doctor_says_what_it_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cluster that refuses is a fault of the gateway."""
    async with serving(Cluster()) as cluster:
        cluster.put(mcp_server("notes", NOTES), mcp_server("clock", CLOCK), mcp_server("maps"))
        token = watch_of(cluster, tmp_path).token_file
        watch = f"namespace: mcp-servers, api: '{cluster.url}', token_file: '{token}', ca_file: ''"
        write(tmp_path, {"maitred.yaml": f"kubernetes: {{watch: {{{watch}}}}}\ncatalog: {{path: c.db}}\n"})
        run = runner(tmp_path, monkeypatch, capsys)
        fine = await describe_cluster(watch_of(cluster, tmp_path))
        cluster.status = 403
        refused = await anyio.to_thread.run_sync(run, "doctor", "--json")

    place = "of the namespace mcp-servers"
    why = "its token may not list or watch them there"
    assert fine == (f"3 MCPServer resources {place}", False)
    assert refused.code == 1
    told = json.loads(refused.out)["kubernetes"]
    assert told == {"ok": False, "told": f"MCPServer resources {place} cannot be read: {why}"}


@pytest.mark.parametrize(
    ("watch", "fault"),
    [
        ("{}", "kubernetes.watch.namespace"),
        ("{namespace: Not_one}", "kubernetes.watch.namespace: is no name of a namespace"),
        ("{namespace: a, api: 'http://10.0.0.1'}", "kubernetes.watch.api: must start with https://"),
        ("{namespace: a, api: 'https://x:y@h'}", "kubernetes.watch.api: must have no query and no password"),
        ("{namespace: a, api: 'https://h:port'}", "kubernetes.watch.api: is no address"),
        ("{namespace: a, version: v1}", "kubernetes.watch.version"),
    ],
)
def test_a_wrong_setting_is_refused_with_its_key(watch: str, fault: str) -> None:
    with pytest.raises(ConfigError, match="fault") as error:
        parse(Path("maitred.yaml"), f"kubernetes:\n  watch: {watch}\n")
    assert fault in str(error.value)
