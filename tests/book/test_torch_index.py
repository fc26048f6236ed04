"""Where PyTorch's CPU build is asked for, and that an index which does not answer holds nobody up."""

import contextlib
import http.server
import re
import socket
import subprocess
import sys
import threading

import pytest
import torch_index

PAGE = b'<a href="torch-2.13.0%2Bcpu-cp311-none-linux_x86_64.whl">torch</a>'


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in ("PIP_EXTRA_INDEX_URL", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@contextlib.contextmanager
def index(pages=None):
    """A package index on this machine: the pages by name."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            page = (pages or {"/whl/cpu/torch/": PAGE}).get(self.path)
            self.send_response(200 if page else 404)
            self.end_headers()
            self.wfile.write(page or b"")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/whl/cpu"
        server.shutdown()


def test_a_machine_without_a_driver_asks_for_the_cpu_build():
    with index() as address:
        assert torch_index.option(address, "linux", driver=False)[0] == f"--extra-index-url {address}"


def test_others_are_left_alone(monkeypatch):
    with index() as address:
        assert torch_index.option(address, "linux", driver=True)[0] == ""
        assert torch_index.option(address, "darwin", driver=False) == ("", "")
        assert torch_index.option("", "linux", driver=False) == ("", "")
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://example.org/simple")
        assert torch_index.option(address, "linux", driver=False) == ("", "")


def test_an_index_without_torch_is_not_named():
    with index({"/whl/cpu/other/": PAGE}) as address:
        told, why = torch_index.option(address, "linux", driver=False)
    assert told == "" and "does not answer" in why


def test_a_silent_index_holds_nobody_up():
    """It takes the question and never answers; the command ends all the same."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/whl/cpu"
        assert torch_index.answers(address, seconds=0.3) is False


def test_the_command_says_what_it_does(root):
    with index() as address:
        run = subprocess.run([sys.executable, root / "book/_tools/torch_index.py", address], text=True, capture_output=True, check=True)
    if sys.platform == "linux" and not torch_index.has_driver():
        assert run.stdout.strip() == f"--extra-index-url {address}" and "CPU build is taken from" in run.stderr
    else:
        assert not run.stdout.strip()


def test_make_asks_for_every_environment_with_torch(root):
    makefile = (root / "Makefile").read_text()
    assert f"TORCH_INDEX = {torch_index.INDEX}\n" in makefile
    for extra in re.findall(r"\$\(PIP\)(.*)--editable '\.\[(\w+)\]'", makefile):
        assert ("$(TORCH)" in extra[0]) == (extra[1] != "book"), extra
