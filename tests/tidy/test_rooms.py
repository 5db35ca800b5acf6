"""Who may import whom. A room is a folder of src/kedge; type-only and in-function imports count as well."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

INNER = "base plan checks flow journal tools engine planner agents views control"
MAY_IMPORT = {
    "base": "",
    "plan": "base",
    "checks": "base plan",
    "flow": "base plan checks",
    "journal": "base",
    "tools": "base plan",
    "engine": "base plan flow journal tools",
    "planner": "base plan checks flow",
    "agents": "base plan flow",
    "views": "base plan flow",
    "control": "base plan checks flow journal tools engine views _version",
    "surface": "base plan views control api assemble",
    "testing": f"{INNER} api assemble",
    "api": f"{INNER} assemble",
    "assemble": INNER,
    "_version": "",
    "__init__": f"{INNER} api assemble _version",  # re-exports, and nothing else
    "__main__": "surface",
}

# The core is pure: it is given the time, and does nothing itself. What it would need for doing stays out.
PURE_ROOMS = {"plan", "checks", "flow", "views"}
NOT_PURE = frozenset(
    """apsw asyncio concurrent http io logging multiprocessing os pathlib queue random secrets selectors
    shutil signal socket sqlite3 subprocess tempfile threading time urllib uuid""".split()
)
NOT_PURE_CALLS = {"open", "print", "input"}
PURE_EXCEPTIONS = {
    "src/kedge/plan/read.py": {
        "os",
        "pathlib",
    },  # opens a plan's file, for `load`: nothing else in the room does
    "src/kedge/plan/write.py": {"uuid"},  # the type, to write such a value as text; none is made
}

BASE_MAY_USE = frozenset(
    """__future__ collections dataclasses enum functools hashlib math msgspec re typing zlib""".split()
)
BASE_EXCEPTIONS = {
    "src/kedge/base/clock.py": {"time"},  # the clock's one implementation
    "src/kedge/base/collector.py": {"contextlib", "gc"},  # holding the collector still is its whole job
    "src/kedge/base/ids.py": {"secrets"},  # fresh run ids
}

# One room owns a dependency, so that it can be replaced there. msgspec is the language of all rooms.
OWNERS = {
    "apsw": "journal",
    "click": "surface",
    "msgspec": f"{INNER} surface testing api assemble",
    "rich": "surface",
    "yaml": "plan tools",
}

ENTRY_POINTS = {"kedge", "kedge.__main__", "kedge.surface.cli"}


def test_rooms_import_only_what_the_table_allows(shipped, blame):
    wrong = []
    for module in shipped:
        allowed = MAY_IMPORT.get(module.room)
        if allowed is None:
            wrong.append(f"{module.path}: room {module.room!r} is not in the table: add it, with a reason")
            continue
        for line, target in imports(module):
            room = room_of(target)
            if room is not None and room != module.room and room not in allowed.split():
                wrong.append(
                    f"{module.path}:{line} imports {target}; {module.room} may import: {allowed or 'nothing'}"
                )
    blame(wrong)


def test_surfaces_do_not_import_each_other(shipped, blame):
    wrong = []
    for module in shipped:
        here = module.name.split(".")[:3]
        for line, target in imports(module):
            there = target.split(".")[:3]
            if (
                here[:2] == there[:2] == ["kedge", "surface"]
                and len(here) == len(there) == 3
                and here != there
            ):
                wrong.append(f"{module.path}:{line} imports {target}; a surface stands alone")
    blame(wrong)


def test_the_core_does_nothing_itself(shipped, blame):
    wrong = []
    for module in (m for m in shipped if m.room in PURE_ROOMS):
        banned = NOT_PURE - PURE_EXCEPTIONS.get(module.path, set())
        done = [(line, f"imports {name}") for line, name in imports(module) if name.split(".")[0] in banned]
        calls = (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))
        names = ((call.lineno, called(call.func)) for call in calls if isinstance(call.func, ast.Name))
        done += [(line, f"calls {name}") for line, name in names if name in NOT_PURE_CALLS]
        wrong += [
            f"{module.path}:{line} {what}; {module.room} is pure: let it be given" for line, what in done
        ]
    blame(wrong)


def test_base_stands_on_little(shipped, blame):
    wrong = []
    for module in shipped:
        if module.room != "base":
            continue
        allowed = BASE_MAY_USE | BASE_EXCEPTIONS.get(module.path, set()) | {"kedge"}
        wrong += [
            f"{module.path}:{line} imports {target}; base may use: {', '.join(sorted(allowed))}"
            for line, target in imports(module)
            if target.split(".")[0] not in allowed
        ]
    blame(wrong)


def test_every_dependency_is_declared_and_has_an_owner(shipped, blame):
    wrong = []
    for module in shipped:
        for line, target in imports(module):
            top = target.split(".")[0]
            if top == "kedge" or top in sys.stdlib_module_names:
                continue
            if module.room not in OWNERS.get(top, "").split():
                who = OWNERS.get(top) or "nobody: it is no dependency of the core"
                wrong.append(f"{module.path}:{line} imports {target}; that may: {who}")
    blame(wrong)


def test_every_room_says_what_it_owns(shipped, blame):
    packages = {Path(module.path).parent.as_posix() for module in shipped}
    named = {m.path: ast.get_docstring(m.tree) for m in shipped if m.path.endswith("/__init__.py")}
    wrong = [
        f"{folder}/__init__.py: missing or without a docstring"
        for folder in packages
        if not named.get(f"{folder}/__init__.py")
    ]
    blame(wrong)


def test_no_module_is_dead(shipped, blame):
    """Every module is reached from an entry point, by import or by name (lazy re-exports, child processes).

    What `testing` offers is for users, who import it themselves.
    """
    uses = {m.name: {name for _, name in imports(m)} | dotted_names(m.tree) for m in shipped}
    reached: set[str] = set()
    todo = [*ENTRY_POINTS, *(m.name for m in shipped if m.room == "testing")]
    while todo:
        fresh = {part for part in prefixes(todo.pop()) if part in uses} - reached
        reached |= fresh
        todo += [name for part in fresh for name in uses[part]]
    blame(
        f"{m.path}: no entry point reaches it: use it or delete it" for m in shipped if m.name not in reached
    )


def test_the_import_reader_sees_every_form():
    from types import SimpleNamespace

    text = (
        "import kedge.flow.state as s\n"
        "from kedge.plan import model\n"
        "from kedge import views, Plan\n"
        "from . import near\n"
        "from ..base.ids import run_id\n"
        "def f():\n    import apsw\n"
        "if TYPE_CHECKING:\n    from kedge.surface import cli\n"
        "import_module('kedge.testing.world')\n"
    )
    module = SimpleNamespace(tree=ast.parse(text), package="kedge.engine", path="x.py", name="kedge.engine.x")
    found = [(line, room_of(target) or target) for line, target in imports(module)]
    assert found == [
        (1, "flow"), (2, "plan"), (3, "views"), (3, "api"), (4, "engine"), (5, "base"), (7, "apsw"),
        (9, "surface"), (10, "testing"),
    ]  # fmt: skip


def test_importing_the_package_loads_nothing_heavy(root):
    code = (
        "import sys, kedge; print(*sorted({'apsw', 'yaml', 'click', 'rich', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(root / "src"), "PATH": ""},
    )
    assert done.stdout.split() == [], "import kedge must stay lazy"


def test_public_names_resolve_and_none_is_a_rooms_name():
    import kedge

    rooms = {path.name for path in Path(kedge.__file__).parent.iterdir() if path.is_dir()}
    assert kedge.__all__, "src/kedge/__init__.py must list its public names in __all__"
    assert not rooms & set(kedge.__all__), "importing the room would replace the public name"
    assert list(kedge.__all__) == sorted(set(kedge.__all__), key=lambda name: (name.lower(), name)), (
        "keep __all__ sorted, each name once"
    )
    assert [name for name in kedge.__all__ if not hasattr(kedge, name)] == []


def imports(module):
    """(line, dotted name) of everything a module imports, wherever in it the import stands."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.package.split(".")[: len(module.package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and called(node.func) == "import_module":
            values = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
            yield from ((node.lineno, value) for value in values if isinstance(value, str))


def called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def room_of(target: str) -> str | None:
    """The room a dotted name leads to: `api` for a public name (`kedge.Plan`), None for others' packages."""
    parts = target.split(".")
    if parts[0] != "kedge":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else "api"


def prefixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def dotted_names(tree: ast.Module) -> set[str]:
    texts = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return {text for text in texts if text.startswith("kedge.") and text.replace(".", "").isidentifier()}
