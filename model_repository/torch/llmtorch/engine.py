"""The engine: requests in, one iteration of the model at a time, tokens and text out."""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Callable

import torch

from llmserving.engine import EngineStatus, FinishReason, Output, Request, SamplingParameters
from llmtorch.block_manager import BlockManager
from llmtorch.config import ModelConfig
from llmtorch.kv_cache import KVCache, number_of_blocks
from llmtorch.loader import choose_device, choose_kv_dtype, load_model, processor_count
from llmtorch.options import EngineOptions
from llmtorch.sampler import sample
from llmtorch.scheduler import Chunk, Scheduler
from llmtorch.sequence import Sequence
from llmtorch.step_batch import build_step
from llmtorch.stop_strings import StopStrings
from llmtorch.tokenizer import Detokenizer, TextTokenizer, end_tokens

PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")


class RequestError(ValueError):
    """A request that cannot be served; the message says why and what to send instead."""


class TorchEngine:
    """`llmserving.engine.Engine` on plain torch. Driven by one thread.

    Raises `OptionError` or `ModelFormatError` when it cannot start. After that every error is of one request, told by
    an Output of that request.
    """

    def __init__(self, options: EngineOptions, clock: Callable[[], float] = time.monotonic) -> None:
        torch.set_num_threads(options.threads or processor_count())
        self._options = options
        self._device = choose_device(options.device)
        config = ModelConfig.load(options.model_path)
        self.max_length = min(options.max_length or config.max_length, config.max_length)
        self._model = load_model(options, config, self.max_length, self._device)
        self._dtype = self._model.embedding.dtype
        kv_dtype = choose_kv_dtype(options.kv_dtype, self._dtype)
        num_blocks = number_of_blocks(options, config, self.max_length, kv_dtype, self._device)
        self._cache = KVCache(config, num_blocks, options.block_size, kv_dtype, self._device)
        self._blocks = BlockManager(num_blocks, options.block_size)
        self._scheduler = Scheduler(self._blocks, options.sequences, options.token_budget)
        self._tokenizer = TextTokenizer.load(options.model_path, options.chat_template)
        self._end_tokens = end_tokens(options.model_path, self._tokenizer)
        self._live: dict[int, Sequence] = {}
        self._answers: list[Output] = []
        self._deadlines: list[tuple[float, int, Sequence]] = []
        self._clock = clock
        self._arrivals = 0
        self._step_sequences = 0

    def add(self, request: Request) -> None:
        """Takes a request into the waiting line; one that cannot be served is answered by the next `step`.

        What a tokenizer or a template raises beyond its own errors is raised on; the rest of the batch goes on.
        """
        batch = self._batch_of(request)
        try:
            sequence = self._sequence(request, batch)
        except Exception as error:
            if batch is not None:
                self._scheduler.expect(batch, request.batch_size)
            if not isinstance(error, RequestError):
                raise
            refused = Output(request.key, finish_reason=FinishReason.ERROR, error=str(error), invalid=True)
            self._answers.append(refused)
            return
        self._live[request.key] = sequence
        self._scheduler.add(sequence, request.batch_size)
        if request.deadline is not None:
            heapq.heappush(self._deadlines, (request.deadline, sequence.arrival, sequence))

    def cancel(self, key: int) -> None:
        """Ends a request at once and frees its blocks; the next `step` says so."""
        sequence = self._live.get(key)
        if sequence is not None:
            self._answers.append(self._finish(sequence, FinishReason.CANCELLED))

    def has_work(self) -> bool:
        """Whether `step` would do anything: sequences to run, answers to give, or deadlines that passed."""
        overdue = bool(self._deadlines) and self._deadlines[0][0] <= self._clock()
        return bool(self._answers) or overdue or self._scheduler.has_work()

    def step(self) -> list[Output]:
        """One iteration of the model over what the scheduler chose."""
        self._end_overdue()
        outputs, self._answers = self._answers, []
        chunks = self._scheduler.schedule()
        self._step_sequences = len(chunks)
        if not chunks:
            return outputs
        giving = [chunk.sequence for chunk in chunks if chunk.gives_token]
        try:
            tokens = self._run(chunks, giving)
        except torch.AcceleratorError:
            raise  # the device is lost, and with it every sequence
        except RuntimeError as error:  # out of memory, mostly: these sequences cannot go on, others can
            failed = f"the model failed in this step: {str(error).splitlines()[0]}"
            return outputs + [self._finish(c.sequence, FinishReason.ERROR, error=failed) for c in chunks]
        for chunk in chunks:
            chunk.sequence.num_computed += chunk.count
        outputs += [self._advance(sequence, token) for sequence, token in zip(giving, tokens, strict=True)]
        return outputs

    def _end_overdue(self) -> None:
        now = self._clock()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, _, sequence = heapq.heappop(self._deadlines)
            if self._live.get(sequence.key) is sequence:
                self._answers.append(self._finish(sequence, FinishReason.DEADLINE, flush=True))

    def close(self) -> None:
        """Forgets everything; the memory goes with the engine."""
        for sequence in list(self._live.values()):
            self._finish(sequence, FinishReason.CANCELLED)
        self._answers.clear()
        del self._model, self._cache

    def status(self) -> EngineStatus:
        """Sequences waiting and running, blocks in use, and sequences of the last step."""
        return EngineStatus(
            waiting=len(self._scheduler.waiting),
            running=len(self._scheduler.running),
            kv_cache_usage=1.0 - self._blocks.num_free / self._blocks.num_blocks,
            batch_size=self._step_sequences,
        )

    @torch.inference_mode()
    def _run(self, chunks: list[Chunk], giving: list[Sequence]) -> list[int]:
        windows = self._model.config.windows
        step = build_step(chunks, self._blocks.block_size, self._device, self._dtype, windows)
        logits = self._model.forward(step, self._cache)
        return sample(logits, giving) if giving else []

    def _advance(self, sequence: Sequence, token: int) -> Output:
        """Appends a sampled token; text of the tokens that end an answer is not shown."""
        sequence.tokens.append(token)
        ends = token in sequence.sampling.stop_token_ids
        if token in self._end_tokens and not sequence.sampling.ignore_eos:
            ends = True
        text, stopped = "", False
        if not ends:
            text, stopped = sequence.stop_strings.push(sequence.detokenizer.push(token))
        if ends or stopped:
            return self._finish(sequence, FinishReason.STOP, text, (token,), flush=not stopped)
        if sequence.num_output >= sequence.max_tokens:
            return self._finish(sequence, FinishReason.LENGTH, text, (token,), flush=True)
        return Output(sequence.key, text, (token,))

    def _finish(
        self,
        sequence: Sequence,
        reason: FinishReason,
        text: str = "",
        token_ids: tuple[int, ...] = (),
        *,
        flush: bool = False,
        error: str = "",
    ) -> Output:
        del self._live[sequence.key]
        self._scheduler.remove(sequence)
        if flush:
            shown, stopped = sequence.stop_strings.push(sequence.detokenizer.flush())
            text += shown if stopped else shown + sequence.stop_strings.flush()
        return Output(
            sequence.key,
            text,
            token_ids,
            finish_reason=reason,
            num_input_tokens=sequence.num_prompt,
            num_output_tokens=sequence.num_output,
            error=error,
        )

    def _batch_of(self, request: Request) -> int | None:
        """Only run-to-completion modes know batches."""
        return request.batch if self._options.mode.runs_batches else None

    def _sequence(self, request: Request, batch: int | None) -> Sequence:
        if request.key in self._live:
            self.cancel(request.key)
            raise RequestError(f"key {request.key} is taken by a live request: both are ended")
        sampling = request.sampling
        check_sampling(sampling)
        tokens = self._encode(request)
        room = min(self.max_length, self._blocks.capacity_tokens) - len(tokens)
        if room < 1:
            raise RequestError(self._too_long(len(tokens)))
        self._arrivals += 1
        return Sequence(
            key=request.key,
            arrival=self._arrivals,
            tokens=tokens,
            num_prompt=len(tokens),
            max_tokens=min(sampling.max_tokens, room),
            sampling=sampling,
            batch=batch,
            rng=random.Random(sampling.seed),  # noqa: S311 -- sampling, not a secret
            detokenizer=Detokenizer(self._tokenizer),
            stop_strings=StopStrings(sampling.stop),
        )

    def _encode(self, request: Request) -> list[int]:
        if (request.prompt is None) == (request.messages is None):
            raise RequestError("send exactly one of text_input and messages")
        try:
            if request.messages is not None:
                tokens = self._tokenizer.encode_chat(request.messages)
            else:
                tokens = self._tokenizer.encode(request.prompt or "")
        except (ValueError, TypeError) as error:
            raise RequestError(str(error)) from error
        if not tokens:
            raise RequestError("the prompt is empty: send at least one token")
        return tokens

    def _too_long(self, count: int) -> str:
        if count >= self.max_length:
            return (
                f"the prompt has {count} tokens; with at least one token of answer the longest this service takes is "
                f"{self.max_length - 1} (spec.model.maxLength {self.max_length}): send a shorter one"
            )
        return (
            f"the prompt has {count} tokens and the KV cache holds {self._blocks.capacity_tokens}: "
            "send a shorter one, or give the engine more memory (spec.kvCache.memoryPercent)"
        )


def check_sampling(sampling: SamplingParameters) -> None:
    """Raises `RequestError` for parameters outside their bounds."""
    bounds = (
        (sampling.max_tokens >= 1, f"max_tokens is {sampling.max_tokens}: send a whole number from 1"),
        (0.0 <= sampling.temperature < float("inf"), f"temperature is {sampling.temperature}: send a number from 0"),
        (0.0 < sampling.top_p <= 1.0, f"top_p is {sampling.top_p}: send a number above 0, at most 1"),
        (sampling.top_k >= 0, f"top_k is {sampling.top_k}: send 0 (off) or a whole number from 1"),
        (all(sampling.stop), "stop holds an empty string: leave it out"),
    )
    for holds, message in bounds:
        if not holds:
            raise RequestError(message)
    for name in ("n", "min_p", "min_tokens", "logit_bias", "logprobs", *PENALTIES):
        if getattr(sampling, name) != getattr(SamplingParameters(), name):
            raise RequestError(f"{name}: the torch engine does not know it in this version: leave it out")
