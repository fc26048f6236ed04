"""Starts kernels of which the slow libraries are loaded already: each is a fork of this process.

It reads {"cwd": …, "env": …, "argv": …} from its input, a line for each kernel, and writes the process's number. book/conftest.py asks it, since most
of the pages' time went into importing PyTorch, SymPy and Matplotlib anew for each of them. A name that a page does not import is as unknown as ever.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import sys

LIBRARIES = ("ipykernel.kernelapp", "ipykernel.ipkernel", "numpy", "matplotlib", "sympy", "torch")


def kernel(cwd, env, argv):
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = argv
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()


def main():
    for library in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    del sys.path[0]  # this folder, which is no kernel's
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who has ended is forgotten
    gc.freeze()  # a collection in one kernel would copy what all share
    while line := sys.stdin.readline():
        if not (process := os.fork()):
            kernel(**json.loads(line))
            os._exit(0)
        os.setpgid(process, process)  # before anybody can send the group a signal
        print(process, flush=True)


if __name__ == "__main__":
    main()
