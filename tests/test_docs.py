"""The docs say what is so: their code runs, their links lead somewhere, their tables have the defaults of the code."""

from __future__ import annotations

import ast
import asyncio
import importlib
import importlib.util
import inspect
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import CodeType
from typing import Any

import pytest
import reactivex
from reactivex import operators as rx

import orx_rx
from docs._ext.marbles import Box, Row, parse, svg
from docs._ext.pages import (
    chapters,
    draw_pictures,
    fields_of,
    foreign_assets,
    names_of_modules,
    pages,
    said_of,
    target_of,
)
from orx_rx import Client, models
from orx_rx import operators as ops
from orx_rx.http import client as client_module
from orx_rx.simulator import SCENARIOS, Simulator
from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in [ROOT / "README.md", *DOCS.glob("*.md")]
}

# code

SKIPPED: dict[str, str] = {}  # the first line of a block of code that is not run, and why

_BLOCK = re.compile(r"^<!-- (before|after):\n(.*?)^-->$|^```(python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SERVER = "http://127.0.0.1:8080/v1"
_WAITS = ("asyncio.run(", "in_thread(")  # what a thread with an event loop cannot do


def code_of(page: str) -> Iterator[tuple[CodeType, bool]]:
    """Find the blocks of code of a page, and whether each needs a thread of its own.

    A comment `<!-- before: ... -->` has code that comes first and is not shown, `<!-- after: ... -->` what must hold
    then. The blocks of a page share their names.
    """
    for found in _BLOCK.finditer(PAGES[page]):
        source = found[2] or found[4]
        if source.splitlines()[0] in SKIPPED:
            continue
        line = PAGES[page].count("\n", 0, found.start()) + 1
        code = compile("\n" * line + source, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        yield code, any(words in source for words in _WAITS)


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if "```python\n" in text])
async def test_the_code_of_a_page_runs(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    async with Simulator() as simulator, Client(base_url=simulator.base_url) as client:
        monkeypatch.setenv("ORX_BASE_URL", simulator.base_url)
        monkeypatch.setitem(PAGES, page, PAGES[page].replace(_SERVER, simulator.base_url))
        names: dict[str, Any] = {name: getattr(orx_rx, name) for name in orx_rx.__all__}
        names |= {"asyncio": asyncio, "client": client, "ops": ops, "rx": rx, "reactivex": reactivex}
        names |= {"simulator": simulator, "__name__": page}
        for code, waits in code_of(page):
            if waits:
                await asyncio.to_thread(exec, code, names)
            elif (running := eval(code, names)) is not None:
                await running


def test_every_block_of_code_is_found() -> None:
    for page, text in PAGES.items():
        shown = text.count("```python")
        assert sum(found[3] is not None for found in _BLOCK.finditer(text)) == shown, page
        assert sum(found[1] is not None for found in _BLOCK.finditer(text)) == len(
            re.findall("<!-- (before|after)", text)
        )


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    shown = "\n".join([*re.findall(r"`([^`\n]+)`", PAGES[page]), *re.findall(r"^ {4}(.*)", PAGES[page], re.MULTILINE)])
    assert set(re.findall(r"^make (\w+)", shown, re.MULTILINE)) <= targets
    assert not [name for name in re.findall(r"^python -m ([\w.]+)", shown, re.MULTILINE) if not runs(name)]


def runs(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


# links


@pytest.mark.parametrize("page", PAGES)
def test_the_links_of_a_page_lead_somewhere(page: str) -> None:
    written = {f"docs/{path}" for path in pages()}
    for link in links_of(PAGES[page]):
        path, _, anchor = link.partition("#")
        target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert target.exists(), link
        assert target.relative_to(ROOT).as_posix() not in written, f"{link} exists only where the docs were built"
        if anchor:
            assert anchor in anchors_of(target.read_text("utf-8")), link


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if "```{toctree}" in text])
def test_the_contents_of_a_page_exist(page: str) -> None:
    for entry in toctree_of(PAGES[page]):
        assert f"{entry}.md" in pages() or (DOCS / f"{entry}.md").exists()


def test_every_page_is_in_the_contents() -> None:
    contents = {"index", *toctree_of(PAGES["docs/index.md"])}
    assert contents == {path.stem for path in DOCS.glob("*.md")} | {"operators/index", "reference/index"}


def links_of(text: str) -> list[str]:
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    links: list[str] = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose)
    return [link for link in links if not link.startswith(("https://", "http://", "mailto:"))]


def anchors_of(text: str) -> set[str]:
    """Name the headings as code hosts do, and Sphinx with MyST."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings: list[str] = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def toctree_of(text: str) -> list[str]:
    (entries,) = re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)
    return [line for line in entries.splitlines() if line and not line.startswith(":")]


# tables

_TABLE = re.compile(r"<!-- table of: (\S+) -->\n+\| argument \|.*\n\|[-|]+\|\n((?:\|.*\n)+)")
TABLES: dict[str, str] = dict(_TABLE.findall(PAGES["docs/configuration.md"]))


def test_every_table_of_arguments_is_found() -> None:
    text = PAGES["docs/configuration.md"]
    assert len(TABLES) == text.count("| argument |") == text.count("<!-- table of:")


@pytest.mark.parametrize("path", TABLES)
def test_a_table_has_the_arguments_and_defaults_of_the_code(path: str) -> None:
    _, *names = path.split(".")
    function: Any = orx_rx
    for name in names:
        function = getattr(function, name)
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    ]
    coded = [(p.name, "" if p.default is p.empty else f"`{p.default!r}`") for p in parameters]
    rows = [[cell.strip() for cell in row.split("|")[1:3]] for row in TABLES[path].splitlines()]
    assert [(name.strip("`"), default) for name, default in rows] == coded


def test_the_environment_is_the_one_that_the_client_reads() -> None:
    section = PAGES["docs/configuration.md"].partition("## Environment")[2].partition("\nA variable")[0]
    read = re.findall(r'_setting\("(\w+)"\)', inspect.getsource(client_module))
    named = re.findall(r"`((?:ORX|OPENAI)_\w+)`", section)
    assert set(named) == {f"{prefix}_{name}" for prefix in ("ORX", "OPENAI") for name in read}


def test_the_models_of_the_simulator_are_named() -> None:
    named = {name.replace("-2000", "") for name in re.findall(r"`([\w-]+)`", PAGES["docs/testing.md"])}
    assert {*SCENARIOS} <= named


# pictures


def pictures_of(doc: str) -> list[str]:
    """Find the pictures of a docstring, as the docs do."""
    lines = draw_pictures(doc.splitlines())
    blocks = [number for number, line in enumerate(lines) if line.strip() == ".. marbles::"]
    text = "\n".join(lines) + "\n"
    found = re.findall(r"^\.\. marbles::\n\n((?: {4}.*\n|\n)+)", text, re.MULTILINE)
    assert len(found) == len(blocks)
    return [dedent(block).strip("\n") for block in found]


PICTURES: dict[str, list[str]] = {
    **{name: pictures_of(inspect.getdoc(getattr(ops, name)) or "") for name in ops.__all__},
    **{page: re.findall(r"^```marbles\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL) for page, text in PAGES.items()},
}


def count(drawing: ET.Element, kind: str) -> int:
    return len([shape for shape in drawing.iter() if shape.get("class") == kind])


@pytest.mark.parametrize("name", ops.__all__)
def test_every_operator_has_a_picture_in_its_docstring(name: str) -> None:
    assert PICTURES[name]


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in PICTURES.items() for text in texts])
def test_a_picture_is_drawn_with_a_marble_for_every_letter(name: str, text: str) -> None:
    drawing = ET.fromstring(svg(text))
    words: list[str] = re.findall(r'"(.+?)"', text)
    rows = [re.split(" {3,}", line.lstrip())[0] for line in text.splitlines() if line.lstrip().startswith(("-", "("))]
    for word in sorted(words, key=len, reverse=True):
        rows = [row.replace(word, "w") for row in rows]
    drawn = "".join(rows)
    assert rows
    assert count(drawing, "marble") == len(re.sub(r"[-()|# ]", "", drawn))
    assert count(drawing, "completion") == drawn.count("|")
    assert count(drawing, "error") == drawn.count("#")
    assert count(drawing, "tick") == drawn.count("(")
    assert count(drawing, "operator") == len(re.findall(r"^ *\[", text, re.MULTILINE))
    assert drawing.get("aria-label") == text


@pytest.mark.parametrize("text", [text for page in PAGES for text in PICTURES[page]])
def test_a_picture_of_a_page_has_rows_as_wide_as_their_box(text: str) -> None:
    for picture in parse(text):
        for above, line in zip(picture.lines, picture.lines[1:], strict=False):
            if isinstance(line, Box) and isinstance(above, Row):
                assert above.end == line.width


def test_a_picture_knows_words_groups_ends_remarks_and_legends() -> None:
    (picture,) = parse('a: "One"   s: a space\n   -One--(sOne)--#   late\n[ x() ]')
    row, box = picture.lines
    assert isinstance(row, Row)
    assert picture.legend == ['a: "One"', "s: a space"]
    assert [(mark.column, mark.name) for mark in row.marks] == [(4, "One"), (10, "s"), (11, "One"), (17, "#")]
    assert (row.begin, row.end, row.groups, row.remark) == (3, 18, [(9, 15)], "late")
    assert box == Box("x()", 7)


def test_what_is_written_in_a_picture_is_no_markup() -> None:
    drawing = ET.fromstring(svg('a: <b> & "c"\n--a--|\n[ f(<) ]'))
    assert [text.text for text in drawing.iter() if text.get("class") in ("note", "call")] == ['a: <b> & "c"', "f(<)"]


def test_a_text_without_rows_is_no_picture() -> None:
    with pytest.raises(ValueError, match="expected a marble picture, got a text without rows"):
        svg("a: an element")


def test_only_blocks_with_an_operator_become_pictures() -> None:
    lines = ["Use it as ::", "", "    code()", "", "::", "", "    --a--|", "    [ f() ]", "", "::", "", "    text"]
    assert [number for number, line in enumerate(draw_pictures(lines)) if line == ".. marbles::"] == [4]


# pages that are made


def test_every_operator_has_a_page() -> None:
    assert {path for path in pages() if path.startswith("operators/")} == {
        "operators/index.md",
        *(f"operators/{name}.md" for name in ops.__all__),
    }


def test_the_list_of_operators_says_what_goes_in_and_what_comes_out() -> None:
    rows = [line.split(" | ") for line in pages()["operators/index.md"].splitlines() if line.startswith("| [")]
    assert len(rows) == len(ops.__all__)
    assert all(re.fullmatch(r"`\w+ → \w+`", types) and sentence.endswith(". |") for _, types, sentence in rows)


def test_every_public_name_is_in_the_reference_once() -> None:
    made = "\n".join(pages().values())
    public = [name for name in orx_rx.__all__ if not inspect.ismodule(getattr(orx_rx, name))]
    assert sorted(name for names in chapters().values() for name in names) == sorted(public)
    for name in public:
        assert len(re.findall(rf":: orx_rx\.{name}$", made, re.MULTILINE)) == 1


def test_every_public_value_is_said_to_be_something() -> None:
    assert said_of("DEFAULT", orx_rx.DEFAULT).startswith("For every real server")
    assert not re.findall(r"^\.\. py:data::.*\n\n```", "\n".join(pages().values()), re.MULTILINE)


def test_the_fields_of_a_model_are_listed_with_types_that_a_reader_knows() -> None:
    lines = fields_of(models.ResponseTextDeltaEvent, [":ivar item_id: what the docstring says"])
    assert {":ivar delta: ``str``", ":ivar output_index: ``int``", ":ivar logprobs: ``list[Logprob] | None``"} < {
        *lines
    }
    assert not any("item_id" in line for line in lines)


NAMES = {
    "ops.text()": "orx_rx.operators.text",
    "text": None,
    "fan_out": "orx_rx.operators.fan_out",
    "frame()": "orx_rx.operators.frame",
    "Retry(first=..., most=...)": "orx_rx.Retry",
    "iterate": "orx_rx.iterate",
    "ops.iterate": None,
    "client.events()": None,
}


@pytest.mark.parametrize("text", NAMES)
def test_a_public_name_in_a_sentence_is_found(text: str) -> None:
    assert target_of(text) == NAMES[text]


def test_what_annotations_name_is_known() -> None:
    assert {"Observable", "ViolationListener", "Overflow", "SecretStr", "Event", "T"} < names_of_modules()


ASSETS: list[tuple[str, list[str]]] = [
    ('<script src="https://cdn.example/x.js"></script>', ["https://cdn.example/x.js"]),
    ('<link rel="stylesheet" href="//fonts.example/x.css">', ["//fonts.example/x.css"]),
    ('<link href="https://x.example/y.css" rel="stylesheet">', ["https://x.example/y.css"]),
    ("<style>p { background: url(https://x.example/y.png) }</style>", ["https://x.example/y.png"]),
    ('<a href="https://example.com/">a page</a> <img src="_static/x.png"> <link rel="stylesheet" href="x.css">', []),
]


@pytest.mark.parametrize(("html", "found"), ASSETS)
def test_what_a_page_would_load_from_elsewhere_is_found(html: str, found: list[str]) -> None:
    assert foreign_assets(html) == found


def test_the_readme_and_the_docs_name_each_other_by_paths_that_work_on_a_code_host() -> None:
    assert all((ROOT / link.partition("#")[0]).is_file() for link in links_of(PAGES["README.md"]))
    assert all(Path(page).suffix == ".md" for page in PAGES)
