"""Makes the golden journals that are missing: `.venv/bin/python tests/golden/make.py`.

A file that is there is never written again, nor its hash: what it holds is what a version once wrote. A new
shape (or a shape that shows a new event or field) is added to golden_shapes.py under a new name.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

import golden
from golden_shapes import SHAPES, Shape, Stage

from kedge.testing import run_virtually
from kedge.testing.scripts import Always, Discover, Fail, Hang, Late, Use


def make(shape: Shape) -> bytes:
    """The journal of one shape, as this version writes it."""
    stage = Stage(shape.plan, shape.script, shape.effects)
    run_virtually(_played(shape, stage))
    return golden.write(shape.name, shape.says, written(shape.script), stage.journal)


async def _played(shape: Shape, stage: Stage) -> None:
    await shape.play(stage)


def written(answer: Any) -> Any:
    """A script as data."""
    match answer:
        case Fail() | Hang() | Late() | Discover() | Use() | Always():
            parts = {name: written(part) for name, part in answer._asdict().items()}
            return {type(answer).__name__: parts}
        case dict():
            return {key: written(part) for key, part in answer.items()}
        case list():
            return [written(part) for part in answer]
        case _:
            return f"a function: {answer.__name__}" if callable(answer) else answer


def main() -> None:
    """Make what is missing."""
    known = golden.hashes()
    for shape in SHAPES:
        path = golden.FOLDER / f"{shape.name}.jsonl"
        if path.exists() or path.name in known:
            continue
        content = make(shape)
        path.write_bytes(content)
        with golden.HASHES.open("a", encoding="utf-8") as file:
            file.write(f"{hashlib.sha256(content).hexdigest()}  {path.name}\n")
        sys.stdout.write(f"made {path.name}\n")


if __name__ == "__main__":
    main()
