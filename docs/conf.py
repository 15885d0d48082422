"""How Sphinx builds the docs: `make docs`."""

from __future__ import annotations

import inspect
import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from docs._ext.marbles import svg
from docs._ext.pages import draw_pictures, fields_of, foreign_assets, names_of_modules, pages, target_of
from orx_rx.models import Model

project = "orx_rx"
author = "the orx_rx authors"
version = release = version_of("orx-rx")
extensions = ["sphinx.ext.autodoc", "myst_parser"]
exclude_patterns = ["_build", "_ext"]
default_role = "code"

html_theme = "furo"
html_title = f"orx_rx {version}"
html_static_path = ["_static"]
html_css_files = ["marbles.css"]
html_copy_source = html_show_sourcelink = html_show_copyright = False

myst_heading_anchors = 3
myst_fence_as_directive = ["marbles"]

autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
maximum_signature_line_length = 88

NAPOLEON = Config(napoleon_use_ivar=True)
KNOWN = names_of_modules()


class Marbles(Directive):
    """Draws a marble picture."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Draw it."""
        return [nodes.raw("", svg("\n".join(self.content)), format="html")]


def write_pages(app) -> None:
    """Write the pages that are made from docstrings, and remove those of names that are no more."""
    written = pages()
    for path, text in written.items():
        target = HERE / path
        target.parent.mkdir(exist_ok=True)
        if not target.exists() or target.read_text("utf-8") != text:
            target.write_text(text, "utf-8")
    for folder in {(HERE / path).parent for path in written}:
        for target in folder.glob("*.md"):
            if target.relative_to(HERE).as_posix() not in written:
                target.unlink()


def read_docstring(app, kind, name, thing, options, lines) -> None:
    """Draw the pictures of a docstring, and say which fields a model has."""
    # by hand, because the extension takes the first words of a property for its type if a colon comes behind them
    lines[:] = str(GoogleDocstring(draw_pictures(lines), NAPOLEON, app, "object", name, thing, options)).splitlines()
    if inspect.isclass(thing) and issubclass(thing, Model):
        lines += fields_of(thing, lines)


def read_signature(app, kind, name, thing, options, signature, returns):
    """Leave out the arguments of models, which nobody makes by hand and whose fields follow, and private arguments."""
    if inspect.isclass(thing) and issubclass(thing, Model):
        return "", None
    if signature and ", _" in signature:
        return re.sub(r", _.*\)$", ")", signature), returns
    return None


def find_name(app, env, node, text):
    """Find what an annotation names: a class of ours, or else a name that our modules know, which gets no link."""
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    path, _, name = node["reftarget"].rpartition(".")
    for known, entry in domain.objects.items():
        if known.rpartition(".")[2] == name and entry.objtype in ("class", "exception", "data"):
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", known, node, text)
    return text if {name, path.partition(".")[0]} & KNOWN else None


def link_names(app, doctree, docname) -> None:
    """Make links of the public names in sentences."""
    objects = app.env.get_domain("py").objects
    for code in list(doctree.findall(nodes.literal)):
        entry = objects.get(target_of(code.astext()))
        if entry and entry.docname != docname and not isinstance(code.parent, nodes.reference | nodes.title):
            link = make_refnode(app.builder, docname, entry.docname, entry.node_id, code.deepcopy())
            code.replace_self(link)


def check_assets(app, error) -> None:
    """Refuse pages that load something from elsewhere."""
    for page in Path(app.outdir).rglob("*.html"):
        for url in foreign_assets(page.read_text("utf-8")):
            logging.getLogger(__name__).warning("expected a page of its own files, got %s in %s", url, page.name)


def setup(app) -> dict[str, bool]:
    """Plug it into Sphinx."""
    app.add_directive("marbles", Marbles)
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-process-signature", read_signature)
    app.connect("missing-reference", find_name)
    app.connect("doctree-resolved", link_names)
    app.connect("build-finished", check_assets)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
