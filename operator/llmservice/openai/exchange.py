"""One request from its body to its last byte."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from llmservice.openai.answer import DONE, Answer, Choice, Events, Usage, whole_body
from llmservice.openai.asked import Asked
from llmservice.openai.errors import ApiError, deadline_exceeded
from llmservice.openai.generation import Backend, Part
from llmservice.openai.merged import Merged

DEADLINE_MARGIN = 1.0
"""Seconds after the deadline that gate and engine have to say it themselves; then the endpoint does."""
STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx would hold events back
}


@dataclass
class Exchange:
    """`begun` is called when the first token is there."""

    request: web.Request
    asked: Asked
    answer: Answer
    backend: Backend
    begun: Callable[[], None] = lambda: None
    usage: Usage = field(default_factory=Usage)
    response: web.StreamResponse | None = None

    async def run(self) -> web.StreamResponse:
        """The answer. Raises ApiError where nothing was sent yet; an error later is an event of the stream."""
        try:
            async with asyncio.timeout(self.asked.generations[0].timeout_seconds + DEADLINE_MARGIN):
                return await (self._stream() if self.asked.stream else self._whole())
        except TimeoutError:
            return await self._failed(deadline_exceeded())
        except ApiError as failure:
            return await self._failed(failure)

    async def _whole(self) -> web.StreamResponse:
        choices = [Choice(index) for index in range(len(self.asked.generations) * self.asked.choices_each)]
        async with Merged(self.backend, self.asked.generations, self.asked.choices_each) as parts:
            async for number, part in parts:
                self.usage.take(number, part)
                choices[self._index(number, part)].take(part)
        self.begun()
        return web.json_response(whole_body(self.answer, choices, self.usage))

    async def _stream(self) -> web.StreamResponse:
        events = Events(self.answer, include_usage=self.asked.include_usage)
        async with Merged(self.backend, self.asked.generations, self.asked.choices_each) as parts:
            async for number, part in parts:
                self.usage.take(number, part)
                response = self.response or await self._begin()
                if event := events.part(self._index(number, part), part):
                    await response.write(event)
        response = self.response or await self._begin()
        await response.write((events.usage(self.usage) if self.asked.include_usage else b"") + DONE)
        await response.write_eof()
        return response

    async def _begin(self) -> web.StreamResponse:
        """Headers go out with the first part: until then an error still has its status code."""
        self.response = web.StreamResponse(headers=STREAM_HEADERS)
        await self.response.prepare(self.request)
        self.begun()
        return self.response

    async def _failed(self, failure: ApiError) -> web.StreamResponse:
        if self.response is None:
            raise failure
        await self.response.write(Events.failure(failure.body()))
        await self.response.write_eof()
        return self.response

    def _index(self, number: int, part: Part) -> int:
        return number * self.asked.choices_each + part.index


def now() -> int:
    """Seconds since 1970."""
    return int(time.time())
