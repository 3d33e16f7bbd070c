"""Text comes in whole characters, as soon as they are whole; in the end it is what decoding all at once gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from llmserving.chat import ChatTemplate
from llmserving.detokenizer import (
    CONTEXT,
    LONGEST_WAIT,
    REPLACEMENT,
    SPACE,
    ByteDetokenizer,
    Detokenizer,
    TokenBytes,
    WindowDetokenizer,
    special_tokens,
)
from llmserving.tokenizer import TextTokenizer
from tests.unit.torch_engine.tiny import byte_tokenizer

pytestmark = pytest.mark.unit

SOME_TEXT = ("the theatre there", "über öl", "日本 日本語", "🦊🦊 fox", "  two  spaces\n")
WORDS = st.text(st.sampled_from("the über日本🦊 \n\t1é"), max_size=20)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=REPLACEMENT), max_size=20)


def merging_bytes() -> Tokenizer:
    """Byte-level BPE with merges, some of which end within a character, a special token and an added one."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(SOME_TEXT * 3, trainer)
    tokenizer.add_special_tokens([AddedToken("<end>", special=True)])
    tokenizer.add_tokens([AddedToken("two words", special=False), AddedToken("<tool>", special=False)])
    return tokenizer


def sentencepiece(*, strips: bool = True) -> Tokenizer:
    """As Llama 2 has it: words begin with their space, and what has no token is spelled in bytes."""
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), SPACE, *"theatr", f"{SPACE}t"]
    vocabulary = {name: index for index, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [(SPACE, "t")], unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    steps: list[Any] = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)] if strips else steps)
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in names[:3]])
    return tokenizer


def metaspace() -> Tokenizer:
    """One whose first word loses its space by another rule."""
    names = ["<unk>", SPACE, *"theatr", f"{SPACE}t", REPLACEMENT]
    tokenizer = Tokenizer(models.BPE({name: index for index, name in enumerate(names)}, [(SPACE, "t")]))
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken("<unk>", special=True)])
    return tokenizer


BYTES, MERGING, PIECES, META = (byte_tokenizer(), merging_bytes(), sentencepiece(), metaspace())


def text(tokenizer: Tokenizer) -> TextTokenizer:
    return TextTokenizer(tokenizer, ChatTemplate(None, {}))


def named(tokenizer: Tokenizer, name: str) -> int:
    found = tokenizer.token_to_id(name)
    assert found is not None
    return found


def shown(detokenizer: Detokenizer, tokens: Sequence[int]) -> str:
    return "".join([*(detokenizer.push(token) for token in tokens), detokenizer.flush()])


def whole(tokenizer: Tokenizer, tokens: Sequence[int]) -> str:
    return str(tokenizer.decode(list(tokens), skip_special_tokens=True))


@given(ANY_TEXT)
def test_every_character_comes_whole_and_at_once(said: str) -> None:
    detokenizer = text(BYTES).detokenizer()
    for character in said:
        pieces = [detokenizer.push(token) for token in BYTES.encode(character).ids]
        assert pieces == [""] * (len(pieces) - 1) + [character]
    assert detokenizer.flush() == ""


@pytest.mark.parametrize("tokenizer", [BYTES, MERGING], ids=["bytes", "merging"])
@given(data=st.data())
def test_any_tokens_of_byte_level_bpe_give_what_decoding_them_at_once_does(
    tokenizer: Tokenizer, data: st.DataObject
) -> None:
    token = st.integers(0, tokenizer.get_vocab_size() + 2)  # a model may have more than its tokenizer
    tokens = data.draw(st.lists(token, max_size=30))
    expected = whole(tokenizer, tokens)
    found = shown(text(tokenizer).detokenizer(), tokens)
    assert found in (expected, expected.removesuffix(REPLACEMENT))


@pytest.mark.parametrize(
    "tokenizer", [MERGING, PIECES, sentencepiece(strips=False)], ids=["merging", "sentencepiece", "unstripped"]
)
@given(said=st.one_of(WORDS, ANY_TEXT), ends=st.integers(0, 3))
def test_what_was_said_comes_back_the_same_as_at_once(tokenizer: Tokenizer, said: str, ends: int) -> None:
    special = tokenizer.get_added_tokens_decoder()
    tokens = [*list(special)[:ends], *tokenizer.encode(said, add_special_tokens=False).ids, *list(special)[:1]]
    assert shown(text(tokenizer).detokenizer(), tokens) == whole(tokenizer, tokens)


@given(st.lists(st.integers(0, META.get_vocab_size() - 2), max_size=30))
def test_other_tokenizers_are_decoded_by_windows(tokens: list[int]) -> None:
    detokenizer = text(META).detokenizer()
    assert isinstance(detokenizer, WindowDetokenizer)
    assert shown(detokenizer, tokens) == whole(META, tokens)


@pytest.mark.parametrize("tokenizer", [PIECES, META], ids=["sentencepiece", "metaspace"])
def test_the_first_word_keeps_its_space_where_the_answer_goes_on_with_a_text(tokenizer: Tokenizer) -> None:
    said = [named(tokenizer, name) for name in (f"{SPACE}t", "h", "e", f"{SPACE}t", "a")]
    assert shown(text(tokenizer).detokenizer(), said[3:]) == "ta"
    assert shown(text(tokenizer).detokenizer(said[:3]), said[3:]) == " ta"
    assert whole(tokenizer, said) == "the ta"


def test_a_text_of_special_tokens_alone_is_none_to_go_on_with() -> None:
    start, word = named(PIECES, "<s>"), named(PIECES, f"{SPACE}t")
    assert shown(text(PIECES).detokenizer([start]), [word]) == "t"


def test_half_a_character_at_the_end_is_not_shown() -> None:
    detokenizer = text(BYTES).detokenizer()
    assert [detokenizer.push(token) for token in BYTES.encode("a€").ids[:-1]] == ["a", "", ""]
    assert detokenizer.flush() == ""


def test_bytes_that_are_no_character_do_not_hold_up_what_follows() -> None:
    for tokenizer, letter in ((BYTES, "b"), (PIECES, "t")):
        detokenizer = text(tokenizer).detokenizer()
        broken = BYTES.encode("€").ids[0] if tokenizer is BYTES else named(PIECES, "<0xE2>")
        assert detokenizer.push(broken) == ""
        assert detokenizer.push(named(tokenizer, letter)) == f"{REPLACEMENT}{letter}"


def test_special_tokens_have_no_text() -> None:
    for tokenizer, name, letter in ((BYTES, "<end>", "b"), (META, "<unk>", "h")):
        detokenizer = text(tokenizer).detokenizer()
        assert detokenizer.push(named(tokenizer, name)) == ""
        assert detokenizer.push(named(tokenizer, letter)) == letter


def test_a_token_costs_the_same_however_long_the_answer_is() -> None:
    counting: Any = Counting(META)
    detokenizer = WindowDetokenizer(counting, special_tokens(META), [1] * 1000)
    names = ["h", "<unk>", REPLACEMENT, SPACE]
    for name in names:  # each alone used to hold up the window, or had no text to move it
        for _ in range(300):
            detokenizer.push(named(META, name))
    assert 0 < counting.longest <= CONTEXT + LONGEST_WAIT


def test_which_way_a_tokenizer_is_decoded() -> None:
    for tokenizer, way in ((BYTES, ByteDetokenizer), (PIECES, ByteDetokenizer), (META, WindowDetokenizer)):
        assert isinstance(text(tokenizer).detokenizer(), way)
    without = sentencepiece()
    without.decoder = None
    assert TokenBytes.of(without, special_tokens(without)) is None


class Counting:
    """A tokenizer that keeps the length of the longest list it had to decode."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.longest = 0

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        self.longest = max(self.longest, len(ids))
        return str(self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)
