"""Streams one answer with OpenAI's own client, unchanged: python openai_chat.py URL MODEL QUESTION.

URL ends in /v1, as in http://smollm2:8003/v1. Where the service asks for a key, put it into OPENAI_API_KEY.
"""

from __future__ import annotations

import os
import sys

import openai


def chat(url: str, model: str, question: str) -> None:
    """Prints the answer as it arrives, then what it cost. Raises openai.APIError when the service refuses."""
    with openai.OpenAI(base_url=url, api_key=os.environ.get("OPENAI_API_KEY", "none needed")) as client:
        stream = client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": question}],
            max_completion_tokens=128,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={
                "priority": 1
            },  # this project's extension: 1 is the highest level, where the service has levels
        )
        for chunk in stream:
            for choice in chunk.choices:
                sys.stdout.write(choice.delta.content or "")
                sys.stdout.flush()
            if chunk.usage:
                sys.stdout.write(f"\n{chunk.usage.prompt_tokens} + {chunk.usage.completion_tokens} tokens\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    chat(sys.argv[1], sys.argv[2], sys.argv[3])
