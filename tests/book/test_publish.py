"""Publishing: the branch holds the site and nothing else, the working tree stays as it was, and the workflows only call make."""

import os
import re
import subprocess
import sys

import pytest
import yaml

IDENTITY = {f"GIT_{role}_{field}": "x" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}


def git(folder, *arguments):
    run = subprocess.run(["git", *arguments], cwd=folder, env={**os.environ, **IDENTITY}, check=True, text=True, capture_output=True)
    return run.stdout.strip()


def test_the_branch_holds_the_site_alone(root, tmp_path):
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    git(tmp_path, "init", "--quiet", "work")
    work = tmp_path / "work"
    (work / "_build/html/book").mkdir(parents=True)
    (work / ".gitignore").write_text("_build/\n")
    (work / "source.txt").write_text("source")
    git(work, "remote", "add", "origin", "../remote.git")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "source")
    for text in ("first", "second"):  # the second push replaces the first
        (work / "_build/html/book/page.html").write_text(text)
        (work / "_build/html/.nojekyll").write_text("")
        subprocess.run([sys.executable, root / "book/_tools/publish.py", "_build/html"], cwd=work, check=True, capture_output=True)
    remote = tmp_path / "remote.git"
    assert git(remote, "ls-tree", "-r", "--name-only", "gh-pages").splitlines() == [".nojekyll", "book/page.html"]
    assert git(remote, "show", "gh-pages:book/page.html") == "second"
    assert git(remote, "rev-list", "--count", "gh-pages") == "1"
    assert git(work, "status", "--short") == "" and git(work, "ls-files").splitlines() == [".gitignore", "source.txt"]


@pytest.mark.parametrize("name", ["book.yml", "weekly.yml"])
def test_workflows_only_call_make(root, name):
    workflow = yaml.safe_load((root / ".github/workflows" / name).read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.M))
    assert {command.split()[1] for command in commands} <= targets
    assert all(command.split()[0] == "make" and "\n" not in command.strip() for command in commands)
    assert {"book", "test"} <= {command.split()[1] for command in commands}


def test_a_release_gets_the_kit(root):
    workflow = yaml.safe_load((root / ".github/workflows/release.yml").read_text())
    commands = [step["run"] for step in workflow["jobs"]["kit"]["steps"] if "run" in step]
    assert commands == ["make kit", 'gh release upload "$TAG" _build/kit.zip --clobber']
    assert "zipfile -c kit.zip kit/" in (root / "Makefile").read_text()


def test_every_week_other_machines_browsers_and_doors_are_tried(root):
    jobs = yaml.safe_load((root / ".github/workflows/weekly.yml").read_text())["jobs"]
    tried = {value for job in jobs.values() for values in job.get("strategy", {}).get("matrix", {}).values() for value in values}
    assert {"macos-latest", "firefox", "webkit", "3.11", "3.13"} <= tried
    assert "make weekly" in [step.get("run") for step in jobs["doors"]["steps"]]
