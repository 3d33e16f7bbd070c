"""What `llmservice simulate` refuses, and the words it does so in."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

from llmservice.cli import played_load
from llmservice.cli.main import app
from llmservice.cli.played_load import Request, load_and_engine

pytestmark = pytest.mark.unit

FILES = {
    "azure": b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,5,2\n2023-11-16 18:00:09,6,2\n",
    "rates": b"time_s,rps\n0,5\n60,6\n",
    "few": b"time_s,rps\n0,0.0001\n60,0.0001\n",
    "many": b"time_s,rps\n0,900000\n60,900000\n",
    "month": b"time_s,rps\n0,0.01\n2678400,0.01\n",
    "short": b"time_s,rps\n0,5\n1e-6,5\n",
    "twice": b"time_s,rps,rps\n0,5,7\n60,5,7\n",
    "words": b"time_s,rps\n0,5\n60,many\n",
    "gzip": gzip.compress(b"time_s,rps\n"),
    "utf16": "time_s,rps\n".encode("utf-16"),
}
PAST = "--from-prometheus http://127.0.0.1:9 --service a/b"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--trace {}/none", "--trace: {}/none: No such file or directory"),
        ("--trace {}", "--trace: {}: Is a directory"),
        ("--trace {}/gzip", "{}/gzip: not UTF-8 text (byte 1): unpack it, or save it as UTF-8"),
        ("--trace {}/utf16", "{}/utf16: not UTF-8 text (byte 0)"),
        ("--trace {}/words", "{}/words: line 3: rps is 'many': write a number of requests/s"),
        (
            "--trace {}/few",
            "--trace: no request comes at so low a rate, or within so short a time: write a higher --rate",
        ),
        ("--trace {}/short", "--trace: no request comes at so low a rate, or within so short a time"),
        ("--trace {}/twice", "{}/twice: line 1: two columns are named 'rps': rename or leave out one of them"),
        (
            "--engine dynamic --per-token 1ms",
            "--per-token: a batch that runs to completion has no time per token: write --latency, or",
        ),
        ("--trace {}/many", "900000 requests/s over 0.03 h are more than 30,000,000 requests: write --rate 2.5e+05"),
        ("--trace {}/month", "the load lasts 62 days: play 31 or less"),
        ("--trace {}/rates --inside x", "--inside: no x: write linear, stepwise"),
        ("--trace {}/rates --column time_s", "{}/rates: line 1: no column 'time_s' of rates: there are rps"),
        ("--trace {}/rates --load days", "--trace: --load says what to play, too: write one of the two"),
        ("--trace {}/azure --column x", "--column: {}/azure has requests, which are played as they came"),
        ("--trace {}/azure --rate 5", "--rate: {}/azure has requests"),
        ("--trace {}/azure --inside linear", "--inside: {}/azure has requests"),
        ("--trace {}/rates " + PAST, "--from-prometheus: --trace says what to play, too"),
        ("--load days " + PAST, "--from-prometheus: --load says what to play, too"),
        ("--engine dynamic " + PAST, "--from-prometheus: --engine says what to play, too"),
        ("--column rps", "--column: it belongs to --trace: write that too, or leave it out"),
        ("--service a/b", "--service: it belongs to --from-prometheus"),
        ("--load x", "--load: no x: write steady, steps,"),
        ("--engine x", "--engine: no x: write dynamic, llama-8b-a100"),
        ("--rate inf", "--rate"),
        ("--rate nan", "--rate"),
        ("--rate 0", "--rate"),
        ("--days 0", "--days"),
        ("--days 32", "--days"),
        ("--load steps --days 2", "--days: steps has its own length: leave it out, or write --load days"),
        ("--trace {}/rates --days 2", "--trace: --days says what to play, too: write one of the two"),
        ("--load steady --rate 1000000", "requests: write --rate 1.67e+04 or less"),
        ("--latency 0s", "--latency: 0s is no time: write one above zero, such as 300ms"),
        ("--days 2 " + PAST, "--from-prometheus: --days says what to play, too"),
        (
            "--days 31 --rate 20",
            "20 requests/s over 744.00 h are more than 30,000,000 requests: write --rate 11.2 or less",
        ),
        ("--from-prometheus= --service a/b", "an empty text is no URL of a Prometheus: write http://HOST:PORT"),
        ("--from-prometheus http://[bad --service a/b", "http://[bad is no URL of a Prometheus"),
        ("--from-prometheus http://127.0.0.1:9", "--service: write --service NAMESPACE/NAME"),
        ('--from-prometheus http://127.0.0.1:9 --service a/b"}}', "--service: write --service NAMESPACE/NAME"),
        ("--batching x " + PAST, "--batching: no x: write Continuous, Dynamic"),
        ("--past 0s " + PAST, "--past: 0s is no time"),
        ("--past 1000h " + PAST, "--past: 1000h is too long: write 744h or less"),
    ],
)
def test_bad_input_is_told(files: Path, options: str, told: str) -> None:
    ended = CliRunner(env={"COLUMNS": "500"}).invoke(app, ["simulate", *options.format(files).split()])
    assert ended.exit_code == 2, ended.exception
    assert told.format(files) in ended.output


@pytest.mark.parametrize("options", ["--trace {}/azure", "--trace {}/rates --rate 1 --inside stepwise"])
def test_good_input_is_played(files: Path, options: str) -> None:
    ended = CliRunner().invoke(app, ["simulate", *options.format(files).split()])
    assert ended.exit_code == 0, ended.output
    assert "requests in" in ended.output


@pytest.mark.parametrize(("holes", "told"), [(1, "1 window is a hole"), (2, "2 windows are holes")])
def test_holes_that_were_filled_in_are_told(tmp_path: Path, holes: int, told: str) -> None:
    rates = [5] * 20 + [0] * holes + [5] * 20
    rows = [f"{60 * place},{rate}" for place, rate in enumerate(rates)]
    (tmp_path / "rates").write_text("\n".join(["time_s,rps", *rows]))
    ended = CliRunner().invoke(app, ["simulate", "--trace", str(tmp_path / "rates")])
    assert f"{told} in the recording, filled in here" in ended.output


def test_a_number_of_replicas_that_does_not_do_is_told(files: Path) -> None:
    ended = CliRunner().invoke(
        app, ["simulate", "--trace", f"{files}/azure", "--latency", "1us", "--max-replicas", "2"]
    )
    assert ended.exit_code == 0, ended.output
    assert "fixed 2" in ended.output
    assert "not even 2 replicas, never changed, give 99% of the requests their objectives: write" in ended.output
    ended = CliRunner().invoke(app, ["simulate", "--trace", f"{files}/azure", "--max-replicas", "2"])
    assert "not even" not in ended.output


@pytest.mark.parametrize("kind", ["dynamic", "llama-8b-a100"])
@pytest.mark.parametrize("days", [1, 31])
def test_days_are_thinned_without_a_rate(kind: str, days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a fast engine's capacity is more than can be played, and nobody asked for that much."""
    monkeypatch.setattr(played_load, "THINNED", 0.02)
    asked = Request(kind, "days", None, None, None, "linear", None, None, None, 64, "3m", 0, days=days)
    _, load = load_and_engine(asked)
    assert load.seconds == days * 86400
    assert load.mean_rate == pytest.approx(0.02, rel=0.2)
