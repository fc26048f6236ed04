"""Push a built site as the only commit of the branch that GitHub Pages serves.

    python book/_tools/publish.py _build/html

The commit is made without touching the working tree or the index; the history of built sites is not kept.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

BRANCH = "gh-pages"
AUTHOR = {f"GIT_{role}_{field}": value for role in ("AUTHOR", "COMMITTER") for field, value in (("NAME", "byhand"), ("EMAIL", "byhand@localhost"))}


def git(*arguments, **environment):
    run = subprocess.run(["git", *arguments], env={**os.environ, **environment}, check=True, text=True, stdout=subprocess.PIPE)
    return run.stdout.strip()


def commit(site):
    """A commit without parents that holds just the site's files."""
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder, "index")), "GIT_WORK_TREE": str(site.resolve())}
        git("add", "--all", "--force", ".", **index)
        tree = git("write-tree", **index)
    return git("commit-tree", tree, "-m", f"The site built from {git('rev-parse', '--short', 'HEAD')}", **AUTHOR)


def main(site, remote="origin"):
    git("push", "--force", remote, f"{commit(site)}:refs/heads/{BRANCH}")
    print(f"The site is on {BRANCH} of {remote}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
