"""Which further index pip needs, so that a machine without an NVIDIA driver gets PyTorch's CPU build and not several GB of CUDA libraries.

    python -m pip install $(python book/_tools/torch_index.py) ...

Prints an option for pip, or nothing: on macOS and Windows, where PyPI's own build is a CPU build; with an NVIDIA driver; where PIP_EXTRA_INDEX_URL
is set, which then decides; and where the index does not answer within a few seconds. It runs before anything is installed.
"""

import http.client
import os
import shutil
import sys
import threading
import urllib.request

INDEX = "https://download.pytorch.org/whl/cpu"
DRIVER = ("/proc/driver/nvidia", "/dev/nvidiactl", "/usr/lib/wsl/lib/libcuda.so.1")
SECONDS = 4


def has_driver():
    return any(map(os.path.exists, DRIVER)) or shutil.which("nvidia-smi") is not None


def answers(index, seconds=SECONDS):
    """Whether an index has a page about torch. A look-up of a name knows no time limit, so the question is asked aside."""
    found = []

    def ask():
        try:
            with urllib.request.urlopen(f"{index.rstrip('/')}/torch/", timeout=seconds) as answer:
                found.append(answer.status == 200)
        except (OSError, ValueError, http.client.HTTPException):
            found.append(False)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return found == [True]


def option(index=INDEX, platform=sys.platform, driver=None):
    """(what pip is to be told, why)."""
    if not index or platform != "linux" or "PIP_EXTRA_INDEX_URL" in os.environ:
        return "", ""
    if has_driver() if driver is None else driver:
        return "", "An NVIDIA driver is here: PyTorch comes with CUDA. For the CPU build, set PIP_EXTRA_INDEX_URL as the README says."
    if answers(index):
        return f"--extra-index-url {index}", f"No NVIDIA driver is here: PyTorch's CPU build is taken from {index}."
    return "", f"{index} does not answer: pip's own settings decide which build of PyTorch comes."


if __name__ == "__main__":
    told, why = option(*sys.argv[1:2])
    if why:
        print(why, file=sys.stderr)
    print(told, flush=True)
    os._exit(0)  # a look-up that still hangs is left behind
