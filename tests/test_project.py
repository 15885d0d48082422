"""The shape of the project: what ships, who may import whom, and what is public."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.conftest import ROOT

# A module may import from its own layer and from lower ones. What is not named here is above all of it: the package
# itself, the simulator, the command line, and what later work adds.
LAYERS = {
    "orx_rx.errors": 0,
    "orx_rx.wire": 1,
    "orx_rx.models": 1,
    "orx_rx.protocol": 2,
    "orx_rx.tools": 2,
    "orx_rx.reporting": 3,
    "orx_rx.loops": 3,
    "orx_rx.step": 3,
    "orx_rx.stream": 3,
    "orx_rx.exchange": 3,
    "orx_rx.flow": 3,
    "orx_rx.inbox": 3,
    "orx_rx.owner": 3,
    "orx_rx.operators": 4,
    "orx_rx.aio": 5,
    "orx_rx.bridges": 5,
    "orx_rx.cassettes": 5,
    "orx_rx.http": 5,
}
TOP = 6
CORE = 2  # the highest layer that works without Rx and without a network

PLUGIN = "pytest_orx_rx"  # stands beside the package, see there

SPEAKS_HTTP = ("orx_rx.http", "orx_rx.simulator")  # later files that serve HTTP are named here


def test_the_package_list_names_every_folder() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = [module for module, path in _sources().items() if path.name == "__init__.py"]
    assert project["tool"]["setuptools"]["packages"] == sorted(folders)


@pytest.mark.skipif(
    not (ROOT / ".git").exists() or sys.platform == "win32",
    reason="only a checkout has the link, and on Windows git may write a text file in its place",
)
def test_the_link_leads_to_the_operators() -> None:
    assert (ROOT / "orx_rx" / "operators").readlink() == Path("../operators")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel from a copy, where no build/ of last week can add to it."""
    if _major("build") is None:
        pytest.skip("expected the package `build`, found none")
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", f"{PLUGIN}.py"):
        shutil.copy(ROOT / name, source)
    for name in ("orx_rx", "operators", "tests", "examples", "benchmarks"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    isolation = [] if (_major("setuptools") or 0) < 77 else ["--no-isolation"]
    built = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", *isolation, "--outdir", target, source],
        cwd=target,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = target.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_carries_the_operators(wheel: zipfile.ZipFile) -> None:
    assert "orx_rx/operators/__init__.py" in wheel.namelist()


def test_the_wheel_carries_every_module_once_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    shipped = [name for name in wheel.namelist() if ".dist-info/" not in name]
    modules = [_as_shipped(path) for path in _sources().values()]
    assert sorted(shipped) == sorted([*modules, "orx_rx/py.typed", f"{PLUGIN}.py"])


def test_the_wheel_installs_one_top_level_name_and_that_of_the_pytest_plugin(wheel: zipfile.ZipFile) -> None:
    (top_level,) = (name for name in wheel.namelist() if name.endswith(".dist-info/top_level.txt"))
    assert wheel.read(top_level).split() == [b"orx_rx", PLUGIN.encode()]


def test_the_wheel_names_its_command_and_its_pytest_plugin(wheel: zipfile.ZipFile) -> None:
    # the plugin under the name of its module, since otherwise `-p` and the entry point would be two
    (entry_points,) = (name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt"))
    words = wheel.read(entry_points).decode().split()
    assert words == ["[console_scripts]", "orx-rx", "=", "orx_rx.cli:main", "[pytest11]", PLUGIN, "=", PLUGIN]


def test_dependencies_point_one_way() -> None:
    assert not [
        f"{module} imports {target}, which is above it"
        for module, target in _all_imports()
        if _is_within(target, "orx_rx") and _layer(target) > _layer(module)
    ]


def test_no_module_depends_on_itself_in_a_circle() -> None:
    graph = {module: set(_imports(path, at_import_time=True)) - {module} for module, path in _sources().items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which shows the circle


def test_the_core_knows_neither_rx_nor_a_network() -> None:
    assert not [
        f"{module} imports {target}"
        for module, target in _all_imports()
        if _layer(module) <= CORE and _is_within(target, "reactivex", "aiohttp", "asyncio")
    ]


def test_aiohttp_is_imported_only_where_http_is_spoken() -> None:
    assert not [
        f"{module} imports {target}"
        for module, target in _all_imports()
        if _is_within(target, "aiohttp") and not _is_within(module, *SPEAKS_HTTP)
    ]


def test_operators_do_not_import_each_other() -> None:
    assert not [
        f"{module} imports {target}"
        for module, target in _all_imports()
        if module.startswith("orx_rx.operators.") and _is_within(target, "orx_rx.operators")
    ]


def test_imports_are_absolute() -> None:
    # In operators/ a relative import makes a second copy of every class for whoever imports `operators` by accident.
    assert not [
        f"{module}: line {statement.lineno}"
        for module, path in _sources().items()
        for statement in _import_statements(ast.parse(path.read_bytes()))
        if isinstance(statement, ast.ImportFrom) and statement.level
    ]


@pytest.mark.parametrize("package", ["orx_rx", "orx_rx.operators"])
def test_the_public_names_are_sorted_and_exist(package: str) -> None:
    module = importlib.import_module(package)
    names: list[str] = list(module.__all__)
    assert names == sorted(names, key=_as_ruff_sorts)
    assert not [name for name in names if not hasattr(module, name)]


def _as_ruff_sorts(name: str) -> tuple[int, str]:
    """CONSTANTS, then Classes, then functions: the order of RUF022, which `make format` writes."""
    if len(name) > 1 and name.isupper():
        return 0, name
    return (1 if name[0].isupper() else 2), name


def _major(distribution: str) -> int | None:
    # Not find_spec: it would take a folder build/ in the root for the package.
    try:
        return int(importlib.metadata.version(distribution).partition(".")[0])
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def _sources() -> dict[str, Path]:
    """Find the file of every module of the library, by the name that the module is imported under."""
    files = [*(ROOT / "orx_rx").rglob("*.py"), *(ROOT / "operators").rglob("*.py")]
    return {_as_shipped(path).removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in files}


def _as_shipped(path: Path) -> str:
    relative = path.relative_to(ROOT).as_posix()
    return f"orx_rx/{relative}" if relative.startswith("operators/") else relative


def _layer(module: str) -> int:
    return next((layer for name, layer in LAYERS.items() if _is_within(module, name)), TOP)


def _is_within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _all_imports() -> list[tuple[str, str]]:
    return [(module, target) for module, path in _sources().items() for target in _imports(path)]


def _imports(path: Path, *, at_import_time: bool = False) -> Iterator[str]:
    """Name the modules that a file imports: `from a import b` is a.b where that is a module of ours, and else a."""
    for statement in _import_statements(ast.parse(path.read_bytes()), at_import_time=at_import_time):
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        else:
            package = statement.module or ""
            for alias in statement.names:
                name = f"{package}.{alias.name}"
                yield name if name in _sources() else package


def _import_statements(tree: ast.AST, *, at_import_time: bool = False) -> Iterator[ast.Import | ast.ImportFrom]:
    """Find the imports of a tree, leaving out those for type checkers and, if asked to, those within functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in node.orelse:
                yield from _import_statements(ast.Module([other], []), at_import_time=at_import_time)
        elif not (at_import_time and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            yield from _import_statements(node, at_import_time=at_import_time)
