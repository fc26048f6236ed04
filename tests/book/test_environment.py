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
from packaging.utils import canonicalize_name
from packaging.version import Version
from repo2docker.buildpacks import conda
from runtimes import fresh_python, jupyter_kernel, nbval


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


def test_repo2docker_reads_the_environment(root, tmp_path):
    """Binder's own tool, as far as it goes without Docker: it finds the files, accepts them, and runs postBuild last."""
    for name in ("environment.yml", "postBuild", "pyproject.toml", "constraints.txt"):
        shutil.copy(root / name, tmp_path)
    command = [Path(sys.executable).with_name("jupyter-repo2docker"), "--no-build", "--debug", tmp_path]
    run = subprocess.run(command, text=True, capture_output=True)
    dockerfile = run.stdout + run.stderr
    assert run.returncode == 0, dockerfile
    assert "conda environment for python=3.11" in dockerfile
    assert dockerfile.index('--file "environment.yml"') < dockerfile.index("RUN ./postBuild")


def test_conda_brings_python_and_pip_alone(environment, project):
    assert environment["channels"] == ["conda-forge", "nodefaults"]
    python, *others = environment["dependencies"]
    assert others == ["pip"]
    assert project["requires-python"] == ">=" + python.removeprefix("python=")


def test_post_build_installs_what_is_tested(root, project):
    """In the versions of constraints.txt, with PyTorch's CPU build, without pip's cache, and only what a page computes with or shows."""
    script = root / "postBuild"
    assert script.stat().st_mode & 0o111, "postBuild must be executable"
    (line,) = (line for line in script.read_text().splitlines() if " install " in line)
    assert "--no-cache-dir --constraint constraints.txt $(python book/_tools/torch_index.py) --editable '.[pages]' jupyterlab-myst" in line
    extras = project["optional-dependencies"]
    assert "byhand[pages]" in extras["notebooks"] and "byhand[torch]" in extras["pages"]


@pytest.mark.slow
def test_what_binder_installs(root, tmp_path, pins):
    """postBuild, beside the image's own JupyterLab and hub in a fresh environment: nothing conflicts, versions are as tested, pages run."""
    python = fresh_python(tmp_path / "venv")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages_of_the_image()], check=True)
    environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([root / "postBuild"], cwd=root, env=environment, check=True)
    check = subprocess.run([python, "-m", "pip", "check"], text=True, capture_output=True)
    assert check.returncode == 0, check.stdout
    frozen = subprocess.run([python, "-m", "pip", "list", "--format=freeze"], text=True, capture_output=True, check=True).stdout
    installed = {canonicalize_name(r.name): r for r in map(Requirement, frozen.split())}
    for name in ("numpy", "torch", "sympy", "matplotlib", "tokenizers", "bm25s", "jupyterlab-myst"):
        assert Version(str(installed[name].specifier).removeprefix("==")).public == str(pins[name].specifier).removeprefix("=="), name
    kernel = jupyter_kernel(tmp_path, "binder", python)
    pages = [root / f"book/{page}.ipynb" for page in ("step/06-attention", "stack/08a-training-loop", "stack/12-assistant", "workshop/compare")]
    run = subprocess.run(nbval(root, "binder", *pages), cwd=root, env={**os.environ, **kernel}, text=True, capture_output=True)
    assert run.returncode == 0, run.stdout[-4000:]


def packages_of_the_image(python="3.11"):
    """What repo2docker puts into every image, under PyPI's names: ['jupyterlab==4.4.9', ...]."""
    folder = Path(conda.__file__).parent
    named = yaml.safe_load((folder / f"environment.py-{python}.yml").read_text())["dependencies"]
    versions = dict(re.findall(r"/([a-z0-9_-]+)-([^-/]+)-[^-/]+\.(?:conda|tar\.bz2)", (folder / f"environment.py-{python}-linux-64.lock").read_text()))
    wanted = [re.match(r"[\w-]+", line)[0] for line in named]
    packages = [f"{name}=={versions[name]}" for name in wanted if name not in ("python", "pip", "nodejs")]
    return [package.replace("jupyterhub-singleuser", "jupyterhub") for package in packages]


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
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.M))
    for page in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"\bmake ([a-z]+(?:-[a-z]+)*)\b", (root / page).read_text()))
        assert named and named <= targets, page
    assert {"book", "test", "lab", "notebooks", "pdf", "bench", "test-kernels", "clean", "help"} <= targets


def test_one_version_everywhere(root, project):
    version = project["version"]
    assert yaml.safe_load((root / "CITATION.cff").read_text())["version"] == version
    assert re.search(r"^## (\d\S+)", (root / "CHANGELOG.md").read_text(), re.M)[1] == version, "the newest released version"
    for page in ("README.md", "book/appendix/citing.md"):
        named = set(re.findall(r"(?:version|version =) \{?(\d+\.\d+\.\d+)", (root / page).read_text()))
        assert named == {version}, page


def test_only_constraints_has_exact_pins(root):
    for name in ("pyproject.toml", "environment.yml", "Makefile", "postBuild", ".ci/run"):
        assert "==" not in (root / name).read_text(), name
