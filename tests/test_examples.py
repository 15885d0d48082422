"""Every example runs by itself, and the README says what is so."""

from __future__ import annotations

import asyncio
import os
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from aiohttp import ClientSession

from orx_rx import operators as ops
from orx_rx.simulator import Simulator

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")

# what each example has to print, whatever the pace
EXAMPLES = {
    "demo": ["chunks | frame | decode", "response.completed", "tokens: "],
    "quickstart": ["completed, ", "tokens"],
    "explicit_pipeline": ["characters", "response.completed"],
    "fan_out": ["ZeroDivisionError", "joined late"],
    "existing_rx": ["story: ", "moon: ", "meter: "],
    "race": ["hare won: completed", "server of the hare: 1 request, 0 hung up", "tortoise: 1 request, 1 hung up"],
    "sync_rx": ["story: ", "moon: ", "completed, "],
    "structured": ["completed: Recipe(", "refused: I'm sorry", "cut off: max_output_tokens, after", "but no recipe"],
    "replay": ["completed: message"],
    "check": ["response.completed, [DONE]", "STRICT: passes", "nothing was found"],
    "survive": ["completed, over", "and 1 POST"],
    "tools": ["weather({", "population({", "gave 700006", "Here is what I found: weather returned", "completed, "],
}
SERVERS = ["browsers_aiohttp", "browsers_starlette"]  # these do not end by themselves


def without_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("ORX_", "OPENAI_"))}


async def start(*arguments: str, **settings: str) -> asyncio.subprocess.Process:
    """Start Python in a process of its own, with warnings as errors."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-W",
        "error",
        *arguments,
        cwd=ROOT,
        env={**without_settings(), "PYTHONIOENCODING": "utf-8", **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def run(*arguments: str, **settings: str) -> tuple[int, str, str]:
    """Run Python in a process of its own to its end."""
    process = await start(*arguments, **settings)
    out, err = await process.communicate()
    return process.returncode or 0, out.decode("utf-8"), err.decode("utf-8")


async def run_here(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: str, **settings: str) -> int:
    """Run an example in a thread of this process, which need not import the library first, and say how it exits."""
    for variable in os.environ.keys() - without_settings().keys():
        monkeypatch.delenv(variable)
    for variable, value in settings.items():
        monkeypatch.setenv(variable, value)
    path = str(ROOT / "examples" / f"{name}.py")
    monkeypatch.setattr(sys, "argv", [path, *arguments])

    def exits_with() -> int:
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as exits:
            return exits.code if isinstance(exits.code, int) else int(exits.code is not None)
        return 0

    return await asyncio.to_thread(exits_with)


def test_every_example_is_tested() -> None:
    files = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert files - {"__init__", "provider"} == {*EXAMPLES, *SERVERS}


@pytest.mark.parametrize("name", EXAMPLES)
async def test_an_example_runs_by_itself(name: str) -> None:
    code, out, err = await run("-m", f"examples.{name}")
    assert (code, err) == (0, "")
    for words in EXAMPLES[name]:
        assert words in out


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - {"replay", "check", "survive"}))
async def test_an_example_asks_the_server_that_the_environment_names(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Simulator(api_key="a-key") as simulator:
        settings = {"ORX_BASE_URL": simulator.base_url, "ORX_API_KEY": "a-key", "ORX_MODEL": "story"}
        await run_here(monkeypatch, name, **settings)
        out, err = capsys.readouterr()
        assert err == ""
        assert "a-key" not in out
        assert {request.body["model"] for request in simulator.requests if request.body} == {"story"}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no Ctrl-C for a single process on Windows")
@pytest.mark.parametrize("name", SERVERS)
async def test_an_example_that_serves_does_so_until_it_is_interrupted(name: str) -> None:
    if name == "browsers_starlette":
        pytest.importorskip("starlette", reason="expected the package `starlette`, found none")
        pytest.importorskip("uvicorn", reason="expected the package `uvicorn`, found none")
    async with Simulator(api_key="a-key") as simulator:
        settings = {"ORX_BASE_URL": simulator.base_url, "ORX_API_KEY": "a-key", "ORX_MODEL": "story"}
        for environment in ({}, settings):
            process = await start("-m", f"examples.{name}", **environment)
            assert process.stdout is not None
            line = (await process.stdout.readline()).decode()
            (url,) = re.findall(r"http://127\.0\.0\.1:\d+/", line)
            async with ClientSession() as session:
                async with session.get(url) as page:
                    assert "EventSource" in await page.text("utf-8")
                async with session.get(f"{url}events") as stream:
                    assert (await stream.read()).count(b"event: response.completed\n") == 1
            process.send_signal(signal.SIGINT)
            out, err = await process.communicate()
            assert (process.returncode, out, err) == (0, b"", b"")
        assert [request.body["model"] for request in simulator.requests if request.body] == ["story"]


async def test_the_replay_says_what_is_wrong_with_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (ROOT / "examples" / "data" / "story.sse").read_bytes()
    broken = tmp_path / "a broken stream.sse"
    broken.write_bytes(whole[: len(whole) // 2])
    assert await run_here(monkeypatch, "replay", str(broken), "7") == 1
    err = capsys.readouterr().err
    assert "StreamInterrupted: expected a terminal" in err
    assert "In a café by the harbour" in err
    assert await run_here(monkeypatch, "replay", str(tmp_path / "none.sse")) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "expected a file to read, got No such file or directory" in err


async def test_the_check_says_what_is_wrong_with_a_file_or_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (ROOT / "examples" / "data" / "story.sse").read_bytes()
    broken = tmp_path / "a broken stream.sse"
    broken.write_bytes(whole[: len(whole) // 2])
    assert await run_here(monkeypatch, "check", str(broken)) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert "error: missing_terminal: expected a terminal" in out
    assert await run_here(monkeypatch, "check", str(tmp_path / "none.sse")) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "expected a file to read, got No such file or directory" in err
    for done, expected in ((False, 1), (True, 0)):
        async with Simulator(api_key="a-key", done=done) as simulator:
            code = await run_here(monkeypatch, "check", simulator.base_url, "story", ORX_API_KEY="a-key")
        out, err = capsys.readouterr()
        assert (code, err) == (expected, "")
        assert ("fail: done: expected [DONE]" in out) == (not done)
        assert out.endswith("8 requests that may be billed\n")
        assert "a-key" not in out


async def test_the_example_of_the_readme_runs() -> None:
    (code,) = re.findall(r"```python\n(import asyncio.*?)```", README, re.DOTALL)
    async with Simulator() as simulator:
        assert "http://127.0.0.1:8080/v1" in code
        status, out, err = await run("-c", code.replace("http://127.0.0.1:8080/v1", simulator.base_url))
        assert (status, err) == (0, "")
        assert "completed: " in out
        assert len(simulator.requests) == 1


def test_the_readme_names_every_operator_and_every_example() -> None:
    for name in ops.__all__:
        assert f"`{name}`" in README or f"ops.{name}()" in README
    for name in {*EXAMPLES, *SERVERS} - {"demo"}:
        assert f"examples.{name}" in README
