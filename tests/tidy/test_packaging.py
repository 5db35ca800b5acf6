"""What a user installs: few packages, pinned, hashed and explained; a wheel with everything in it."""

from __future__ import annotations

import re
import tomllib
import zipfile

import pytest

CORE_PACKAGES = 12
LOCKS = ("core", "build", "dev", "fuzz")
PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[^ ;]+)(?P<marker> ; [^\\]+)?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def pins(root, lock):
    """name -> version of one lock file; fails on anything that is not a pin with its hashes."""
    found = {}
    text = (root / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    for entry in text.replace("\\\n", " ").splitlines():
        pin, *hashes = (part.strip() for part in re.split(r"\s(?=--hash)", entry))
        match = PIN.fullmatch(pin)
        assert match, f"requirements/{lock}.txt: {pin!r} is no exact pin"
        assert hashes, f"requirements/{lock}.txt: {pin} has no hash"
        assert all(HASH.fullmatch(h) for h in hashes), f"requirements/{lock}.txt: {pin} has a strange hash"
        found[match["name"]] = match["version"]
    return found


def names(requirements):
    return {re.split(r"[\[<>=!~ ;]", text)[0].lower() for text in requirements if isinstance(text, str)}


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_hold_exact_hashed_pins_only(lock, root):
    assert pins(root, lock)


def test_the_core_is_at_most_twelve_packages(root, project):
    core = pins(root, "core")
    assert names(project["project"]["dependencies"]) <= set(core)
    assert len(core) <= CORE_PACKAGES, sorted(core)


def test_developers_test_what_users_get(root):
    dev = pins(root, "dev")
    for lock in ("core", "build"):
        part = pins(root, lock)
        assert {name: dev.get(name) for name in part} == part, "run make lock"


def test_the_build_backend_is_the_pinned_one(project):
    assert project["build-system"]["requires"] == project["dependency-groups"]["build"]


def test_set_up_accepts_the_pythons_that_the_package_does(root, project):
    low, high = re.findall(r"3\.(\d+)", project["project"]["requires-python"])
    script = (root / "requirements" / "install.sh").read_text(encoding="utf-8")
    assert f"(3, {low}) <= sys.version_info[:2] < (3, {high})" in script
    for minor in range(int(low), int(high)):
        assert f"python3.{minor}" in script
        assert f"Programming Language :: Python :: 3.{minor}" in project["project"]["classifiers"]


def test_every_dependency_is_explained(root, project):
    page = (root / "docs" / "dependencies.md").read_text(encoding="utf-8").lower()
    every = names(project["project"]["dependencies"])
    for group in project["dependency-groups"].values():
        every |= names(group)
    for extra in project["project"].get("optional-dependencies", {}).values():
        every |= names(extra)
    missing = [name for name in sorted(every) if f"**{name}" not in page]
    assert not missing, f"docs/dependencies.md says nothing of {missing}"


def test_the_version_is_read_without_importing_anything(root):
    """A first install builds the package where none of it can be imported."""
    from flit_core.common import Module, get_docstring_and_version_via_ast

    import kedge

    _, version = get_docstring_and_version_via_ast(Module("kedge", root / "src"))
    assert version == kedge.__version__


def test_the_wheel_holds_the_whole_package(root, tmp_path, texts):
    from flit_core.wheel import make_wheel_in

    import kedge

    made = make_wheel_in(root / "pyproject.toml", tmp_path)
    with zipfile.ZipFile(made.file) as wheel:
        inside = set(wheel.namelist())
        facts = f"kedge-{kedge.__version__}.dist-info"
        metadata = wheel.read(f"{facts}/METADATA").decode()
        scripts = wheel.read(f"{facts}/entry_points.txt").decode()
    missing = {p.removeprefix("src/") for p in texts if p.startswith("src/")} - inside
    assert not missing, "pyproject.toml must ship these too"
    assert f"{facts}/licenses/LICENSE" in inside
    assert "License-Expression: Apache-2.0" in metadata
    assert "kedge=kedge.surface.cli:main" in scripts.replace(" ", "")
