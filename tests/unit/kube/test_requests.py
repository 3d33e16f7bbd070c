"""Requests are limited, bounded in time, tried again when that helps, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from llmservice.kube.connection import USER_AGENT, open_connection
from llmservice.kube.errors import Conflict, Forbidden, Invalid, NotServed, TooManyRequests, Unavailable
from llmservice.kube.real import RealKube
from llmservice.kube.requests import Answered, Request, Requests
from llmservice.kube.resources import CONFIG_MAP, LEASE, POD
from llmservice.kube.retries import RetryPolicy
from tests.unit.kube.clocks import ManualClock

pytestmark = pytest.mark.unit

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
LIST = Request("list", "GET", "/api/v1/pods", POD)
CREATE = Request("create", "POST", "/api/v1/pods", POD, body={"kind": "Pod"}, repeatable=False)


class Server:
    """An HTTP server that answers by a script, the last line for ever."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script: list[Handler] = []
        self.seen: list[web.Request] = []
        self.clock = ImpatientClock()
        self.answers: list[Answered] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        return await self.script[min(len(self.seen), len(self.script)) - 1](request)

    async def requests(self, *, patience: float = 2.0, concurrency: int = 16) -> Requests:
        connection = await open_connection(self.kubeconfig(), None)
        policy = RetryPolicy(random=lambda: 0.5)
        return Requests(
            connection,
            timeout=patience,
            concurrency=concurrency,
            retries=policy,
            clock=self.clock,
            on_answer=self.answers.append,
        )

    def kubeconfig(self, token: str = "first") -> Path:
        path = self.folder / "kubeconfig"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(yaml.safe_dump(config))
        return path


class ImpatientClock(ManualClock):
    """Waits take no real time."""

    async def wait(self, event: asyncio.Event, seconds: float | None) -> None:
        assert seconds is not None
        self.pauses.append(seconds)
        self.elapsed += seconds


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    scripted = Server(tmp_path)
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", scripted.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    scripted.url = f"http://{host}:{port}"
    yield scripted
    await runner.cleanup()


def answer(status: int, body: object = None, **headers: str) -> Handler:
    async def handle(_: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response({} if body is None else body, status=status, headers=named)

    return handle


def refusal(status: int, reason: str, **details: object) -> Handler:
    return answer(status, {"kind": "Status", "reason": reason, "message": f"{reason}: no", "details": details})


async def test_an_answer_is_its_body_and_is_counted(server: Server) -> None:
    server.script = [answer(200, {"items": []})]
    requests = await server.requests()
    assert await requests.send(LIST) == b'{"items": []}'
    (request,) = server.seen
    assert request.headers["User-Agent"] == USER_AGENT
    assert request.headers["Authorization"] == "Bearer first"
    (counted,) = server.answers
    assert (counted.verb, counted.resource, counted.status) == ("list", "pods", 200)
    await requests.close()


async def test_too_many_requests_waits_as_long_as_the_server_says(server: Server) -> None:
    server.script = [answer(429, Retry_After="7"), answer(200)]
    requests = await server.requests()
    await requests.send(CREATE)
    assert server.clock.pauses == [pytest.approx(7.1)]
    assert [counted.status for counted in server.answers] == [429, 200]
    await requests.close()


async def test_a_wait_beyond_the_deadline_is_not_begun(server: Server) -> None:
    server.script = [answer(429, Retry_After="60")]
    requests = await server.requests()
    with pytest.raises(TooManyRequests) as refused:
        await requests.send(LIST)
    assert refused.value.retry_after == 60
    assert server.clock.pauses == []
    await requests.close()


async def test_server_errors_are_tried_again_with_growing_pauses_until_the_deadline(server: Server) -> None:
    server.script = [refusal(503, "ServiceUnavailable")]
    requests = await server.requests()
    with pytest.raises(Unavailable, match="ServiceUnavailable: no") as refused:
        await requests.send(LIST)
    assert refused.value.status == 503
    assert server.clock.pauses[:4] == [pytest.approx(x) for x in (0.15, 0.3, 0.6, 1.2)]
    assert max(server.clock.pauses) <= 5.0
    assert 20 < server.clock.elapsed < 30
    await requests.close()


async def test_a_create_that_may_have_happened_is_not_repeated(server: Server) -> None:
    server.script = [refusal(500, "InternalError")]
    requests = await server.requests()
    with pytest.raises(Unavailable):
        await requests.send(CREATE)
    assert len(server.seen) == 1
    await requests.close()


async def test_a_create_that_never_got_there_is_repeated(server: Server) -> None:
    server.url = "http://127.0.0.1:1"
    requests = await server.requests()
    with pytest.raises(Unavailable) as refused:
        await requests.send(CREATE)
    assert not refused.value.may_have_happened
    assert len(server.clock.pauses) > 3
    assert {counted.status for counted in server.answers} == {0}
    await requests.close()


async def test_no_answer_in_time_is_unavailable(server: Server) -> None:
    released = asyncio.Event()

    async def hang(_: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    server.script = [hang]
    requests = await server.requests(patience=0.05)
    with pytest.raises(Unavailable, match="POST /api/v1/pods"):
        await requests.send(CREATE)
    released.set()
    await requests.close()


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        (refusal(409, "Conflict"), Conflict),
        (refusal(403, "Forbidden"), Forbidden),
        (refusal(422, "Invalid"), Invalid),
        (answer(500, {"kind": "Status", "message": ".spec.foo: field not declared in schema"}), Invalid),
        (answer(404, "404 page not found"), NotServed),
    ],
)
async def test_what_would_fail_again_is_raised_at_once(server: Server, handler: Handler, error: type) -> None:
    server.script = [handler]
    requests = await server.requests()
    with pytest.raises(error):
        await requests.send(LIST)
    assert len(server.seen) == 1
    await requests.close()


async def test_an_expired_token_is_read_again_once(server: Server) -> None:
    server.script = [refusal(401, "Unauthorized"), answer(200), refusal(401, "Unauthorized")]
    requests = await server.requests()
    server.kubeconfig("second")
    await requests.send(LIST)
    assert [request.headers["Authorization"] for request in server.seen] == ["Bearer first", "Bearer second"]
    with pytest.raises(Forbidden):
        await requests.send(LIST)
    assert len(server.seen) == 4
    await requests.close()


async def test_no_more_requests_are_under_way_than_allowed(server: Server) -> None:
    under_way, most = 0, 0

    async def count(_: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return web.Response()

    server.script = [count]
    requests = await server.requests(concurrency=3)
    await asyncio.gather(*(requests.send(LIST) for _ in range(20)))
    assert most <= 3
    await requests.close()


async def test_a_lease_is_renewed_while_slow_requests_hold_every_place(server: Server) -> None:
    released, held = asyncio.Event(), asyncio.Event()

    async def answer_leases(request: web.Request) -> web.StreamResponse:
        if "leases" not in request.path:
            held.set()
            await released.wait()
        return web.Response()

    server.script = [answer_leases]
    requests = await server.requests(concurrency=1)
    slow = asyncio.create_task(requests.send(LIST))
    await held.wait()
    await requests.send(Request("get", "GET", LEASE.path("default", "operator"), LEASE))
    assert not slow.done()
    released.set()
    await slow
    await requests.close()


async def test_a_long_list_is_read_in_pages_and_again_when_it_expires(server: Server) -> None:
    def page(name: str, following: str = "") -> Handler:
        return answer(200, {"items": [{"metadata": {"name": name}}], "metadata": {"continue": following}})

    server.script = [page("a", "more"), page("b"), page("a", "more"), refusal(410, "Expired"), page("whole")]
    client = RealKube(await server.requests())
    assert [item["metadata"]["name"] for item in await client.list(CONFIG_MAP, "chat")] == ["a", "b"]
    assert server.seen[1].query["continue"] == "more"
    assert [item["metadata"]["name"] for item in await client.list(CONFIG_MAP, "chat")] == ["whole"]
    assert "limit" not in server.seen[4].query
    await client.close()


async def test_in_a_pod_without_a_token_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(Unavailable, match="the pod's service account"):
        await open_connection(None, None)


async def test_without_a_configuration_the_error_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="name one in KUBECONFIG or --kubeconfig"):
        await open_connection(tmp_path / "missing", None)


@pytest.mark.parametrize(
    "content", [b"\x89PNG", b"5", b"[1]", b"a: [", b"current-context: a", b"contexts: 5\ncurrent-context: a"]
)
async def test_a_file_that_is_no_kubeconfig_is_told_as_that(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(Unavailable, match="give a kubeconfig and a context"):
        await open_connection(path, None)
