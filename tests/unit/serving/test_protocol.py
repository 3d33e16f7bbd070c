"""Messages survive the socket, whatever is in them and however it cuts them."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmserving.engine import FinishReason, Output, Request, SamplingParameters, TokenLogprob
from llmserving.protocol import (
    Add,
    Bye,
    Cancel,
    FrameReader,
    Hello,
    Message,
    ProtocolError,
    Step,
    Welcome,
    check_version,
    decode,
    encode,
)

pytestmark = pytest.mark.unit

keys = st.integers(0, 2**53)
texts = st.text(max_size=30)
ids = st.lists(st.integers(0, 2**31 - 1), max_size=5).map(tuple)
samplings = st.builds(
    SamplingParameters,
    max_tokens=st.integers(1, 4096),
    temperature=st.floats(0, 100),
    seed=st.none() | keys,
    stop=st.lists(texts, max_size=3).map(tuple),
    stop_token_ids=ids,
    ignore_eos=st.booleans(),
    logit_bias=st.lists(st.tuples(keys, st.floats(-9, 9)), max_size=3).map(tuple),
    logprobs=st.none() | keys,
    n=keys,
)
logprobs = st.lists(
    st.builds(
        TokenLogprob, keys, texts, st.floats(-9, 0), st.lists(st.tuples(keys, texts, st.floats(-9, 0))).map(tuple)
    ),
    max_size=3,
).map(tuple)
requests = st.builds(
    Request,
    key=keys,
    prompt=texts,
    sampling=samplings,
    batch=st.none() | keys,
    priority=keys,
    deadline=st.none() | st.floats(0, 1e9),
)
outputs = st.builds(Output, key=keys, text=texts, token_ids=ids, index=keys, logprobs=logprobs) | st.builds(
    Output,
    key=keys,
    text=texts,
    token_ids=ids,
    finish_reason=st.sampled_from(FinishReason),
    num_input_tokens=keys,
    num_output_tokens=keys,
    index=keys,
    logprobs=logprobs,
    unfinished=keys,
    error=texts,
    invalid=st.booleans(),
)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Hello, keys),
    st.builds(Welcome, texts, keys, keys),
    st.builds(Add, st.lists(st.tuples(keys, requests), max_size=3).map(tuple)),
    st.builds(Cancel, ids),
    st.builds(Step, st.lists(outputs, max_size=4).map(tuple)),
    st.just(Bye()),
)


@given(messages)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert decode(encode(message)[4:]) == message


def test_chat_messages_come_back_as_they_were() -> None:
    request = Request(key=1, messages=({"role": "user", "content": "Hé"},))
    assert decode(encode(Add(((3, request),)))[4:]) == Add(((3, request),))


def test_half_a_surrogate_pair_passes() -> None:
    step = Step((Output(key=1, text="\ud83d"),))
    assert decode(encode(step)[4:]) == step


def test_frames_are_cut_anywhere() -> None:
    left, right = socket.socketpair()
    with left, right:
        reader = FrameReader(right)
        both = encode(Cancel((1,))) + encode(Cancel((2,)))
        left.sendall(both[:3])
        left.sendall(both[3:-2])
        assert reader.read() == Cancel((1,))
        left.sendall(both[-2:])
        assert reader.read() == Cancel((2,))
        left.sendall(both[:5])
        left.shutdown(socket.SHUT_RDWR)
        assert reader.read() is None


@pytest.mark.parametrize("payload", [b"", b"{}", b"[]", b'["s"]', b'["z",1]', b"\xff", b'["a",[[1]]]'])
def test_nonsense_is_an_error(payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(payload)


def test_a_frame_beyond_all_measure_is_an_error() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"\xff\xff\xff\xff")
        with pytest.raises(ProtocolError, match="the limit is"):
            FrameReader(right).read()


def test_another_version_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="use one release for both"):
        check_version(0)
