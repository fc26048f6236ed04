"""The ways to install the book agree: pyproject.toml, constraints.txt, environment.yml and postBuild, and the commands that the README names."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

# Where conda-forge's name for a package is not PyPI's.
PIP_NAME = {"pytorch-cpu": "torch", "matplotlib-base": "matplotlib"}
# The extras that an image for readers contains; building the site and testing happen elsewhere.
IMAGE_EXTRAS = {"torch", "notebooks"}


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def environment(root):
    return yaml.safe_load((root / "environment.yml").read_text())


@pytest.fixture(scope="module")
def pins(root):
    lines = (line.partition("#")[0].strip() for line in (root / "constraints.txt").read_text().splitlines())
    return {canonicalize_name(r.name): r for r in map(Requirement, filter(None, lines))}


def requirements(lines):
    """{name: range} of requirement lines, leaving out the project's own extras."""
    found = (Requirement(line) for line in lines)
    return {canonicalize_name(r.name): str(r.specifier) for r in found if r.name != "byhand"}


def test_environment_is_what_pyproject_asks_for(project, environment, pins):
    lines = [line for line in environment["dependencies"] if not re.match(r"(python|pip)\b", line)]
    conda = {PIP_NAME.get(name, name): SpecifierSet(allowed) for name, allowed in requirements(lines).items()}
    extras = project["optional-dependencies"]
    wanted = requirements([*project["dependencies"], *(line for extra in IMAGE_EXTRAS for line in extras[extra])])
    assert conda == {name: up_to_next_major(allowed, pins[name]) for name, allowed in wanted.items()}


def up_to_next_major(allowed, pin):
    """An image is built years later: the range of pyproject.toml, below the major version after the one that is tested."""
    (tested,) = (Version(part.version) for part in pin.specifier)
    return SpecifierSet(allowed) & SpecifierSet(f"<{tested.major + 1}")


def test_repo2docker_reads_the_environment(root, tmp_path):
    """Binder's own tool, as far as it goes without Docker: it finds the files, accepts them, and runs postBuild last."""
    for name in ("environment.yml", "postBuild", "pyproject.toml"):
        shutil.copy(root / name, tmp_path)
    command = [Path(sys.executable).with_name("jupyter-repo2docker"), "--no-build", "--debug", tmp_path]
    run = subprocess.run(command, text=True, capture_output=True)
    dockerfile = run.stdout + run.stderr
    assert run.returncode == 0, dockerfile
    assert "conda environment for python=3.11" in dockerfile
    assert dockerfile.index('--file "environment.yml"') < dockerfile.index("RUN ./postBuild")


def test_environment_is_lean(environment, project):
    assert environment["channels"] == ["conda-forge", "nodefaults"]
    assert any(line.startswith("pytorch-cpu") for line in environment["dependencies"])  # the plain name may resolve to a CUDA build
    python = next(line for line in environment["dependencies"] if line.startswith("python="))
    assert project["requires-python"] == ">=" + python.removeprefix("python=")


def test_post_build_installs_the_package_only(root):
    script = root / "postBuild"
    assert script.stat().st_mode & 0o111, "postBuild must be executable"
    assert "pip install --no-deps --no-cache-dir --editable ." in script.read_text()


def test_every_pin_is_exact_and_within_its_range(project, pins):
    for pin in pins.values():
        assert re.fullmatch(r"==[^*,+]+", str(pin.specifier)), f"{pin} is not an exact pin"
    ranges = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    for name, allowed in requirements(ranges).items():
        assert name in pins, f"constraints.txt has no {name}"
        pinned = str(pins[name].specifier).removeprefix("==")
        assert Requirement(f"{name}{allowed}").specifier.contains(pinned, prereleases=True), f"{name}: {pinned} is outside {allowed}"


def test_constraints_cover_what_the_requirements_bring(project, pins):
    """Everything that the extras drag in is pinned, and is installed as pinned."""
    missing, different = set(), set()
    for name in installed_closure("byhand", project["optional-dependencies"]):
        if name not in pins:
            missing.add(name)
        elif Version(version(name)).public != str(pins[name].specifier).removeprefix("=="):
            different.add(f"{name} {version(name)}")
    assert not missing, "not in constraints.txt"
    if os.environ.get("CONSTRAINTS") != "":  # `make test CONSTRAINTS=` takes the newest versions
        assert not different, "installed, but not the pinned version"


def test_building_the_site_needs_no_torch():
    assert "jupyter-book" in installed_closure("byhand", ["book"])
    assert not {"torch", "jupyterlab", "playwright"} & installed_closure("byhand", ["book"])


def installed_closure(name, extras):
    """The installed packages that a package with these extras requires, directly or not."""
    seen, todo = set(), [(name, frozenset(extras))]
    while todo:
        package, wanted = todo.pop()
        for line in requires(package) or []:
            requirement = Requirement(line)
            if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
                continue
            key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
            if key in seen:
                continue
            try:
                version(key[0])
            except PackageNotFoundError:
                continue  # an extra that this platform does not have
            seen.add(key)
            todo.append(key)
    return {package for package, _ in seen} - {name, "setuptools", "pip", "wheel"}


def test_commands_of_the_readme_exist(root):
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(), re.M))
    for page in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"\bmake ([a-z]+)\b", (root / page).read_text()))
        assert named and named <= targets, page
    assert {"book", "test", "lab", "notebooks", "pdf", "bench", "clean", "help"} <= targets


def test_only_constraints_has_exact_pins(root):
    for name in ("pyproject.toml", "environment.yml", "Makefile", "postBuild", ".ci/run"):
        assert "==" not in (root / name).read_text(), name
