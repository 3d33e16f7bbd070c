"""The engine: requests in, one iteration of the model at a time, tokens and text out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch

from llmserving.engine import EngineStatus, FinishReason, Output, Request
from llmserving.parameters import Mode
from llmserving.tokenizer import TextTokenizer, end_tokens
from llmtorch.answer import Answer, Group
from llmtorch.block_manager import BlockManager
from llmtorch.config import ModelConfig
from llmtorch.deadlines import Deadlines
from llmtorch.intake import Intake, RequestError
from llmtorch.loader import choose_device, load_runner, processor_count
from llmtorch.options import EngineOptions
from llmtorch.prefill_pace import PrefillPace
from llmtorch.sampler import Chosen, sample, take
from llmtorch.scheduler import Chunk, Scheduler


class TorchEngine:
    """`llmserving.engine.Engine` on plain torch. Driven by one thread.

    Raises `OptionError` or `ModelFormatError` when it cannot start. After that every error is of one request, told by
    an Output of that request.
    """

    def __init__(self, options: EngineOptions, clock: Callable[[], float] = time.monotonic) -> None:
        torch.set_num_threads(options.threads or processor_count())
        self._options = options
        self._clock = clock
        config = ModelConfig.load(options.model_path)
        self.max_length = min(options.max_length or config.max_length, config.max_length)
        self._runner, cache = load_runner(options, config, self.max_length, choose_device(options.device))
        self._blocks = BlockManager(cache.num_blocks, options.block_size, prefix_caching=options.prefix_caching)
        self._limits = options.limits()
        self._scheduler = Scheduler(self._blocks, self._limits)
        self._pace = PrefillPace()
        if options.max_prefill_tokens is None:
            self._limits.paced_prefill_tokens = self._pace.limit()
        tokenizer = TextTokenizer.load(options.model_path, options.chat_template)
        self._intake = Intake(
            tokenizer=tokenizer,
            end_tokens=end_tokens(options.model_path, tokenizer),
            vocabulary=config.vocab_size,
            max_length=self.max_length,
            capacity_tokens=self._blocks.capacity_tokens,
            aging_seconds=options.aging_seconds,
            levels=options.mode is Mode.CONTINUOUS,
        )
        self._groups: dict[int, Group] = {}
        self._answers: dict[int, Answer] = {}  # by the key of their sequence
        self._deadlines = Deadlines()
        self._ended: list[Output] = []
        self._step_sequences = 0
        self._queue_seconds: tuple[float, ...] = ()

    def add(self, request: Request) -> None:
        """Takes a request into the waiting line; one that cannot be served is answered by the next `step`.

        What a tokenizer or a template raises beyond its own errors is raised on; the rest of the batch goes on.
        """
        batch = self._batch_of(request)
        try:
            self._refuse_taken(request.key)
            group = self._intake.group(request, self._clock(), batch)
        except Exception as error:
            if batch is not None:
                self._scheduler.expect(batch, request.batch_size)
            if not isinstance(error, RequestError):
                raise
            refused = Output(request.key, finish_reason=FinishReason.ERROR, error=str(error), invalid=True)
            self._ended.append(refused)
            return
        self._groups[request.key] = group
        self._deadlines.add(group)
        (answer,) = group.live
        self._answers[answer.sequence.key] = answer
        self._scheduler.add(answer.sequence, request.batch_size)

    def cancel(self, key: int) -> None:
        """Ends a request at once and frees its blocks; the next `step` says so."""
        group = self._groups.get(key)
        if group is not None:
            self._ended.append(self._abort(group, FinishReason.CANCELLED))

    def has_work(self) -> bool:
        """Whether `step` would do anything: sequences to run, answers to give, or deadlines that passed."""
        return bool(self._ended) or self._deadlines.passed(self._clock()) or self._scheduler.has_work()

    def step(self) -> list[Output]:
        """One iteration of the model over what the scheduler chose."""
        started = self._clock()
        for group in self._deadlines.overdue(started):
            self._ended += self._expire(group)
        outputs, self._ended = self._ended, []
        chunks = self._scheduler.schedule()
        self._step_sequences = len(chunks)
        self._count_started(chunks, started)
        if not chunks:
            return outputs
        answers = [self._answers[chunk.sequence.key] for chunk in chunks]
        giving = [answer for answer, chunk in zip(answers, chunks, strict=True) if chunk.gives_token]
        try:
            chosen = self._run(chunks, giving)
        except torch.AcceleratorError:
            raise  # the device is lost, and with it every sequence
        except RuntimeError as error:  # out of memory, mostly: these requests cannot go on, others can
            failed = f"the model failed in this step: {str(error).splitlines()[0]}"
            groups = {answer.group.request.key: answer.group for answer in answers}
            return outputs + [self._abort(group, FinishReason.ERROR, failed) for group in groups.values()]
        self._scheduler.advance(chunks)
        for answer in giving:
            self._begin_others(answer.group)
        outputs += [self._take(answer, one) for answer, one in zip(giving, chosen, strict=True)]
        self._learn_pace(chunks, self._clock() - started)
        return outputs

    def close(self) -> None:
        """Forgets everything; the memory goes with the engine."""
        for group in list(self._groups.values()):
            self._abort(group, FinishReason.CANCELLED)
        self._ended.clear()
        self._runner.close()

    def status(self) -> EngineStatus:
        """Sequences waiting and running, blocks in use, and what the last step was."""
        return EngineStatus(
            waiting=len(self._scheduler.waiting),
            running=len(self._scheduler.running),
            kv_cache_usage=1.0 - self._blocks.num_free / self._blocks.num_blocks,
            batch_size=self._step_sequences,
            queue_seconds=self._queue_seconds,
            preemptions=self._scheduler.num_preemptions,
            prefix_cache_queries=self._scheduler.num_prefix_queries,
            prefix_cache_hits=self._scheduler.num_prefix_hits,
        )

    def part_seconds(self) -> Mapping[str, float]:
        """Seconds of all steps so far by part of a step, where the kernels compute; empty elsewhere."""
        return self._runner.part_seconds()

    def _run(self, chunks: list[Chunk], giving: list[Answer]) -> list[Chosen]:
        choosing = [answer.choosing for answer in giving]
        if all(one.takes_likeliest for one in choosing):
            return take(self._runner.likeliest(chunks), choosing)
        with torch.inference_mode():
            return sample(self._runner.logits(chunks), choosing)

    def _begin_others(self, group: Group) -> None:
        """Once a prompt is in the cache, the request's other answers find it there."""
        batch = self._batch_of(group.request)
        for index in group.unborn:
            answer = self._intake.answer(group, index, batch)
            self._answers[answer.sequence.key] = answer
            self._scheduler.join(answer.sequence, group.request.batch_size)
        group.unborn.clear()

    def _take(self, answer: Answer, chosen: Chosen) -> Output:
        output, reason = answer.take(chosen)
        return output if reason is None else self._finish(answer, reason, output)

    def _finish(self, answer: Answer, reason: FinishReason, output: Output) -> Output:
        """Ends one answer; its last output is `output` with the reason and the counts."""
        self._scheduler.remove(answer.sequence)
        del self._answers[answer.sequence.key]
        answer.group.live.remove(answer)
        self._forget_if_done(answer.group)
        return replace(
            output,
            finish_reason=reason,
            num_input_tokens=answer.sequence.num_prompt,
            num_output_tokens=answer.sequence.num_output,
            unfinished=answer.group.unfinished,
        )

    def _expire(self, group: Group) -> list[Output]:
        """Ends every answer of a request with what it has."""
        self._begin_others(group)
        return [
            self._finish(answer, FinishReason.DEADLINE, Output(group.request.key, answer.rest(), index=answer.index))
            for answer in list(group.live)
        ]

    def _abort(self, group: Group, reason: FinishReason, error: str = "") -> Output:
        """Ends a request without its answers."""
        length = sum(answer.sequence.num_output for answer in group.live)
        group.unborn.clear()
        for answer in group.live:
            self._scheduler.remove(answer.sequence)
            del self._answers[answer.sequence.key]
        group.live.clear()
        self._forget_if_done(group)
        return Output(
            group.request.key,
            finish_reason=reason,
            num_input_tokens=len(group.prompt),
            num_output_tokens=length,
            error=error,
        )

    def _forget_if_done(self, group: Group) -> None:
        if not group.unfinished:
            del self._groups[group.request.key]
            self._deadlines.forget(group)

    def _refuse_taken(self, key: int) -> None:
        if key in self._groups:
            self.cancel(key)
            raise RequestError(f"key {key} is taken by a live request: both are ended")

    def _batch_of(self, request: Request) -> int | None:
        """Only run-to-completion modes know batches."""
        return request.batch if self._options.mode.runs_batches else None

    def _count_started(self, chunks: list[Chunk], now: float) -> None:
        fresh = {}
        for chunk in chunks:
            group = self._answers[chunk.sequence.key].group
            if not group.started:
                group.started = True
                fresh[group.arrival] = now - group.arrived
        self._queue_seconds = tuple(fresh.values())

    def _learn_pace(self, chunks: list[Chunk], seconds: float) -> None:
        """Bounds what prompts may add to the steps of those that decode, unless the options do."""
        if self._options.max_prefill_tokens is None:
            decodes = sum(chunk.count == 1 for chunk in chunks)
            self._pace.observe(decodes, sum(chunk.count for chunk in chunks) - decodes, seconds)
            self._limits.paced_prefill_tokens = self._pace.limit()
