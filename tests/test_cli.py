"""The command line: what it writes, how it ends, and what it says of bad input."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from orx_rx import read_cassette
from orx_rx.cli import main
from orx_rx.cli.meter import Meter
from orx_rx.cli.output import note, progress
from orx_rx.cli.picture import picture_of
from orx_rx.cli.svg_picture import svg
from orx_rx.cli.terminal_picture import terminal_lines
from orx_rx.protocol.cassette import Cassette, Chunk, write_cassette
from orx_rx.simulator import Simulator
from orx_rx.simulator.faults import Fault
from orx_rx.simulator.threaded import ThreadedSimulator
from tests.conftest import ROOT

pytest.importorskip("cyclopts", reason="expected the extra `cli`, found none")

# SIGINT as a shell leaves it for a command in the foreground, however the tests themselves were started
_COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from orx_rx.cli import main
sys.exit(main(sys.argv[1:]))
"""

_AT_TERMINAL = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
"""

STORY = ROOT / "examples" / "data" / "story.sse"
EVENT = b'event: response.created\ndata: {"type":"response.created"}\n\n'


@pytest.fixture(scope="module")
def simulator() -> Iterator[ThreadedSimulator]:
    with Simulator.in_thread() as running:
        yield running


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ORX_BASE_URL", "ORX_API_KEY", "ORX_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


class Outcome:
    """What a command in this process came to."""

    def __init__(self, capsys: pytest.CaptureFixture[str], tokens: tuple[str, ...]) -> None:
        self.code: int = main(tokens)
        self.out: str
        self.err: str
        self.out, self.err = capsys.readouterr()


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def command(
    *tokens: str,
    stdin: int | None = None,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    at_terminal: bool = False,  # where stdin is one, make it the one whose Ctrl-C the process gets
) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    words = [sys.executable, "-c", _AT_TERMINAL + _COMMAND if at_terminal else _COMMAND, *tokens]
    return subprocess.Popen(
        words, env=environment, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=at_terminal
    )


def cassette(path: Path, ended: float) -> str:
    path.write_bytes(write_cassette(Cassette((Chunk(0.0, STORY.read_bytes()),), ended=ended)))
    return str(path)


# streams


@pytest.mark.parametrize(
    ("model", "code", "written", "told"),
    [
        ("story", 0, "Zoë", "tokens: 1 in, 88 out"),
        ("reasoning", 0, "After some thought: forty-two.\n", "tokens:"),
        ("tools", 0, "", 'call: get_weather {"location"'),
        ("failed", 3, "You said", "expected a completed response, got failed: server_error:"),
        ("incomplete", 4, "You said", "expected a completed response, got incomplete: max_output_tokens"),
    ],
)
def test_a_stream_is_written_as_text_and_its_end_is_the_exit_code(
    simulator: ThreadedSimulator, capsys: pytest.CaptureFixture[str], model: str, code: int, written: str, told: str
) -> None:
    outcome = Outcome(capsys, ("stream", "hi", "--model", model, "--base-url", simulator.base_url))
    assert outcome.code == code
    assert written in outcome.out
    assert told in outcome.err


def test_json_is_a_line_for_each_event(simulator: ThreadedSimulator, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, ("stream", "hi", "--json", "--model", "story", "--base-url", simulator.base_url))
    types = [json.loads(line)["type"] for line in outcome.out.splitlines()]
    assert (types[0], types[-1]) == ("response.created", "response.completed")


def test_raw_is_what_the_server_sent_and_so_is_what_is_saved(
    simulator: ThreadedSimulator, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved = tmp_path / "saved.jsonl"
    asked = ("--model", "failed", "--base-url", simulator.base_url)
    outcome = Outcome(capsys, ("stream", "hi", "--raw", "--save", str(saved), *asked))
    assert outcome.code == 3
    assert outcome.out.encode() == read_cassette(saved).body


def test_a_recording_replays_as_the_stream_that_it_is_of(
    simulator: ThreadedSimulator, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = str(tmp_path / "tape.jsonl")
    asked = ("--model", "incomplete", "--base-url", simulator.base_url)
    streamed = Outcome(capsys, ("stream", "hi", *asked))
    recorded = Outcome(capsys, ("record", "hi", file, *asked))
    replayed = Outcome(capsys, ("replay", file, "--fast"))
    assert (recorded.code, recorded.out) == (4, "")
    assert (replayed.code, replayed.out, replayed.err) == (4, streamed.out, streamed.err)


@pytest.mark.parametrize("words", [("record", "hi", "FILE"), ("stream", "hi", "--save", "FILE")])
def test_a_cassette_is_written_over_if_that_is_asked_for(
    simulator: ThreadedSimulator, capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    file = tmp_path / "tape.jsonl"
    asked = [str(file) if word == "FILE" else word for word in words] + ["--base-url", simulator.base_url, "--model"]
    file.touch()  # nothing is lost of a file that is empty, as a temporary one is
    assert Outcome(capsys, (*asked, "story")).code == 0
    before = file.read_bytes()
    assert Outcome(capsys, (*asked, "failed")).code == 2
    assert file.read_bytes() == before
    assert Outcome(capsys, (*asked, "failed", "--force")).code == 3
    assert b"response.failed" in read_cassette(file).body


def test_a_stream_that_breaks_off_is_interrupted_and_has_no_cursor_in_the_foreground(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Simulator.in_thread(faults=[Fault("cut", after_events=6)]) as broken:
        outcome = Outcome(capsys, ("stream", "hi", "--model", "story", "--base-url", broken.base_url))
    (complaint,) = outcome.err.splitlines()
    assert outcome.code == 5
    assert complaint.startswith("orx-rx: expected ")


@pytest.mark.parametrize("given", ["argument", "stdin"])
def test_a_background_stream_that_was_given_up_goes_on_behind_its_cursor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    gone = [Fault("cut", connection=0, after_events=20), *(Fault("not_found", request=number) for number in (1, 2))]
    with Simulator.in_thread(faults=gone) as broken:
        at = ("--base-url", broken.base_url)
        whole = Outcome(capsys, ("stream", "hi", "--background", "--model", "story", *at))
        cursor, *told = whole.err.splitlines()
        stdin(monkeypatch, whole.err.encode())
        rest = Outcome(capsys, ("stream", "--resume", cursor if given == "argument" else "-", *at))
    assert whole.code == 5
    assert told[0] == "tried again: resume, poll"
    assert (rest.code, rest.err) == (0, "tokens: 1 in, 88 out\n")
    assert (whole.out.removesuffix("\n") + rest.out).endswith("It was. 🌊\n")
    assert broken.requests[-1].query["starting_after"] == str(json.loads(cursor)["sequence_number"])


def test_a_cursor_that_leads_nowhere_is_told_again(
    simulator: ThreadedSimulator, capsys: pytest.CaptureFixture[str]
) -> None:
    cursor = '{"response_id": "resp_gone", "sequence_number": 5}'
    outcome = Outcome(capsys, ("stream", "--resume", cursor, "--base-url", simulator.base_url))
    told, *_, complaint = outcome.err.splitlines()
    assert (outcome.code, outcome.out, told) == (5, "", cursor)
    assert complaint.startswith(
        "orx-rx: the stream broke off and could not be resumed: expected HTTP status 200, got 404"
    )


def test_a_background_stream_that_breaks_off_goes_on_in_another_cassette(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with Simulator.in_thread(faults=[Fault("cut", connection=0, after_events=6)]) as broken:
        asked = ("--background", "--model", "story", "--base-url", broken.base_url)
        outcome = Outcome(capsys, ("stream", "hi", "--save", str(tmp_path / "tape.jsonl"), *asked))
    assert outcome.code == 0
    assert "tried again: resume\n" in outcome.err
    assert "tape.jsonl, " in outcome.err
    assert "tape-2.jsonl\n" in outcome.err
    assert outcome.out.endswith("It was. 🌊\n")


def test_the_prompt_comes_from_stdin_where_that_is_no_terminal_however_long_it_is(
    simulator: ThreadedSimulator, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in ((), ("-",)):
        stdin(monkeypatch, b"x" * 1_000_000)
        asked = ("--model", "story", "--base-url", simulator.base_url)
        outcome = Outcome(capsys, ("stream", *words, *asked))
        assert (outcome.code, outcome.err) == (0, "tokens: 1 in, 88 out\n")
        body = simulator.requests[-1].body
        assert body is not None
        assert body["input"] == "x" * 1_000_000


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no disk that is always full")
def test_a_cassette_that_finds_no_room_is_told_and_the_answer_is_whole(
    simulator: ThreadedSimulator, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--model", "story", "--base-url", simulator.base_url)
    outcome = Outcome(capsys, ("stream", "hi", "--save", "/dev/full", *asked))
    assert outcome.code == 2
    assert outcome.out.endswith("It was. 🌊\n")
    assert outcome.err.splitlines()[-1].startswith("orx-rx: expected a cassette to write, got: ")


def test_simulate_lists_its_models(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, ("simulate", "--models"))
    assert outcome.code == 0
    assert outcome.out.startswith("story           Tell a short story, word by word.\n")


def test_a_key_comes_from_the_environment_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Simulator.in_thread(api_key="sk-right") as guarded:
        asked = ("stream", "hi", "--model", "story", "--base-url", guarded.base_url)
        monkeypatch.setenv("ORX_API_KEY", "sk-wrong")
        refused = Outcome(capsys, asked)
        monkeypatch.setenv("ORX_API_KEY", "sk-right")
        answered = Outcome(capsys, asked)
    assert (refused.code, answered.code) == (1, 0)
    assert refused.err.startswith("orx-rx: expected HTTP status 200, got 401")
    assert "sk-" not in refused.err
    assert Outcome(capsys, ("stream", "hi", "--model", "story", "--api-key", "sk-right")).code == 2


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
def test_a_terminal_is_told_that_the_request_is_sent_once_more_until_the_answer_comes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pty

    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    busy = Fault("status", request=0, status=503, retry_after_ms="1")
    with open(theirs, "w", encoding="utf-8") as terminal, Simulator.in_thread(faults=[busy]) as server:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert main(("stream", "hi", "--model", "story", "--base-url", server.base_url)) == 0
        read = b""
        while b" in all" not in read:
            read += os.read(ours, 1024)
    os.close(ours)
    told, _, rest = read.decode().partition("503")
    assert told.startswith("\r\x1b[Konce more in 0.0 s: expected HTTP status 200, got ")
    assert rest.partition("\r\x1b[K")[2].startswith("tokens: 1 in, 88 out\r\n")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
def test_a_line_that_moves_fits_into_the_terminal_and_a_dumb_one_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import pty
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 20))
    with open(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "dumb")
        progress("not for you")
        note("dimmed", dim=True)
        monkeypatch.setenv("TERM", "xterm")
        progress("no\x1b token for a very long time")
        note("!")
        read = b""
        while not read.endswith(b"!\r\n"):
            read += os.read(ours, 1024)
    os.close(ours)
    assert read.decode() == "dimmed\r\n\r\x1b[Kno\N{REPLACEMENT CHARACTER} token for a ver!\r\n"


def test_the_pace_is_that_of_the_tokens_behind_the_first() -> None:
    meter = Meter(started=10.0)
    assert meter.line(10.5) == "no token for 0.5 s"
    for at in (11.0, 12.0, 13.0):
        meter.piece(at)
    assert meter.line(13.5) == "first token after 1.00 s, 1 tokens/s, 3.5 s in all"
    assert meter.line(13.5, tokens=21) == "first token after 1.00 s, 10 tokens/s, 3.5 s in all"


# checks and pictures


@pytest.mark.parametrize(("profile", "code"), [("default", 0), ("strict", 1)])
def test_check_ends_with_what_the_profile_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, profile: str, code: int
) -> None:
    file = tmp_path / "without_done.sse"
    file.write_bytes(STORY.read_bytes().replace(b"data: [DONE]\n\n", b""))
    outcome = Outcome(capsys, ("check", str(file), "--profile", profile))
    assert outcome.code == code
    assert "missing_done" in outcome.out


def test_check_reports_the_times_of_a_cassette_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = Outcome(capsys, ("check", cassette(tmp_path / "tape.jsonl", ended=1.5), "--json"))
    report = json.loads(outcome.out)
    assert (outcome.code, report["passes_default"], report["first_event"]) == (0, True, 0.0)


def test_check_asks_a_server_for_one_stream(simulator: ThreadedSimulator, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, ("check", simulator.base_url, "--model", "story"))
    assert outcome.code == 0
    assert "response.completed, [DONE]" in outcome.out


def test_active_checks_ask_more(simulator: ThreadedSimulator, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = Outcome(capsys, ("check", simulator.base_url, "--model", "story", "--active", "--json"))
    results = [json.loads(line) for line in outcome.out.splitlines()]
    assert outcome.code == int(any(result["outcome"] == "fail" for result in results))
    assert len(results) > 5


def test_active_checks_of_a_server_that_refuses_the_key_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Simulator.in_thread(api_key="sk-right") as guarded:
        outcome = Outcome(capsys, ("check", guarded.base_url, "--model", "story", "--active"))
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("orx-rx: expected HTTP status 200, got 401")


def test_a_report_gives_its_words_the_whole_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("orx_rx.cli.check._WIDTH", 80)
    file = tmp_path / "without_done.sse"
    file.write_bytes(STORY.read_bytes().replace(b"data: [DONE]\n\n", b""))
    lines = Outcome(capsys, ("check", str(file))).out.splitlines()
    assert [line.rstrip() for line in lines[-3:]] == [
        "warning missing_done in stream",
        "        expected [DONE] after the terminal, got the end of the stream",
        "        Clients that wait for [DONE] wait until the connection closes.",
    ]


def test_a_picture_has_a_lane_for_the_response_each_item_and_each_part() -> None:
    picture = picture_of([Cassette((Chunk(0.0, STORY.read_bytes()),))], timed=False)
    assert [lane.place for lane in picture.lanes] == ["", "output[0]", "output[0].content[0]"]
    kinds = [[mark.kind for mark in lane.marks] for lane in picture.lanes]
    assert kinds[0][0] == "open"
    assert kinds[0][-2:] == ["completed", "end"]
    assert set(kinds[2]) == {"open", "delta", "event", "close"}
    assert picture.violations == ()


def test_a_picture_tells_a_rule_once_and_shows_the_terminal_even_where_it_was_broken() -> None:
    broken = STORY.read_bytes().replace(b'"background":false,', b"").replace(b"data: [DONE]\n\n", b"")
    picture = picture_of([Cassette((Chunk(0.0, broken),))], timed=False)
    assert [line.partition(":")[0] for line in picture.violations] == ["field_missing, 3 times, first", "missing_done"]
    lines = [line.plain for line in terminal_lines(picture, 60)]
    assert lines[0].endswith("◆")
    assert lines[2].startswith("  content[0] output… ")
    assert max(map(len, lines[:5])) <= 60


def test_a_picture_shows_silences_reconnects_and_violations() -> None:
    begun = Cassette((Chunk(0.0, EVENT), Chunk(4.0, EVENT)), end="cut", ended=4.0)
    picture = picture_of([begun, begun], timed=True)
    kinds = {mark.kind for mark in picture.lanes[0].marks}
    assert {"broken", "reconnect", "violation"} <= kinds
    assert picture.gaps == ((0.0, 4.0), (4.0, 8.0))
    assert picture.length == 8.0


def test_svg_explains_the_marks_that_it_has() -> None:
    begun = Cassette((Chunk(0.0, EVENT), Chunk(4.0, EVENT)), end="cut", ended=4.0)
    drawn = svg(picture_of([begun, begun], timed=True))
    texts = [element.text or "" for element in ET.fromstring(drawn).iter() if element.tag.endswith("text")]
    assert {"broken", "reconnect", "violation", "4.0 s"} <= set(texts)
    assert not {"delta", "completed", "failed"} & set(texts)


@pytest.mark.parametrize("names", ["tape-2.jsonl tape.jsonl", "tape.jsonl tape-2.jsonl"])
def test_draw_knows_the_order_of_the_cassettes_of_one_recording(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: str
) -> None:
    monkeypatch.chdir(tmp_path)
    head, middle, rest = STORY.read_bytes().partition(b"event: response.output_text.delta")
    for name, data in (("tape.jsonl", head), ("tape-2.jsonl", middle + rest)):
        Path(name).write_bytes(write_cassette(Cassette((Chunk(0.0, data),), end="left", ended=1.0)))
    outcome = Outcome(capsys, ("draw", *names.split()))
    assert outcome.code == 0
    assert "!" not in outcome.out


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_draw_writes_a_line_for_each_lane_in_any_encoding(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    data = io.BytesIO()
    written = io.TextIOWrapper(data, encoding=encoding)
    monkeypatch.setattr(sys, "stdout", written)
    assert main(("draw", str(STORY), "--width", "80")) == 0
    lines = data.getvalue().decode(encoding).splitlines()
    assert lines[0].startswith("response ")
    assert lines[2].startswith("  content[0] output_text ")
    assert max(map(len, lines[:4])) <= 80


def test_draw_writes_svg_with_a_tooltip_for_each_mark(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "story.svg"
    assert Outcome(capsys, ("draw", str(STORY), "--svg", str(file))).code == 0
    assert Outcome(capsys, ("draw", str(STORY), "--svg", "-")).out == file.read_text(encoding="utf-8")
    titles = [
        element.text or ""
        for element in ET.fromstring(file.read_text(encoding="utf-8")).iter()
        if "title" in element.tag
    ]
    assert any("response.completed" in title for title in titles)


# bad input

_FILES: Mapping[str, bytes] = {
    "empty": b"",
    "binary": bytes(range(256)) * 20,
    "lines.jsonl": b'{"type":"response.created"}\n{"type":"response.completed"}\n',
    "cut.jsonl": write_cassette(Cassette((Chunk(0.0, EVENT),), end="cut")),
    "damaged.jsonl": write_cassette(Cassette((Chunk(0.0, EVENT),))).replace(b"created", b"crested"),
    "story.sse": STORY.read_bytes(),
    "plan.json": b'{"faults": 3}',
}

BAD = [
    # the command, the exit code, what is said
    ("nope", 2, "expected a command (stream, record, replay, check, draw, simulate), got 'nope'"),
    ("stream hi", 2, "expected --model or ORX_MODEL, got none"),
    ("stream hi --model m --nope", 2, "expected an option of the command, got '--nope': see --help"),
    ("stream --modl x hi", 2, "expected an option of the command, got '--modl': did you mean --model?"),
    ("stream hi --modl=x", 2, "expected an option of the command, got '--modl': did you mean --model?"),
    ("stream --modl=x", 2, "expected an option of the command, got '--modl=x': did you mean --model?"),
    ("record --modl x hi f", 2, "expected an option of the command, got '--modl': did you mean --model?"),
    ("check --profle strict x", 2, "expected an option of the command, got '--profle': did you mean --profile?"),
    ("simulate --prt 3", 2, "expected an option of the command, got '--prt': did you mean --port?"),
    ("record hi story.sse --model m", 2, "expected a file to make, or --force to write over it, got one that is there"),
    ("stream hi --save story.sse --model m", 2, "--force to write over it, got one that is there (story.sse)"),
    ("stream hi --raw --save story.sse --model m", 2, "--force to write over it, got one that is there (story.sse)"),
    ("stream hi --base-url= --model m", 2, "'http://127.0.0.1:8080/v1', got an empty string"),
    ("stream hi there --model m", 2, "expected no further argument, got 'there'"),
    ("stream hi --model", 2, "expected a value of --model, got none"),
    ("stream hi --model m --profile lax", 2, "expected default or strict for --profile, got 'lax'"),
    ("stream hi --model m --max-output-tokens x", 2, "expected a whole number for --max-output-tokens, got 'x'"),
    ("stream hi --resume {}", 2, "expected --resume without a prompt, got both"),
    ("stream --resume {} --background", 2, "expected --resume without --background, got both"),
    ("stream --resume {}", 2, "expected response_id as text and sequence_number as a whole number, got other values"),
    ("stream --resume -", 2, "expected a cursor as JSON, got something else"),
    ("stream hi --model m --raw --json", 2, "expected --raw alone, got --json too"),
    ("stream hi --model m --base-url nowhere", 2, "expected"),
    ("stream hi --model m --base-url http://127.0.0.1:9/v1", 1, "expected an answer, got"),
    ("stream hi --model m --save no/such/folder", 2, "No such file or directory"),
    ("stream - --model m", 2, "expected a prompt, got an empty one"),
    ("record hi --model m", 2, "expected FILE, got none"),
    ("stream --nope --model m", 2, "expected an option of the command, got '--nope'"),
    ("check - --nope", 2, "expected an option of the command, got '--nope'"),
    ("check -", 2, "got an empty file"),
    ("check none", 2, "expected a file to use, got: No such file or directory (none)"),
    ("check .", 2, "expected a file to use, got: "),
    ("check ftp://there/v1", 2, "expected a file, or a base URL with http or https, got 'ftp://there/v1'"),
    ("check empty", 2, "expected an event stream or a cassette, got an empty file"),
    ("check binary", 2, "expected an event stream or a cassette, got 5120 bytes of something else"),
    ("check lines.jsonl", 2, "expected an event stream or a cassette, got JSON without 'data:' in front of it"),
    ("check cut.jsonl", 2, "expected the end of the stream, got a cut after line 2"),
    ("check C:\\tape.jsonl", 2, "No such file or directory (C:\\tape.jsonl)"),
    ("check damaged.jsonl", 2, "the line was changed (line 2 of a cassette, in damaged.jsonl)"),
    ("check http://127.0.0.1:9/v1", 2, "expected --model or ORX_MODEL"),
    ("check http://127.0.0.1:9/v1 --model m", 1, "expected an answer, got"),
    ("check story.sse --active", 2, "expected the base URL of a server with --active, got 'story.sse'"),
    ("replay empty", 2, "got an empty file"),
    ("replay story.sse --speed 0", 2, "expected a speed above 0, got 0"),
    ("replay story.sse --raw --serve", 2, "expected one of --json, --raw and --serve, got several"),
    ("draw", 2, "expected a file to draw, got none"),
    ("draw binary", 2, "got 5120 bytes of something else"),
    ("draw story.sse --by time", 2, "expected a cassette with --by time, got a file without times"),
    ("draw story.sse --svg --by", 2, "expected a file with --svg, got '--by'"),
    ("draw story.sse --svg no/such/folder", 2, "No such file or directory"),
    ("simulate --faults none", 2, "No such file or directory"),
    ("simulate --faults plan.json", 2, "expected"),
    ("simulate --cassette story", 2, "expected MODEL=FILE, got 'story'"),
    ("simulate --cassette story=binary", 2, "expected"),
    ("simulate --chunk-bytes 0", 2, "expected chunk_bytes of at least 1, got 0"),
    ("simulate --port 99999", 2, "expected"),
    ("simulate --api-key", 2, "expected a key in ORX_API_KEY or OPENAI_API_KEY"),
]


@pytest.mark.parametrize(("words", "code", "said"), BAD, ids=[words for words, *_ in BAD])
def test_bad_input_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: str,
    code: int,
    said: str,
) -> None:
    for name, data in _FILES.items():
        (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    stdin(monkeypatch, b"")
    outcome = Outcome(capsys, tuple(words.split()))
    (line,) = outcome.err.splitlines()
    assert (outcome.code, outcome.out) == (code, "")
    assert line.startswith("orx-rx: expected ")
    assert said in line


def test_a_prompt_that_is_no_text_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin(monkeypatch, b"ab\xff")
    outcome = Outcome(capsys, ("stream", "--model", "m"))
    assert (outcome.code, outcome.err) == (2, "orx-rx: expected a prompt in UTF-8, got something else at byte 2\n")


def test_what_is_no_event_stream_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with Simulator.in_thread(faults=[Fault("json")]) as other:
        outcome = Outcome(capsys, ("stream", "hi", "--model", "story", "--base-url", other.base_url))
    assert outcome.code == 1
    assert outcome.err.startswith("orx-rx: expected content type 'text/event-stream', got content type")


def test_without_the_extra_it_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orx_rx.cli.find_spec", _nothing)
    outcome = Outcome(capsys, ("stream",))
    assert outcome.code == 2
    assert outcome.err == "orx-rx: expected the extra 'cli', got no cyclopts: pip install 'orx-rx[cli]'\n"


def _nothing(_: str) -> None:
    pass


@pytest.mark.parametrize("name", ["", "stream", "check", "record", "replay", "simulate", "draw"])
def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str], name: str) -> None:
    outcome = Outcome(capsys, (name, "--help") if name else ("--help",))
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"Usage: orx-rx {name}".rstrip())


# processes


def test_a_reader_that_goes_away_ends_it_quietly(simulator: ThreadedSimulator) -> None:
    with command(
        "stream",
        "hi",
        "--json",
        "--model",
        "long-5000",
        "--base-url",
        simulator.base_url,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"response.created" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.skipif(sys.platform == "win32", reason="Windows closes handles in another way")
def test_streams_that_were_closed_before_are_no_error() -> None:
    words = [sys.executable, "-c", _COMMAND, "check", str(STORY)]
    shell = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *words]
    assert subprocess.run(shell, env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for a process")
def test_ctrl_c_closes_the_stream_and_tells_the_cursor() -> None:
    with (
        Simulator.in_thread(hold=6) as held,
        command(
            "stream",
            "hi",
            "--json",
            "--model",
            "story",
            "--background",
            "--base-url",
            held.base_url,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(6)]
        process.send_signal(signal.SIGINT)
        told = process.stderr.read().decode()
        held.wait_for(lambda simulator: simulator.disconnects == 1)
    assert process.returncode == 130
    assert json.loads(told) == {"response_id": lines[0]["response"]["id"], "sequence_number": 5}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
def test_a_second_ctrl_c_ends_what_the_first_one_cannot() -> None:
    import pty

    ours, theirs = pty.openpty()
    read, write = os.pipe()
    os.set_blocking(write, False)
    with suppress(BlockingIOError):  # nobody reads stderr, so that the cursor finds no room
        while os.write(write, bytes(4096)):
            pass
    os.set_blocking(write, True)
    asked = ("stream", "hi", "--background", "--model", "story", "--base-url")
    with (
        Simulator.in_thread(hold=6) as held,
        command(*asked, held.base_url, stdin=theirs, stderr=write, at_terminal=True) as process,
    ):
        os.close(theirs)
        os.close(write)
        assert process.stdout is not None
        try:
            assert process.stdout.read(3) == b"You"
            os.write(ours, b"\x03")
            process.stdout.readline()  # which ends right before the cursor
            assert process.poll() is None
            os.write(ours, b"\x03")
            assert process.wait(10) == 130
        finally:
            process.kill()
    os.close(read)
    os.close(ours)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
def test_a_terminal_sees_dimmed_thoughts_and_the_pace_and_no_control_characters(simulator: ThreadedSimulator) -> None:
    text = on_terminal("stream", "a\x1b[2Jb", "--model", "reasoning", "--base-url", simulator.base_url)
    assert "\x1b[2mthe\x1b[0m" in text or "\x1b[2m" in text.partition("After")[0]
    assert "first token after " in text
    story = on_terminal("stream", "a\x1b[2Jb", "--model", "story", "--base-url", simulator.base_url)
    assert "\x1b[2J" not in story
    assert "a\N{REPLACEMENT CHARACTER}[2Jb" in story


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
def test_a_terminal_without_a_prompt_is_told_how_to_give_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pty

    ours, theirs = pty.openpty()
    with open(theirs, encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        outcome = Outcome(capsys, ("stream", "--model", "story"))
    os.close(ours)
    assert outcome.code == 2
    assert outcome.err.startswith("orx-rx: expected a prompt, got none: ")


def on_terminal(*tokens: str, code: int = 0) -> str:
    import pty

    ours, theirs = pty.openpty()
    with command(*tokens, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        read = bytearray()
        try:
            while piece := os.read(ours, 4096):
                read += piece
        except OSError:  # what Linux says at the end
            pass
    os.close(ours)
    assert process.returncode == code
    return read.decode()


@pytest.mark.parametrize("words", ["simulate --port 0", f"replay {STORY} --serve --port 0 --model story"])
def test_a_provider_prints_its_address_and_serves_until_ctrl_c(capsys: pytest.CaptureFixture[str], words: str) -> None:
    with command(*words.split()) as process:
        assert process.stdout is not None
        base_url = process.stdout.readline().decode().strip()
        try:
            outcome = Outcome(capsys, ("stream", "hi", "--model", "story", "--base-url", base_url))
        finally:
            process.send_signal(signal.SIGINT)
        assert process.communicate() == (b"", b"")
    assert (outcome.code, process.returncode) == (0, 0)
