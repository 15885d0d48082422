"""Write the pages that are made from docstrings: one for each operator, and the reference.

Pure: from the public names of the library to texts in Markdown, so that a new operator or a new public name is on a
page without anybody's work.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import orx_rx
from orx_rx import models, operators, protocol, simulator

# In which page of the reference a public name is, by the module that it comes from.
CHAPTERS: Sequence[tuple[str, str, tuple[str, ...]]] = (
    ("client", "Client", ("orx_rx.http",)),
    ("reading", "Out of Rx, and into it", ("orx_rx.aio", "orx_rx.bridges", "orx_rx.inbox")),
    ("errors", "Errors", ("orx_rx.errors",)),
    ("tools", "Tools", ("orx_rx.tools", "orx_rx.protocol.calls")),
    ("cassettes", "Cassettes", ("orx_rx.cassettes", "orx_rx.protocol.cassette")),
    ("rules", "Rules, violations, cursors", ("orx_rx.protocol", "orx_rx.reporting")),
    ("lift", "Operators of your own", ("orx_rx.step", "orx_rx.stream")),
    ("wire", "Frames", ("orx_rx.wire",)),
)
REST = ("rest", "Everything else", ())

_GENERIC = re.compile(r"Observable\[(\w+)\]\], Observable\[(\w+)\]|Operator\[(\w+), (\w+)\]")
_ASSET = re.compile(
    r"<(?:script|img|iframe|source|audio|video|embed)\b[^>]*?\bsrc=[\"']((?:https?:)?//[^\"']*)"
    r"|<link\b(?=[^>]*?\brel=[\"'](?:stylesheet|preload|icon|shortcut icon|preconnect)[\"'])"
    r"[^>]*?\bhref=[\"']((?:https?:)?//[^\"']*)"
    r"|url\([\"']?((?:https?:)?//[^\"')]*)",
    re.IGNORECASE,
)


def pages() -> dict[str, str]:
    """Write every page, by its path below the folder of the docs."""
    return {**_operator_pages(), **_reference_pages()}


def summary(thing: object) -> str:
    """Read the first line of a docstring."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _operator_pages() -> dict[str, str]:
    rows = [
        f"| [`{name}`]({name}.md) | {_types(getattr(operators, name))} | {summary(getattr(operators, name))} |"
        for name in operators.__all__
    ]
    index = _page(
        "Operators",
        "`from orx_rx import operators as ops`. Each works alone, in any Rx pipeline. The pictures are those of the\n"
        "docstrings, and tests run them in virtual time.",
        "| operator | in → out | what it does |\n|---|---|---|\n" + "\n".join(rows),
        _toctree(operators.__all__),
    )
    return {"operators/index.md": index} | {
        f"operators/{name}.md": _page(f"`{name}`", _documented("function", f"orx_rx.operators.{name}"))
        for name in operators.__all__
    }


def _types(operator: Any) -> str:
    """Say what goes in and what comes out."""
    found = _GENERIC.search(str(inspect.signature(operator).return_annotation))
    return f"`{' → '.join(filter(None, found.groups()))}`" if found else ""


def chapters() -> Mapping[str, Sequence[str]]:
    """Sort the public names of `orx_rx` into the chapters of the reference."""
    sorted_: dict[str, list[str]] = {slug: [] for slug, _, _ in (*CHAPTERS, REST)}
    for name in orx_rx.__all__:
        if not inspect.ismodule(getattr(orx_rx, name)):
            sorted_[_chapter_of(name)].append(name)
    return sorted_


def _chapter_of(name: str) -> str:
    module = getattr(getattr(orx_rx, name), "__module__", "orx_rx.protocol")  # rules and profiles are plain values
    if name == "Operator":  # an alias belongs to whoever made it, and not to typing
        module = "orx_rx.stream"
    if not module.startswith("orx_rx"):
        module = "orx_rx.protocol"
    slug, _, _ = next((row for row in CHAPTERS if module.startswith(row[2])), REST)
    return slug


def _reference_pages() -> dict[str, str]:
    found = dict[str, str]()
    for slug, title, _ in (*CHAPTERS, REST):
        names = [f"orx_rx.{name}" for name in chapters()[slug]]
        if names:
            found[slug] = _page(title, *map(_entry, names))
    more = [name for name in protocol.__all__ if name not in orx_rx.__all__]
    found["protocol"] = _page(
        "Without Rx: `orx_rx.protocol`", summary(protocol), *(_entry(f"orx_rx.protocol.{name}") for name in more)
    )
    found["models"] = _page("Models", summary(models), *(_entry(f"orx_rx.models.{name}") for name in models.__all__))
    found["simulator"] = _page(
        "The simulator",
        summary(simulator),
        *(_entry(f"orx_rx.simulator.{name}") for name in simulator.__all__),
    )
    index = _page(
        "Reference",
        "Made from the docstrings. Types are those of the annotations. The operators have [pages of their own]"
        "(../operators/index.md).",
        "| page | what is there |\n|---|---|\n" + "\n".join(f"| {row} |" for row in _contents(found)),
        _toctree(found),
    )
    return {"reference/index.md": index} | {f"reference/{slug}.md": page for slug, page in found.items()}


def _contents(found: Mapping[str, str]) -> Iterator[str]:
    for slug, page in found.items():
        title = page.partition("\n")[0].removeprefix("# ")
        said = {"protocol": summary(protocol), "models": summary(models), "simulator": summary(simulator)}.get(slug)
        yield f"[{title}]({slug}.md) | {said or ', '.join(f'`{name}`' for name in chapters()[slug])}"


def _entry(path: str) -> str:
    package, _, name = path.rpartition(".")
    thing = getattr(importlib.import_module(package), name)
    if inspect.isclass(thing):
        return _documented("class", path, *[":members:"] * (not issubclass(thing, models.Model)))
    if inspect.isfunction(thing):
        return _documented("function", path)
    said = [f"   {line}" for line in said_of(name, thing).splitlines()]
    return "\n".join(["```{eval-rst}", f".. py:data:: {path}", "", *said, "```"])


def _documented(kind: str, path: str, *options: str) -> str:
    return "\n".join(["```{eval-rst}", f".. auto{kind}:: {path}", *(f"   {option}" for option in options), "```"])


def said_of(name: str, thing: object) -> str:
    """Find the string behind the line that gives a value its name; the value itself cannot know it."""
    for module in [module for path, module in sys.modules.items() if path.startswith("orx_rx")]:
        if getattr(module, name, None) is thing:
            for statement, behind in pairwise(_tree_of(module).body):
                named = ast.unparse(statement).partition("=")[0].partition(":")[0].strip() == name
                if named and isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
                    return str(behind.value.value)
    return ""


def _tree_of(module: ModuleType) -> ast.Module:
    return ast.parse(Path(module.__file__ or "").read_bytes())


def fields_of(model: type[models.Model], said: Sequence[str] = ()) -> list[str]:
    """List the fields of a model with their types, those of its bases first, as a docstring would."""
    annotations = dict[str, Any]()
    for base in reversed(model.__mro__):
        if issubclass(base, models.Model):
            annotations |= inspect.get_annotations(base)
    lines = [
        f":ivar {name}: ``{_said_type(annotation)}``"
        for name, annotation in annotations.items()
        if name in model.model_fields and not any(line.startswith(f":ivar {name}:") for line in said)
    ]
    return ["", *lines, ""] if lines else []


def _said_type(annotation: object) -> str:
    """Say a type in words that a reader knows: how a field is validated is of no interest here."""
    said = re.sub(r"^Tolerant\[(.*)\]$", r"\1", " ".join(str(annotation).split()))
    return re.sub(r"\b(Index|Int)\b", "int", said)


def _page(title: str, *paragraphs: str) -> str:
    return "\n\n".join([f"# {title}", *filter(None, paragraphs)]) + "\n"


def _toctree(names: Iterator[str] | Sequence[str] | Mapping[str, str]) -> str:
    return "\n".join(["```{toctree}", ":hidden:", "", *names, "```"])


def target_of(text: str) -> str | None:
    """Find which public name a piece of code in a sentence means, such as `ops.text()` or `Retry`; None for most.

    Operators have names that mean other things as well, so `text` alone is not taken for one.
    """
    found = re.fullmatch(r"(ops\.)?(\w+)(\(.*\))?", text)
    if found is None:
        return None
    prefix, name, call = found.groups()
    if name in operators.__all__ and (prefix or call or "_" in name):
        return f"orx_rx.operators.{name}"
    return f"orx_rx.{name}" if name in orx_rx.__all__ and not prefix else None


def draw_pictures(lines: Sequence[str]) -> list[str]:
    """Make a literal block of a docstring a `marbles` directive if it has the box of an operator."""
    drawn = list(lines)
    for number, line in enumerate(lines):
        if line.strip() == "::" and any(re.match(r" +\[ +\w+\(", row) for row in _block(lines, number)):
            drawn[number] = line.replace("::", ".. marbles::")
    return drawn


def _block(lines: Sequence[str], number: int) -> Iterator[str]:
    """Find the lines of the literal block that begins behind a line."""
    indent = len(lines[number]) - len(lines[number].lstrip())
    for line in lines[number + 1 :]:
        if line.strip() and not line.startswith(" " * (indent + 1)):
            return
        yield line


def names_of_modules() -> set[str]:
    """Collect the names that the modules of the library have at the top: what annotations may use."""
    found = set[str]()
    for path, module in list(sys.modules.items()):
        if path.partition(".")[0] == "orx_rx":
            for node in ast.walk(_tree_of(module)):
                if isinstance(node, ast.ImportFrom | ast.Import):
                    found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
                elif isinstance(node, ast.ClassDef):
                    found.add(node.name)
                elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found.add(node.id)
    return found


def foreign_assets(html: str) -> list[str]:
    """Find what a page would load from another host; links that somebody may follow are none of it."""
    return [next(filter(None, found)) for found in _ASSET.findall(html)]
