"""The parts of several generations as one sequence, and their end as one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

from llmservice.openai.errors import ApiError, deadline_exceeded, internal
from llmservice.openai.generation import Backend, Generation, Part


class Merged:
    """`(generation, part)` of all generations in the order in which parts come, as an async context manager.

    Leaving it cancels what still runs. The first failure is everybody's: a request is answered whole or not at all.
    """

    def __init__(self, backend: Backend, generations: Sequence[Generation], choices_each: int) -> None:
        self._backend = backend
        self._generations = generations
        self._choices_each = choices_each
        self._parts: asyncio.Queue[tuple[int, Part] | ApiError | None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self._run(number, generation)) for number, generation in enumerate(self._generations)
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aiter__(self) -> AsyncIterator[tuple[int, Part]]:
        running = len(self._tasks)
        while running:
            match await self._parts.get():
                case None:
                    running -= 1
                case ApiError() as failure:
                    raise failure
                case (number, part):
                    yield number, part

    async def _run(self, number: int, generation: Generation) -> None:
        left = self._choices_each
        try:
            async with contextlib.aclosing(self._backend.generate(generation)) as parts:  # type: ignore[type-var]
                async for part in parts:
                    if part.finish_reason == "deadline":
                        raise deadline_exceeded()
                    left -= part.finish_reason is not None
                    self._parts.put_nowait((number, part))
            self._parts.put_nowait(None if left <= 0 else internal("the engine ended this answer before it was whole"))
        except ApiError as failure:
            self._parts.put_nowait(failure)
        except Exception as error:  # noqa: BLE001 -- whoever waits for parts must hear of it
            self._parts.put_nowait(internal(f"{type(error).__name__}: {error}"))
