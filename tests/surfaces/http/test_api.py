"""The API as a program meets it: a real gateway over the network, with real servers behind it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.interaction.harness import cli, faulty, serving, write_settings

API = "/api/v1"
TOOL = f"{API}/tools/team%2Fcounter/add"
Get = Callable[..., httpx2.Response]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A gateway with servers that answer, die, hang, and one that is switched off."""
    servers = {
        "team/counter": faulty("count"),
        "mortal": faulty("die-in-call"),
        "idle": {**faulty("hang-in-call"), "call_timeout_s": 0.3},
        "off": {**faulty("env"), "enabled": False},
    }
    config = write_settings(tmp_path_factory.mktemp("api"), servers)
    done = cli(config, "list", "--json")
    assert done.returncode == 0, done.stderr
    with (
        serving(config) as gateway,
        httpx2.Client(base_url=gateway.url.removesuffix("/mcp"), timeout=120) as client,
    ):
        yield client


def read(http: httpx2.Client, path: str, **params: Any) -> Any:
    """The JSON of an answer that must be fine."""
    answer = http.get(path, params=params)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


# --- reading ----------------------------------------------------------------------------------------------


def test_the_hot_list_names_tools_with_their_parameters(http: httpx2.Client) -> None:
    """T0 is enough to call from."""
    found = read(http, f"{API}/tools/hot")

    assert found["tier"] == "T0"
    [add] = [tool for tool in found["tools"] if tool["name"].endswith("__add")]
    assert add["server"] == "team/counter"
    assert add["parameters"] == {"a": "num", "b": "num"}


def test_categories_lead_to_pages_and_pages_to_tools(http: httpx2.Client) -> None:
    """Whoever follows the tiers comes to every tool, with its whole definition."""
    reached = set()
    for category in read(http, f"{API}/tools/categories")["categories"]:
        page = read(http, f"{API}/tools/category/{category['name']}", page_size=50)
        assert page["pagination"]["total_count"] == category["tools"]
        for tool in page["tools"]:
            server = tool["server"].replace("/", "%2F")
            whole = read(http, f"{API}/tools/{server}/{tool['name']}")
            assert whole["definition"]["name"] == tool["name"]
            reached.add((whole["server"], whole["raw_name"]))

    assert ("team/counter", "add") in reached
    assert len(reached) == read(http, f"{API}/stats")["tools"]


def test_a_tool_is_found_by_its_raw_name_and_by_its_published_one(http: httpx2.Client) -> None:
    """A slash in a server's name is written `%2F`."""
    raw = read(http, TOOL)
    published = read(http, f"{API}/tools/team%2Fcounter/{raw['name']}")

    assert raw == published
    assert raw["definition"]["inputSchema"]["required"] == ["a", "b"]


def test_search_answers_with_lines_to_call_from(http: httpx2.Client) -> None:
    """Several phrases at once, each with how well it is served."""
    found = read(http, f"{API}/tools/search", q=["add", "pid"], server="team/counter", limit=1)

    assert {result["name"].rpartition("__")[2] for result in found["results"]} == {"add", "pid"}
    assert set(found["bands"]) == {"add", "pid"}
    assert found["results"][0]["line"].startswith(found["results"][0]["name"])


def test_servers_tell_their_state_and_why_they_are_withheld(http: httpx2.Client) -> None:
    """All of them, in the order of the configuration."""
    servers = {server["name"]: server for server in read(http, f"{API}/servers")["servers"]}

    assert list(servers) == ["team/counter", "mortal", "idle", "off"]
    assert servers["off"]["withheld"] == "disabled in the configuration"
    one = read(http, f"{API}/servers/team%2Fcounter")
    assert one["title"] == "faulty"
    assert one["tools"] == servers["team/counter"]["tools"]


# --- calling ----------------------------------------------------------------------------------------------


def call(http: httpx2.Client, server: str, tool: str, body: Any) -> httpx2.Response:
    return http.post(f"{API}/tools/{server}/{tool}/call", json=body)


def test_a_tool_is_called_and_its_result_comes_as_it_was(http: httpx2.Client) -> None:
    """The state of its server is told at once."""
    answer = call(http, "team%2Fcounter", "add", {"arguments": {"a": 2, "b": 40}})

    assert answer.status_code == 200
    assert answer.json() == {"content": [{"type": "text", "text": "42"}], "isError": False}
    servers = read(http, f"{API}/servers")["servers"]
    assert servers[0]["state"] == "ready"


def test_wrong_arguments_are_422_with_every_fault(http: httpx2.Client) -> None:
    """The tool was not called."""
    answer = call(http, "team%2Fcounter", "add", {"arguments": {"a": "two"}})

    assert answer.status_code == 422
    assert answer.json()["error"] == "arguments_invalid"
    assert len(answer.json()["faults"]) == 2


def test_a_tool_that_is_not_marked_read_only_is_refused_where_only_reading_is_meant(
    http: httpx2.Client,
) -> None:
    """409, since it exists but may not be called so."""
    answer = call(http, "team%2Fcounter", "add", {"arguments": {"a": 1, "b": 1}, "read_only": True})

    assert answer.status_code == 409
    assert answer.json()["error"] == "tool_withheld"


@pytest.mark.parametrize(
    ("server", "status", "code"),
    [("mortal", 502, "connection_lost"), ("idle", 504, "call_timeout"), ("off", 409, "tool_withheld")],
)
def test_a_server_that_fails_has_a_status_of_its_own(
    http: httpx2.Client, server: str, status: int, code: str
) -> None:
    """Whether trying again helps can be told from it."""
    answer = call(http, server, "fault", {"arguments": {}})

    assert answer.status_code == status, answer.text
    assert answer.json()["error"] == code
    assert server in answer.json()["message"]


# --- what is wrong with a request ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/api/v1/nothing", None, 404, "not_found"),
        ("GET", "/nothing", None, 404, "not_found"),
        ("DELETE", "/api/v1/tools/hot", None, 405, "method_not_allowed"),
        ("GET", "/api/v1/tools/mortal/echo/call", None, 405, "method_not_allowed"),
        ("GET", "/api/v1/tools/category/nowhere", None, 404, "path_not_found"),
        ("GET", "/api/v1/tools/category/data?page=0", None, 422, "request_invalid"),
        ("GET", "/api/v1/tools/category/data?page_size=51", None, 422, "request_invalid"),
        ("GET", "/api/v1/tools/search", None, 422, "request_invalid"),
        ("GET", "/api/v1/servers/nobody", None, 404, "path_not_found"),
        ("GET", "/api/v1/tools/nobody/echo", None, 404, "path_not_found"),
        ("POST", "/api/v1/tools/mortal/echo/call", b"{", 400, "json_invalid"),
        ("POST", "/api/v1/tools/mortal/echo/call", b'{"argument": {}}', 422, "request_invalid"),
    ],
)
def test_every_error_has_the_same_shape(
    http: httpx2.Client, method: str, path: str, body: bytes | None, status: int, code: str
) -> None:
    """A code for programs and a text for people, also where no route was found."""
    headers = {"Content-Type": "application/json"} if body else {}
    answer = http.request(method, path, content=body, headers=headers)

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"] == code
    assert answer.json()["message"]


def test_a_mistyped_tool_is_answered_with_the_nearest(http: httpx2.Client) -> None:
    """So that the next request is right."""
    answer = http.get(f"{API}/tools/mortal/ecko")

    assert answer.status_code == 404
    assert answer.json()["error"] == "tool_not_found"
    assert any("echo" in name for name in answer.json()["nearest"])


def test_pages_of_other_sites_are_not_answered(http: httpx2.Client) -> None:
    """The API is protected as the MCP endpoint is: by Host and by Origin."""
    assert http.get(f"{API}/tools/hot", headers={"Host": "evil.example"}).status_code == 421
    assert http.get(f"{API}/tools/hot", headers={"Origin": "https://evil.example"}).status_code == 403
    assert http.get("/healthz", headers={"Host": "10.1.2.3"}).status_code == 200


# --- probes -----------------------------------------------------------------------------------------------


def test_metrics_count_calls_by_server_and_requests_by_route(http: httpx2.Client) -> None:
    """Neither tools nor what clients write become labels."""
    before = figures(http)
    call(http, "team%2Fcounter", "add", {"arguments": {"a": 1, "b": 1}})
    call(http, "mortal", "fault", {"arguments": {}})
    http.get(TOOL)
    http.get("/no/such/page")
    after = figures(http)

    def grown(name: str, **labels: str) -> float:
        key = (name, frozenset(labels.items()))
        return after.get(key, 0) - before.get(key, 0)

    assert grown("maitred_calls_total", server="team/counter") == 1
    assert grown("maitred_call_errors_total", server="mortal") == 1
    assert grown("maitred_call_seconds_count", server="team/counter") == 1
    assert grown("maitred_http_requests_total", route=f"{API}/tools/{{server}}/{{tool}}", status="200") == 1
    assert grown("maitred_http_requests_total", route="none", status="404") == 1
    assert after["maitred_tools", frozenset()] == read(http, f"{API}/stats")["tools"]
    assert after["maitred_servers", frozenset()] == 4


def figures(http: httpx2.Client) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def test_a_gateway_that_knows_its_servers_is_ready(http: httpx2.Client) -> None:
    """Both probes answer 200."""
    assert read(http, f"{API}/stats")["levels"]["cold"] >= 1
    assert read(http, "/healthz") == {"status": "ok"}
    assert read(http, "/readyz") == {"status": "ok"}


def test_each_server_has_a_probe_that_says_whether_it_can_be_used(http: httpx2.Client) -> None:
    """One that need not run is well; one that cannot be used now is 503 with the reason, any other 404."""
    well = read(http, "/healthz/team%2Fcounter")
    assert (well["status"], well["server"], well["desired"]) == ("ok", "team/counter", "on_demand")
    assert well["state"] in {"idle", "ready"}
    off = http.get("/healthz/off")
    assert (off.status_code, off.json()["error"]) == (503, "server_unavailable")
    assert off.json()["reason"] == "disabled in the configuration"
    nowhere = http.get("/healthz/of")
    assert (nowhere.status_code, nowhere.json()["nearest"]) == (404, ["server/off"])


def test_the_mcp_endpoint_is_served_beside_the_api(http: httpx2.Client) -> None:
    """One port for both; a GET without a session is for MCP to refuse."""
    answer = http.get("/mcp", headers={"Accept": "application/json"})

    assert "jsonrpc" in answer.text


def test_a_gateway_with_a_token_answers_nobody_without_it(tmp_path: Path) -> None:
    """But the probes, which know no token."""
    config = write_settings(tmp_path, {"counter": faulty("count")})
    with serving(config, env={"MAITRED_TOKEN": "k3y"}) as gateway:
        base = gateway.url.removesuffix("/mcp")
        for path in (f"{API}/tools/hot", "/metrics", "/api/openapi.json", "/nowhere"):
            refused = httpx2.get(base + path)
            assert refused.status_code == 401, path
            assert refused.json()["error"] == "unauthorized"
            assert refused.headers["WWW-Authenticate"] == "Bearer"
        assert httpx2.get(f"{base}/healthz").status_code == 200
        assert httpx2.get(f"{base}/readyz").status_code in {200, 503}
        opened = httpx2.get(f"{base}{API}/tools/hot", headers={"Authorization": "Bearer k3y"})
        assert opened.status_code == 200
