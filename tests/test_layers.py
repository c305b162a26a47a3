"""Which folder may import what: dependencies point one way, and heavy modules are imported where they are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("theory", "sim", "calibrate", "specplan")
THEORY_MAY_IMPORT = {"numpy", "scipy", "sympy", "flint", "joblib"}  # joblib: the ledger's parallel runner
HEAVY = {
    "torch",
    "sentence_transformers",
    "transformers",
    "safetensors",
    "tokenizers",
    "vllm",
    "httpx",
    "ray",
    "dask",
    "distributed",
    "numba",
}
HEAVY_FOLDERS = ("calibrate/engines/", "calibrate/pair/")
MODULES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
# Of these folders some modules are scripts or worker processes that are never imported by the product itself.


def imports(tree: ast.AST, *, top_level_only: bool = False) -> Iterator[str]:
    """Top-level packages that a module imports; type-checking blocks do not count, they import nothing."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used here"
            yield (node.module or "").split(".")[0]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            stack.extend(node.orelse)
        elif not (top_level_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)):
            stack.extend(ast.iter_child_nodes(node))


def parsed(path: Path) -> ast.AST:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@pytest.mark.parametrize("layer", LAYERS)
def test_dependencies_point_one_way(layer: str) -> None:
    forbidden = set(LAYERS[LAYERS.index(layer) + 1 :])
    for path in (ROOT / layer).rglob("*.py"):
        upward = forbidden & set(imports(parsed(path)))
        assert not upward, f"{path.relative_to(ROOT)} imports {sorted(upward)}, which is above it"


def test_theory_imports_only_numerics() -> None:
    import sys

    for path in (ROOT / "theory").rglob("*.py"):
        foreign = set(imports(parsed(path))) - sys.stdlib_module_names - {"theory", ""}
        assert foreign <= THEORY_MAY_IMPORT, f"{path.relative_to(ROOT)} imports {sorted(foreign - THEORY_MAY_IMPORT)}"


def test_heavy_modules_are_imported_inside_functions() -> None:
    for path in MODULES:
        heavy = HEAVY & set(imports(parsed(path), top_level_only=True))
        assert not heavy, f"{path.relative_to(ROOT)} imports {sorted(heavy)} when it is imported itself"


def test_model_libraries_stay_in_their_folders() -> None:
    for path in MODULES:
        name = path.relative_to(ROOT).as_posix()
        models = {"torch", "transformers", "sentence_transformers", "vllm"} & set(imports(parsed(path)))
        assert not models or name.startswith(HEAVY_FOLDERS), f"{name} imports {sorted(models)}"


def test_the_reader_of_imports_sees_what_it_should() -> None:
    source = "import torch.nn\nif TYPE_CHECKING:\n    import vllm\ndef f():\n    from ray import get\n"
    assert set(imports(ast.parse(source))) == {"torch", "ray"}
    assert set(imports(ast.parse(source), top_level_only=True)) == {"torch"}
