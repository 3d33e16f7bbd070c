"""Requests from start to end: stops, limits, cancellation, refusals, seeds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.engine_soak import soak
from llmserving.engine import FinishReason, Request, SamplingParameters
from llmserving.parameters import Mode
from llmtorch.engine import TorchEngine
from llmtorch.model import CausalLM
from tests.unit.torch_engine.tiny import END, Answer, byte_tokenizer, collect, engine_on, greedy, run

pytestmark = pytest.mark.unit


def sampled(key: int, prompt: str, **more: object) -> Request:
    sampling = SamplingParameters(**({"max_tokens": 12, "ignore_eos": True} | more))  # type: ignore[arg-type]
    return Request(key, prompt=prompt, sampling=sampling)


@pytest.fixture
def engine(tiny_llama: Path) -> TorchEngine:
    return engine_on(tiny_llama)


def test_an_answer_has_its_tokens_text_and_counts(engine: TorchEngine) -> None:
    answer = run(engine, greedy(1, "Once upon", max_tokens=5))[1]
    assert answer.reason is FinishReason.LENGTH
    assert answer.last is not None
    assert (answer.last.num_input_tokens, answer.last.num_output_tokens) == (9, 5)
    assert len(answer.tokens) == 5
    assert answer.text == byte_tokenizer().decode(answer.tokens).rstrip("\ufffd")


def test_a_stop_token_ends_the_answer_and_has_no_text(engine: TorchEngine) -> None:
    free = run(engine, greedy(1, "Once upon"))[1]
    stop = free.tokens[4]
    assert stop not in free.tokens[:4]
    stopped = run(engine, greedy(2, "Once upon", stop_token_ids=(stop,)))[2]
    assert stopped.tokens == free.tokens[:5]
    assert stopped.reason is FinishReason.STOP
    assert stopped.text == byte_tokenizer().decode(free.tokens[:4]).rstrip("\ufffd")


def test_a_stop_string_ends_the_answer_before_itself(engine: TorchEngine) -> None:
    prompt, whole = next(
        (prompt, text) for prompt in map(str, range(50)) if len(text := run(engine, greedy(1, prompt))[1].text) > 5
    )
    stop = whole[3:5]
    stopped = run(engine, greedy(2, prompt, stop=(stop, "never")))[2]
    assert stopped.text == whole[: whole.index(stop)]
    assert stopped.reason is FinishReason.STOP


def test_the_end_token_ends_the_answer_unless_ignored(tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = CausalLM.forward

    def always_ends(self: CausalLM, *args: object) -> torch.Tensor:
        logits = forward(self, *args)  # type: ignore[arg-type]
        logits[:, END] = 1000.0
        return logits

    monkeypatch.setattr(CausalLM, "forward", always_ends)
    engine = engine_on(tiny_llama, kernels="torch")
    answers = run(engine, greedy(1, "Once"), greedy(2, "Once", max_tokens=3, ignore_eos=True))
    assert (answers[1].tokens, answers[1].reason, answers[1].text) == ([END], FinishReason.STOP, "")
    assert (answers[2].tokens, answers[2].reason) == ([END] * 3, FinishReason.LENGTH)


def test_a_conversation_goes_through_the_template(engine: TorchEngine) -> None:
    chat = Request(1, messages=({"role": "user", "content": "Hi"},), sampling=SamplingParameters(temperature=0.0))
    answers = run(engine, chat, greedy(2, "user:Hi\n>", max_tokens=16))
    assert answers[1].tokens == answers[2].tokens


def test_a_template_of_the_service_replaces_that_of_the_model(tiny_llama: Path) -> None:
    engine = engine_on(tiny_llama, chat_template="{{ messages[0]['content'] }}!")
    chat = Request(1, messages=({"role": "user", "content": "Hi"},), sampling=SamplingParameters(temperature=0.0))
    answers = run(engine, chat, greedy(2, "Hi!", max_tokens=16))
    assert answers[1].tokens == answers[2].tokens


def test_a_seed_gives_the_same_answer_whatever_else_runs(tiny_llama: Path) -> None:
    one = sampled(1, "Once upon", seed=11, top_p=0.9)
    others = [sampled(10 + i, "x" * (i + 1), seed=i, top_k=i) for i in range(6)]
    alone = run(engine_on(tiny_llama), one)[1].tokens
    assert run(engine_on(tiny_llama, cache_blocks=20), *others, one)[1].tokens == alone
    assert run(engine_on(tiny_llama), replace(one, sampling=replace(one.sampling, seed=12)))[1].tokens != alone


def test_without_a_seed_answers_differ(engine: TorchEngine) -> None:
    answers = run(engine, sampled(1, "Once", temperature=2.0), sampled(2, "Once", temperature=2.0))
    assert answers[1].tokens != answers[2].tokens


def test_cancellation_frees_blocks_at_once(engine: TorchEngine) -> None:
    answers: dict[int, Answer] = defaultdict(Answer)
    engine.add(greedy(1, "Once upon a time", max_tokens=100))
    engine.add(greedy(2, "and", max_tokens=4))
    collect(engine.step(), answers)
    used = engine.status().kv_cache_usage
    engine.cancel(1)
    assert 0 < engine.status().kv_cache_usage < used
    collect(engine.step(), answers)
    assert answers[1].reason is FinishReason.CANCELLED
    assert answers[1].last is not None
    assert answers[1].last.num_output_tokens == 1
    while engine.has_work():
        collect(engine.step(), answers)
    assert answers[2].reason is FinishReason.LENGTH
    assert engine.status().kv_cache_usage == 0


def test_a_request_cancelled_while_it_waits_is_answered(tiny_llama: Path) -> None:
    engine = engine_on(tiny_llama, max_sequences=1)
    engine.add(greedy(1, "Once", max_tokens=3))
    engine.add(greedy(2, "upon"))
    assert {output.key for output in engine.step()} == {1}
    assert (engine.status().waiting, engine.status().running) == (1, 1)
    engine.cancel(2)
    engine.cancel(77)
    assert run(engine)[2].reason is FinishReason.CANCELLED


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (greedy(1, "x" * 300), "300 tokens"),
        (greedy(1, ""), "prompt is empty"),
        (Request(1), "exactly one of text_input and messages"),
        (Request(1, prompt="a", messages=({"role": "user", "content": "a"},)), "exactly one"),
        (Request(1, messages=()), "messages is empty"),
        (Request(1, messages=({"role": "user"},)), "must have role and content"),
        (sampled(1, "a", max_tokens=0), "max_tokens is 0"),
        (sampled(1, "a", temperature=-1.0), "temperature is -1"),
        (sampled(1, "a", temperature=float("nan")), "temperature is nan"),
        (sampled(1, "a", top_p=0.0), "top_p is 0"),
        (sampled(1, "a", top_k=-2), "top_k is -2"),
        (sampled(1, "a", stop=("",)), "empty string"),
    ],
)
def test_a_bad_request_is_refused_in_words_and_harms_nobody(request_: Request, words: str, engine: TorchEngine) -> None:
    answers = run(engine, request_, greedy(2, "Once"))
    last = answers[1].last
    assert last is not None
    assert last.finish_reason is FinishReason.ERROR
    assert last.invalid
    assert words in last.error
    assert len(answers[2].tokens) == 12


def test_a_prompt_larger_than_the_cache_is_refused_with_its_size(tiny_llama: Path) -> None:
    last = run(engine_on(tiny_llama, cache_blocks=5), greedy(1, "x" * 20))[1].last
    assert last is not None
    assert "the KV cache holds 20" in last.error


def test_an_answer_ends_where_the_length_does(tiny_llama: Path) -> None:
    answer = run(engine_on(tiny_llama, max_length=16), greedy(1, "x" * 10, max_tokens=100, ignore_eos=True))[1]
    assert (len(answer.tokens), answer.reason) == (6, FinishReason.LENGTH)


def test_an_answer_that_fills_the_whole_cache_ends_there(tiny_llama: Path) -> None:
    answer = run(engine_on(tiny_llama, cache_blocks=3), greedy(1, "x" * 10, max_tokens=100, ignore_eos=True))[1]
    assert (len(answer.tokens), answer.reason) == (2, FinishReason.LENGTH)


def test_when_the_model_fails_its_sequences_end_and_the_engine_goes_on(
    engine: TorchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> list[int]:
        raise RuntimeError("can't allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(engine._runner, "likeliest", fails)
        last = run(engine, greedy(1, "Once"))[1].last
    assert last is not None
    assert last.finish_reason is FinishReason.ERROR
    assert "can't allocate memory" in last.error
    assert not last.invalid
    assert engine.status().kv_cache_usage == 0
    assert len(run(engine, greedy(2, "Once"))[2].tokens) == 12


def test_at_its_deadline_a_request_ends_with_what_it_has(tiny_llama: Path) -> None:
    now = [100.0]
    engine = engine_on(tiny_llama, clock=lambda: now[0], max_sequences=1)
    answers: dict[int, Answer] = defaultdict(Answer)
    for key in (1, 2):
        engine.add(replace(greedy(key, "Once upon", max_tokens=100, ignore_eos=True), deadline=103.0))
    for now[0] in (101.0, 102.0, 103.0):
        assert engine.has_work()
        collect(engine.step(), answers)
    assert [len(answers[key].tokens) for key in (1, 2)] == [2, 0]
    for answer in answers.values():
        assert answer.last is not None
        assert (answer.reason, answer.last.num_output_tokens) == (FinishReason.DEADLINE, len(answer.tokens))
    assert not engine.has_work()
    assert engine.status().kv_cache_usage == 0


def test_in_mode_none_one_runs_at_a_time(tiny_llama: Path) -> None:
    engine = engine_on(tiny_llama, mode=Mode.NONE)
    for key in range(3):
        engine.add(greedy(key, "Once", max_tokens=2))
    sizes = []
    while engine.has_work():
        engine.step()
        sizes.append(engine.status().batch_size)
    assert sizes == [1] * 6


def test_a_batch_runs_to_completion_and_a_cancelled_member_shrinks_it(tiny_llama: Path) -> None:
    engine = engine_on(tiny_llama, mode=Mode.DYNAMIC)
    members = [
        replace(greedy(key, "Once", max_tokens=3 * key, ignore_eos=True), batch=1, batch_size=3) for key in (1, 2)
    ]
    for member in members:
        engine.add(member)
    assert not engine.has_work(), "a batch waits for its last member"
    engine.add(replace(greedy(3, ""), batch=1, batch_size=3))
    engine.add(replace(greedy(4, "next"), batch=2, batch_size=1))
    answers: dict[int, Answer] = defaultdict(Answer)
    collect(engine.step(), answers)
    assert answers[3].reason is FinishReason.ERROR
    assert engine.status().batch_size == 2
    engine.cancel(1)
    while not answers[2].last:
        collect(engine.step(), answers)
        assert engine.status().batch_size == 1
        assert not answers[4].tokens
    while engine.has_work():
        collect(engine.step(), answers)
    assert len(answers[4].tokens) == 12


def test_a_template_that_breaks_does_not_hold_up_the_batch(tiny_llama: Path) -> None:
    engine = engine_on(tiny_llama, mode=Mode.DYNAMIC, chat_template="{{ 1 // 0 }}")
    engine.add(replace(greedy(1, "Once"), batch=1, batch_size=2))
    with pytest.raises(ZeroDivisionError):
        engine.add(Request(2, messages=({"role": "user", "content": "Hi"},), batch=1, batch_size=2))
    answers: dict[int, Answer] = defaultdict(Answer)
    while engine.has_work():
        collect(engine.step(), answers)
    assert answers[1].reason is not None


def test_closing_ends_everything(engine: TorchEngine) -> None:
    engine.add(greedy(1, "Once"))
    engine.step()
    engine.close()
    assert not engine.has_work()


@pytest.mark.parametrize("mode", [Mode.CONTINUOUS, Mode.DYNAMIC])
def test_whatever_comes_is_answered_once_and_leaves_nothing_behind(mode: Mode, tiny_llama: Path) -> None:
    tested = soak(tiny_llama, mode, seed=5)
    tested.run(40)
    assert tested.wrong == 0
    assert tested.ends.keys() >= {
        FinishReason.LENGTH,
        FinishReason.CANCELLED,
        FinishReason.ERROR,
        FinishReason.DEADLINE,
    }
    engine, status = tested.engine, tested.engine.status()
    assert (status.waiting, status.running, status.kv_cache_usage) == (0, 0, 0.0)
    assert len(engine._scheduler._batches) == 0
    assert not engine._groups
    assert not engine._answers
