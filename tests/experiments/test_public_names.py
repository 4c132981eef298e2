"""Experiments, benchmarks and examples use nesymm as anybody can: by its public names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import nesymm

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for folder in ("experiments", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
)


def private(tree: ast.AST) -> list[str]:
    """What a module reads of nesymm, or of any object but its own, that is not public."""
    found: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="nesymm", names=names):
                found += [n.name for n in names if n.name not in nesymm.__all__]
            case ast.ImportFrom(module=str(module)) if module.startswith("nesymm."):
                found.append(module)
            case ast.Import(names=names):
                found += [n.name for n in names if n.name.startswith("nesymm.")]
            case ast.Attribute(value=ast.Name(id="nesymm"), attr=name):
                found += [] if name in nesymm.__all__ else [f"nesymm.{name}"]
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name) if name.startswith("_") and not name.startswith("__"):
                found.append(f"._{name[1:]}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_public_names_are_used(path: Path) -> None:
    assert private(ast.parse(path.read_text(encoding="utf-8"))) == []


def test_private_names_are_found() -> None:
    source = (
        "import nesymm.ir.step\nfrom nesymm import prepare\nfrom nesymm.model import Model\n"
        "model._filter(1)\nself._own\nnesymm.compile\nnesymm.ground\nx.__class__"
    )
    found = private(ast.parse(source))
    assert sorted(found) == [
        "._filter",
        "nesymm.ground",
        "nesymm.ir.step",
        "nesymm.model",
        "prepare",
    ]
