"""OpenAI's routes over one backend: who may, what was asked, and the answer or its error."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from llmservice.openai.answer import Answer, Heading
from llmservice.openai.asked import Asked, Caller, read_chat, read_completion, through_adapter
from llmservice.openai.chat_answer import ChatAnswer
from llmservice.openai.completion_answer import CompletionAnswer
from llmservice.openai.errors import ApiError, internal, invalid, model_not_found, too_large, unauthorized, unavailable
from llmservice.openai.exchange import Exchange, now
from llmservice.openai.fields import read_json
from llmservice.openai.generation import Backend
from llmservice.openai.keys import ApiKeys
from llmservice.openai.metrics import DISCONNECTED, EndpointMetrics

CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
MODELS: Final = "/v1/models"
REQUEST_ID: Final = "X-Request-Id"
_SANE_ID: Final = re.compile(r"[\w.:-]{1,128}", re.ASCII)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = logging.getLogger(__name__)


@dataclass
class Visit:
    """One HTTP request: its id, when it came (`time.monotonic`), and whose it is."""

    id: str
    client: str = ""
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since it came."""
        return time.monotonic() - self.started


VISIT: Final = web.RequestKey("visit", Visit)


@dataclass
class Endpoint:
    """A model is one of `names`, or one of `adapters`, which is then asked for.

    `draining` refuses what is new. `in_flight` counts requests being answered; `idle` is set while there is none.

    `port` and `admin_port` are where it listens, once it does.
    """

    backend: Backend
    names: tuple[str, ...]
    most_seconds: float
    max_request_bytes: int
    keys: ApiKeys | None = None
    adapters: tuple[str, ...] = ()
    metrics: EndpointMetrics = field(default_factory=EndpointMetrics)
    draining: bool = False
    port: int = 0
    admin_port: int = 0
    in_flight: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    created: int = field(default_factory=now)

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application(middlewares=[self._guard], client_max_size=self.max_request_bytes)
        app.on_response_prepare.append(self._stamp)
        app.add_routes(
            [
                web.post(CHAT, self._chat),
                web.post(COMPLETIONS, self._completion),
                web.get(MODELS, self._models),
                web.get(MODELS + "/{name:.+}", self._model),
                web.get("/health", self._health),
            ]
        )
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        asked = read_chat(await self._body(request), self._caller(request))
        heading = Heading(f"chatcmpl-{request[VISIT].id}", "chat.completion", now(), asked.model)
        return await self._answer(request, asked, ChatAnswer(heading, tell_logprobs=asked.top_logprobs is not None))

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        asked = read_completion(await self._body(request), self._caller(request))
        heading = Heading(f"cmpl-{request[VISIT].id}", "text_completion", now(), asked.model)
        echo = [prompt for prompt in asked.echo for _ in range(asked.choices_each)]
        answer = CompletionAnswer(heading, tell_logprobs=asked.top_logprobs is not None, echo=echo)
        return await self._answer(request, asked, answer)

    async def _answer(self, request: web.Request, asked: Asked, answer: Answer) -> web.StreamResponse:
        if self._known(asked.model) in self.adapters:
            asked = through_adapter(asked)
        if self.draining:
            raise unavailable("this replica is stopping: ask again, another one answers", "draining")
        endpoint = request.path

        def begun() -> None:
            self.metrics.first_token(endpoint, request[VISIT].seconds)

        exchange = Exchange(request, asked, answer, self.backend, begun)
        response = await exchange.run()
        self.metrics.tokens(request[VISIT].client, exchange.usage.input_tokens, exchange.usage.output_tokens)
        return response

    async def _models(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": [self._described(name) for name in self._models_served]})

    async def _model(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self._described(self._known(request.match_info["name"])))

    async def _health(self, _: web.Request) -> web.StreamResponse:
        ready = not self.draining and await self.backend.ready()
        return web.json_response({"ready": ready}, status=200 if ready else 503)

    async def _body(self, request: web.Request) -> dict[str, Any]:
        try:
            return read_json(await request.read())
        except web.HTTPRequestEntityTooLarge:
            raise too_large(self.max_request_bytes) from None

    def __post_init__(self) -> None:
        self.idle.set()

    def _count(self, change: int) -> None:
        self.in_flight += change
        self.metrics.in_flight.set(self.in_flight)
        (self.idle.clear if self.in_flight else self.idle.set)()

    def _caller(self, request: web.Request) -> Caller:
        visit = request[VISIT]
        return Caller(request.headers, self.most_seconds, visit.client, visit.id)

    @property
    def _models_served(self) -> tuple[str, ...]:
        return self.names + self.adapters

    def _known(self, model: str) -> str:
        if model not in self._models_served:
            raise model_not_found(model, self._models_served)
        return model

    def _described(self, name: str) -> dict[str, Any]:
        model = {"id": name, "object": "model", "created": self.created, "owned_by": "llmservice"}
        return {**model, "parent": self.names[0]} if name in self.adapters else model

    def _client(self, request: web.Request) -> str:
        """Whose request it is. Raises ApiError for nobody's."""
        if self.keys is None or request.path == "/health":
            return ""
        client = self.keys.client(request.headers.get("Authorization", ""))
        if client is None:
            raise unauthorized()
        return client

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Counts, lets in, and turns every failure into OpenAI's form."""
        sent = request.headers.get(REQUEST_ID, "")
        visit = Visit(sent if _SANE_ID.fullmatch(sent) else uuid.uuid4().hex)
        request[VISIT] = visit
        status = DISCONNECTED
        self._count(1)
        try:
            response = await self._told(request, handler)
            status = str(response.status)
            return response
        except ConnectionError:  # the client left while an event was on its way to it
            return web.Response(status=499)
        finally:
            self._count(-1)
            endpoint = request.match_info.route.resource.canonical if request.match_info.route.resource else "unknown"
            self.metrics.ended(endpoint, status, visit.client, visit.seconds)
            log.debug(
                "%s %s: %s in %.3f s", request.method, endpoint, status, visit.seconds, extra={"requestId": visit.id}
            )

    async def _told(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            request[VISIT].client = self._client(request)
            response = await handler(request)
        except ApiError as failure:
            response = _in_words(failure)
        except web.HTTPException as error:
            response = _in_words(_of_http(request, error))
        except (ConnectionError, TimeoutError):
            raise
        except Exception:
            log.exception("request %s failed", request[VISIT].id)
            response = _in_words(internal("the endpoint failed; its log says why"))
        return response

    async def _stamp(self, request: web.Request, response: web.StreamResponse) -> None:
        """What every answer carries; a client of a replica that stops opens its next connection to another."""
        if VISIT in request:  # a request that is no HTTP never comes to `_guard`
            response.headers[REQUEST_ID] = request[VISIT].id
        response.headers["Server"] = "llmservice"
        if self.draining:
            response.force_close()
            response.headers["Connection"] = "close"


def _in_words(failure: ApiError) -> web.Response:
    return web.json_response(failure.body(), status=failure.status, headers=failure.headers())


def _of_http(request: web.Request, error: web.HTTPException) -> ApiError:
    """What aiohttp itself refuses: no such route, another method."""
    if error.status == 404:
        known = ", ".join((CHAT, COMPLETIONS, MODELS))
        failure = invalid(f"there is no {request.method} {request.path} here: use {known}", code="unknown_url")
    else:
        failure = invalid(f"{request.method} {request.path}: {error.reason}")
    failure.status = error.status
    return failure
