"""Buttons and addresses that follow from the repository that the book is built in.

The repository is BOOK_REPOSITORY_URL or git's remote `origin`; the address of the published site is BOOK_SITE_URL or the
one that GitHub and GitLab give. A fork therefore gets its own buttons, and a folder without a remote gets none but the
one that says how to run a page on one's own machine.
"""

import json
import os
import posixpath
import re
import subprocess
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

RUNNING = "book/appendix/running"  # the page that says how to run a notebook locally
PAGES_BRANCH = "gh-pages"  # where the site is published, and Colab finds the notebooks with their first cell
LINK = re.compile(r"(?P<start>(?P<picture>!?)\[[^\]]*\]\()(?P<target>[^)\s]+)\)")
KNOWN_HOSTS = ("github.com", "gitlab.com", "bitbucket.org")


def web_url(remote):
    """The https address of a git remote, without credentials or `.git`; '' if it is not on the web."""
    remote = remote.strip()
    with_scheme = re.match(r"^(?:https?|git|ssh)://(?:[^/@]*@)?([\w.-]+)(?::\d+)?/(.+)$", remote)
    like_scp = re.match(r"^(?:[\w.-]+@)([\w.-]+):(?!/)(.+)$", remote)
    found = with_scheme or like_scp
    if not found:
        return ""
    return f"https://{found[1]}/" + re.sub(r"(\.git)?/*$", "", found[2])


def site_url(repository):
    """Where GitHub or GitLab publish a repository's pages; '' elsewhere."""
    found = re.match(r"https://(github|gitlab)\.com/([^/]+)/([^/]+)$", repository)
    return f"https://{found[2].lower()}.{found[1]}.io/{found[3]}/" if found else ""


def git(root, *arguments):
    try:
        run = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""


def find_repository(root):
    """(address, branch) of the repository; the address is '' where there is none."""
    url = web_url(os.environ.get("BOOK_REPOSITORY_URL") or git(root, "remote", "get-url", "origin"))
    head = git(root, "symbolic-ref", "--short", "refs/remotes/origin/HEAD")
    return url, os.environ.get("BOOK_REPOSITORY_BRANCH") or head.partition("/")[2] or "main"


def binder_url(repository, branch, page):
    host, _, path = repository.removeprefix("https://").partition("/")
    place = {"github.com": f"gh/{path}", "gitlab.com": f"gl/{quote(path, safe='')}"}.get(host, f"git/{quote(repository, safe='')}")
    return f"https://mybinder.org/v2/{place}/{quote(branch, safe='')}?urlpath=lab/tree/{page}.ipynb"


def colab_url(repository, page):
    """Colab opens notebooks from GitHub only: here the copy that was published with its first cell filled in."""
    if not repository.startswith("https://github.com/"):
        return ""
    return repository.replace("https://github.com", "https://colab.research.google.com/github") + f"/blob/{PAGES_BRANCH}/colab/{page}.ipynb"


COLAB_CELL = """\
#@title Run this first: it fetches the book, installs its package and goes to this page's folder
import os, runpy, subprocess
if "COLAB_RELEASE_TAG" in os.environ:  # anywhere else there is nothing to do
    book = os.environ.setdefault("BYHAND_BOOK", os.path.abspath({name!r}))
    if not os.path.isdir(book):
        subprocess.run(["git", "clone", "--quiet", "--depth=1", "--branch={branch}", {repository!r}, book], check=True)
    runpy.run_path(f"{{book}}/book/_tools/colab.py", run_name="__main__")
    os.chdir(f"{{book}}/{folder}")"""


def colab_notebook(notebook, page, repository, branch, root):
    """The notebook of a page as Colab needs it.

    Colab has the notebook alone: a first cell fetches the book, links lead to the other pages there, or to the repository, and pictures
    that are files of the book stand in the text.
    """
    folder, name = page.rpartition("/")[0], repository.rpartition("/")[2]
    source = COLAB_CELL.format(name=name, branch=branch, repository=repository, folder=folder)
    cell = {"cell_type": "code", "id": "colab", "metadata": {"cellView": "form"}, "execution_count": None, "outputs": [], "source": source}
    return {**notebook, "cells": [cell, *(colab_cell(cell, folder, repository, branch, root) for cell in notebook["cells"])]}


def colab_cell(cell, folder, repository, branch, root):
    if cell["cell_type"] == "code":  # Colab's own name for folded code stands beside Jupyter's
        folded = {"cellView": "form"} if cell["metadata"].get("jupyter", {}).get("source_hidden") else {}
        return {**cell, "metadata": {**cell["metadata"], **folded}}

    def address(link):
        file, mark, anchor = link["target"].partition("#")
        path = posixpath.normpath(f"{folder}/{file}")
        if re.match(r"[a-z]+:", file) or not file or not Path(root, path).is_file():
            return link[0]
        if link["picture"]:
            return f"{link['start']}data:image/svg+xml;base64,{b64encode(Path(root, path).read_bytes()).decode()})"
        there = colab_url(repository, path.removesuffix(".ipynb")) if path.endswith(".ipynb") else f"{repository}/blob/{branch}/{path}"
        return f"{link['start']}{there}{mark}{anchor})"

    return {**cell, "source": LINK.sub(address, "".join(cell["source"]))}


def set_addresses(app, config):
    config.book_repository, config.book_branch = find_repository(app.srcdir)
    if not config.html_baseurl:
        config.html_baseurl = os.environ.get("BOOK_SITE_URL") or site_url(config.book_repository)
    options = config.html_theme_options
    options["navbar_persistent"] = []  # the theme otherwise shows a second search box
    known = re.match(r"https://([^/]+)/[^/]+/[^/]+$", config.book_repository)
    options["launch_buttons"] = {}  # ours are added below
    if known and known[1] in KNOWN_HOSTS:
        options.update(repository_url=config.book_repository, repository_branch=config.book_branch)
        options.update(use_repository_button=True, use_issues_button=True, use_edit_page_button=True)


def add_launch_buttons(app, pagename, templatename, context, doctree):
    if not is_notebook(app, pagename) or "header_buttons" not in context:
        return
    repository, branch = app.config.book_repository, app.config.book_branch
    places = [("Your own machine", context["pathto"](RUNNING), "fas fa-laptop-code")] if RUNNING in app.env.found_docs else []
    if repository:
        places.append(("Binder", binder_url(repository, branch, pagename), "_static/images/logo_binder.svg"))
        if colab := colab_url(repository, pagename):
            places.append(("Colab", colab, "_static/images/logo_colab.png"))
    buttons = [{"type": "link", "text": text, "tooltip": f"Run this page: {text}", "icon": icon, "url": url} for text, url, icon in places]
    if buttons:
        group = {"type": "group", "tooltip": "Run this page", "icon": "fas fa-rocket", "buttons": buttons, "label": "launch-buttons"}
        context["header_buttons"].insert(0, group)


def write_colab_notebooks(app, exception):
    if exception or app.builder.name != "html" or not app.config.book_repository.startswith("https://github.com/"):
        return
    for page in filter(lambda name: is_notebook(app, name), app.env.found_docs):
        notebook = json.loads(Path(app.env.doc2path(page)).read_text(encoding="utf-8"))
        target = Path(app.outdir, "colab", f"{page}.ipynb")
        target.parent.mkdir(parents=True, exist_ok=True)
        filled = colab_notebook(notebook, page, app.config.book_repository, app.config.book_branch, app.srcdir)
        target.write_text(json.dumps(filled, indent=1, ensure_ascii=False), encoding="utf-8")


def is_notebook(app, page):
    return page in app.env.found_docs and str(app.env.doc2path(page)).endswith(".ipynb")


def setup(app):
    app.add_config_value("book_repository", "", "env")
    app.add_config_value("book_branch", "", "env")
    app.connect("config-inited", set_addresses, priority=100)
    app.connect("html-page-context", add_launch_buttons, priority=600)  # after the theme has begun its list
    app.connect("build-finished", write_colab_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
