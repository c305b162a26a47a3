"""Which file may import what: dependencies point one way, none in a circle, and heavy modules wait for their use."""

import ast
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("theory", "ledger", "sim", "calibrate", "specplan")
THEORY_MAY_IMPORT = {"theory", "", "numpy", "scipy", "sympy", "flint", "joblib"}  # joblib: the ledger's parallel runner
MODEL_LIBRARIES = {"torch", "transformers", "sentence_transformers", "vllm"}
HEAVY = {
    *MODEL_LIBRARIES,
    *("safetensors", "tokenizers", "aiohttp", "ray", "dask", "distributed", "numba", "aiconfigurator_core"),
}
HEAVY_FOLDERS = ("calibrate/engines/", "calibrate/pair/")
MODULES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
MOST_MODULES, MOST_LINES, MOST_FOLDERS = 13, 400, 9
"""Of a folder, its ``__init__`` apart, and of a file: what a newcomer can survey; and folders of `specplan`."""


@dataclass(frozen=True, slots=True)
class Import:
    """What one word of an import names: the candidates, a module or a name in one, then that module itself."""

    names: tuple[str, ...]
    inside: bool
    """Whether it stands in a function."""
    types_only: bool
    """Whether it stands in a type-checking block, which imports nothing."""


def imports(tree: ast.Module) -> list[Import]:
    """Every import of a module."""
    found: list[Import] = []
    stack: list[tuple[Any, bool, bool]] = [(statement, False, False) for statement in tree.body]
    while stack:
        node, inside, types_only = stack.pop()
        if isinstance(node, ast.Import):
            found += [Import((alias.name,), inside, types_only) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used here"
            found += [Import((f"{node.module}.{a.name}", str(node.module)), inside, types_only) for a in node.names]
        inside |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        checking = isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        stack += [(one, inside, types_only or checking) for one in getattr(node, "body", ())]
        for field in ("orelse", "finalbody", "handlers", "cases"):
            stack += [(one, inside, types_only) for one in getattr(node, field, ())]
    return found


def packages(found: Sequence[Import], *, top_level_only: bool = False) -> set[str]:
    """Top-level packages that are imported when the module runs; or when it is imported itself."""
    run = (one for one in found if not (one.types_only or (top_level_only and one.inside)))
    return {one.names[-1].split(".")[0] for one in run}


def modules_imported(found: Sequence[Import], modules: Collection[str]) -> set[str]:
    """Those of ``modules`` that are imported anywhere, be it in a function or for types only."""
    return {named[0] for one in found if (named := [name for name in one.names if name in modules])}


@cache
def read(path: Path) -> list[Import]:
    return imports(ast.parse(path.read_text(encoding="utf-8"), str(path)))


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def siblings(module: str, other: str) -> tuple[str, str]:
    """The names of two modules up to the first part in which they differ; equal if one is above the other."""
    pairs = list(zip(module.split("."), other.split("."), strict=False))
    depth = next((i + 1 for i, (mine, theirs) in enumerate(pairs) if mine != theirs), len(pairs))
    return ".".join(module.split(".")[:depth]), ".".join(other.split(".")[:depth])


def circles(imported_by: Mapping[str, set[str]]) -> list[str]:
    """Circles of imports, each as ``a -> b -> a``; every import that must go to break them all is in one of them."""
    graph = {module: set(imported) for module, imported in imported_by.items()}
    broken = []
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1][::-1]
            broken.append(" -> ".join(circle))
            graph[circle[0]].discard(circle[1])
        else:
            return broken


RULES: dict[str, Callable[[str, list[Import]], set[str]]] = {
    **{
        f"{layer} imports no layer above it": lambda name, own, layer=layer, above=set(LAYERS[i:]): (  # type: ignore[misc]
            packages(own) & above if name.startswith(f"{layer}/") else set()
        )
        for i, layer in enumerate(LAYERS, 1)
    },
    "planning works without the ledger, which the command and page of the theorems alone import": lambda name, own: (
        set() if name.startswith("ledger/") or "theorems" in Path(name).name else packages(own) & {"ledger"}
    ),
    "theory imports only numerics": lambda name, own: (
        packages(own) - sys.stdlib_module_names - THEORY_MAY_IMPORT if name.startswith("theory/") else set()
    ),
    "heavy modules are imported inside functions": lambda _, own: HEAVY & packages(own, top_level_only=True),
    "model libraries stay in their folders": lambda name, own: (
        set() if name.startswith(HEAVY_FOLDERS) else MODEL_LIBRARIES & packages(own)
    ),
}
"""Rule to what a file imports against it."""


@pytest.mark.parametrize("rule", RULES)
def test_no_file_imports_what_it_must_not(rule: str) -> None:
    named = {path.relative_to(ROOT).as_posix(): read(path) for path in MODULES}
    breaches = {name: sorted(against) for name, own in named.items() if (against := RULES[rule](name, own))}
    assert not breaches, rule


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = {dotted(path): read(path) for path in MODULES}
    there = circles({name: modules_imported(own, modules) - {name} for name, own in modules.items()})
    assert not there, "circles of imports (move what both sides need to a third module):\n" + "\n".join(there)


def test_no_sibling_folders_import_each_other_in_a_circle() -> None:
    """A folder stands for all that is below it; files directly in its parent are shared by the parent's folders."""
    modules = {dotted(path): read(path) for path in MODULES}
    packages = {dotted(path) for path in MODULES if path.name == "__init__.py"}
    imported_by: dict[str, set[str]] = {package: set() for package in packages}
    for name, own in modules.items():
        for other in modules_imported(own, modules):
            mine, theirs = siblings(name, other)
            if mine != theirs and mine in packages and theirs in packages:
                imported_by[mine].add(theirs)
    there = circles(imported_by)
    assert not there, "circles of folders (move what both sides need to a third folder):\n" + "\n".join(there)


def test_files_and_folders_can_be_surveyed() -> None:
    rooms = [path.name for path in (ROOT / "specplan").iterdir() if (path / "__init__.py").is_file()]
    assert len(rooms) <= MOST_FOLDERS, sorted(rooms)
    folders = Counter(path.parent.relative_to(ROOT).as_posix() for path in MODULES if path.name != "__init__.py")
    crowded = {folder: n for folder, n in folders.items() if n > MOST_MODULES}
    assert not crowded, f"folders of more than {MOST_MODULES} modules: {crowded}"
    sizes = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    long = {name: n for name, n in sizes.items() if n > MOST_LINES}
    assert not long, f"files of more than {MOST_LINES} lines: {long}"


def test_the_reader_of_imports_sees_what_it_should() -> None:
    source = "import torch.nn\nif TYPE_CHECKING:\n    import vllm\ndef f():\n    from ray import get\n"
    assert packages(imports(ast.parse(source))) == {"torch", "ray"}
    assert packages(imports(ast.parse(source)), top_level_only=True) == {"torch"}


def test_the_reader_of_circles_sees_functions_and_type_checking() -> None:
    sources = {
        "a": "import os\nif TYPE_CHECKING:\n    from b.inner import thing",
        "b": "",
        "b.inner": "def f():\n    from b import other\n    import numpy.c",
        "b.other": "import a\nfrom b import VERSION",
        "c": "import a\nimport c_else",
    }
    imported = {name: modules_imported(imports(ast.parse(text)), sources) for name, text in sources.items()}
    assert imported == {"a": {"b.inner"}, "b": set(), "b.inner": {"b.other"}, "b.other": {"a", "b"}, "c": {"a"}}
    (circle,) = circles(imported)
    assert sorted(circle.split(" -> ")[1:]) == ["a", "b.inner", "b.other"]
    assert "a -> b.inner -> b.other -> a" in f"{circle} -> {circle}"
    assert circles({**imported, "b.inner": set()}) == []
    assert len(circles({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}})) == 2
