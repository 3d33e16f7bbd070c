"""Text comes in whole characters, as soon as they are whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmserving.chat import ChatTemplate
from llmserving.tokenizer import REPLACEMENT, Detokenizer, TextTokenizer
from tests.unit.torch_engine.tiny import byte_tokenizer

pytestmark = pytest.mark.unit

BYTES = TextTokenizer(byte_tokenizer(), ChatTemplate(None, {}))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters=REPLACEMENT), max_size=20))
def test_every_character_comes_whole_and_at_once(text: str) -> None:
    detokenizer = Detokenizer(BYTES)
    shown = ""
    for character in text:
        pieces = [detokenizer.push(token) for token in BYTES.encode(character)]
        shown += "".join(pieces)
        assert pieces[-1] == character
    assert shown == text
    assert detokenizer.flush() == ""


def test_half_a_character_at_the_end_is_not_shown() -> None:
    detokenizer = Detokenizer(BYTES)
    tokens = BYTES.encode("a€")[:-1]
    assert [detokenizer.push(token) for token in tokens] == ["a", "", ""]
    assert detokenizer.flush() == ""


def test_bytes_that_are_no_character_do_not_hold_up_what_follows() -> None:
    detokenizer = Detokenizer(BYTES)
    broken = BYTES.encode("€")[0]
    assert detokenizer.push(broken) == ""
    assert detokenizer.push(BYTES.encode("b")[0]) == f"{REPLACEMENT}b"


def test_special_tokens_have_no_text() -> None:
    detokenizer = Detokenizer(BYTES)
    end = BYTES.token_id("<end>")
    assert end is not None
    assert detokenizer.push(end) == ""
    assert detokenizer.push(BYTES.encode("b")[0]) == "b"
