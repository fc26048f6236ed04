"""Which slips in the package's own source would no test notice? A random sample of mutations, made by Cosmic Ray, and the tests run on each.

    python tests/mutate.py numpy --sample 300 --seed 1 --store     # a folder of src/byhand; --store: the appendix shows it
    python tests/mutate.py torch check --sample 20 --seed 53       # a few of each, as the weekly run does

A mutation is a place in the source (an operator, a number, a comparison, a decorator, ...) and one of the ways that Cosmic Ray knows to change
it. Left out are annotations, and arithmetic turned into bit operations, which no float takes. The tests of a file are those of its name and
those under OTHERS, beside the bad calls of its functions; each mutation runs them in a process of its own, forked from one that has the
libraries loaded, on a copy of the source. A survivor that stands in equivalent.yml, with the reason why it makes no difference, is
known; any other makes the exit status 1.
"""

import argparse
import ast
import compileall
import difflib
import hashlib
import json
import os
import py_compile
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import yaml
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT = Path(__file__).parents[1]
SOURCE, TESTS = ROOT / "src" / "byhand", ROOT / "tests"
STORED, EQUIVALENT = (ROOT / "book" / "appendix" / name for name in ("mutation.json", "equivalent.yml"))
API = TESTS / "test_public_api.py"
BITS = re.compile("Bit|Shift")
# The catalogues of mistakes and of exercises are data.
LEFT_OUT = {"check/mistakes.py", "check/exercises.py"}
# Tests under another name than the file's.
OTHERS = {
    "numpy/attention": "grouped_attention", "numpy/checks": "softmax loss", "numpy/decoder": "kv_cache torch/step", "numpy/feed_forward": "activations",
    "numpy/generation": "kv_cache", "numpy/heads": "attention grouped_attention", "numpy/layers": "kv_cache torch/step", "numpy/loss": "next_token",
    "numpy/norm": "rms_norm", "numpy/passes": "kv_cache torch/step transformer", "numpy/position": "rope", "numpy/rows": "norm softmax",
    "numpy/step": "torch/step", "numpy/tiled": "tiled_attention", "torch/decoder": "compiler", "torch/inputs": "transformer loss",
    "torch/linear": "transformer", "torch/embedding": "transformer", "torch/softmax": "attention", "check/diagnosis": "compare exercise",
    "check/copies": "derivatives task", "check/report": "compare instruments", "check/shapes": "invariants", "check/match": "compare",
    "check/doors": "derivatives",
}  # fmt: skip
LIMIT = 90  # seconds for one mutation, against hanging


def places(code):
    """(start, end): the ways to change what stands there, each an operator's name and its occurrence."""
    nodes, found, skipped = list(ast_nodes(get_ast(code))), {}, annotations(code)
    for name in operator_names():
        operator = get_operator(name)
        words = name.rpartition("/")[2].split("_")
        crossed = words[0] == "ReplaceBinaryOperator" and bool(BITS.search(words[1])) != bool(BITS.search(words[2]))
        if operator.arguments() or crossed:
            continue
        made = operator()
        positions = (position for node in nodes for position in made.mutation_positions(node))
        for occurrence, (start, end) in enumerate(positions):
            if not any(first <= start and end <= last for first, last in skipped):
                found.setdefault((start, end), []).append((name, occurrence))
    return found


def annotations(code):
    """Where annotations stand: they are not run, but for the looks at the doors, and `int | None` is not a number."""
    lines = code.splitlines()

    def place(line, column):  # ast counts bytes
        return line, len(lines[line - 1].encode()[:column].decode())

    nodes = []
    for node in ast.walk(ast.parse(code)):
        nodes += [getattr(node, name, None) for name in ("annotation", "returns")]
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.BinOp, ast.Subscript)) and node.targets[0].col_offset == 0:
            nodes.append(node.value)  # a name for a type
    return [(place(n.lineno, n.col_offset), place(n.end_lineno, n.end_col_offset)) for n in nodes if n is not None]


def sample(folders, size, seed):
    """size mutations of each folder: places drawn at random over all its files, and at each one of the ways."""
    rng = random.Random(seed)
    for folder in folders:
        found = []
        for path in sorted((SOURCE / folder).glob("*.py")):
            if str(path.relative_to(SOURCE)) not in LEFT_OUT:
                found += [(path, place, ways) for place, ways in sorted(places(path.read_text()).items())]
        for path, place, ways in rng.sample(found, min(size, len(found))):
            yield path, place, rng.choice(ways)


def tests_of(path):
    """The tests of a file's name, and those that OTHERS adds."""
    file = str(path.relative_to(SOURCE).with_suffix(""))
    names = [f"{path.parent.name}/{path.stem}", *OTHERS.get(file, "").split()]
    places = [name.rpartition("/") for name in names]
    return [found for floor, _, name in places if (found := TESTS / (floor or path.parent.name) / f"test_{name}.py").exists()]


def run(path, code, source, log):
    """Whether the tests notice: "noticed", "survived" or "too slow". Forked, so that each finds the libraries loaded and the package not yet."""
    child = os.fork()
    if not child:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        signal.alarm(LIMIT)
        resource.setrlimit(resource.RLIMIT_DATA, (6 << 30, 6 << 30))
        (source / "byhand" / path.relative_to(SOURCE)).write_text(code)
        os._exit(tested(path, source))
    _, status = os.waitpid(child, 0)
    (source / "byhand" / path.relative_to(SOURCE)).write_text(path.read_text())
    if os.WIFSIGNALED(status):
        return "too slow"
    return "survived" if os.WEXITSTATUS(status) == 0 else "noticed"


def tested(path, source):
    import hypothesis
    import pytest

    sys.path.insert(0, str(source))
    os.environ |= {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    sys.dont_write_bytecode = True
    os.chdir(ROOT)
    quick = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # the smallest example is of no interest here
    hypothesis.settings.register_profile("mutate", phases=quick, max_examples=20, derandomize=True, deadline=None, database=None)
    hypothesis.settings.load_profile("mutate")
    how = ["-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
    try:
        floor, name = path.parent.name, path.stem
        by_floor = floor == "check" or name in ("checks", "inputs", "passes")
        files = [str(file) for file in tests_of(path)]
        if files and pytest.main([*how, *files]):
            return 1
        return 0 if pytest.main([*how, str(API), "-k", f"{floor}." if by_floor else f"{floor}.{name}."]) in (0, 5) else 1
    except BaseException:
        return 1


def what(path, code, mutated):
    """The changed lines, and a name for the change that outlives other changes of the file."""
    changes = [line for line in difflib.unified_diff(code.splitlines(), mutated.splitlines(), n=0, lineterm="") if line[:3] not in ("---", "+++")]
    line = int(re.match(r"@@ -(\d+)", changes[0]).group(1))
    removed, added = (" / ".join(change[1:].strip() for change in changes if change[0] == sign) for sign in "-+")
    key = f"{path.relative_to(SOURCE)}: {removed} -> {added}"
    return line, removed, added, key


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", type=Path, nargs="?", const=STORED)
    parser.add_argument("--only", default="", help="a part of a file's path")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    import hypothesis, jaxtyping, numpy, pytest, torch  # noqa: E401, F401, I001 (loaded once, for every child)
    torch.set_num_threads(1)

    known = yaml.safe_load(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
    results = json.loads(given.store.read_text()) if given.store and given.store.exists() else {}
    unknown, done, start = [], 0, time.time()
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "src"
        shutil.copytree(SOURCE, source / "byhand", ignore=shutil.ignore_patterns("__pycache__"))
        # told apart by what they hold, and not by a time: a file changed twice in one second would be taken for what it was
        compileall.compile_dir(source, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
        sound = {}
        for path, place, (name, occurrence) in sample(given.folders, given.sample, given.seed):
            file = str(path.relative_to(SOURCE))
            if given.only not in file:
                continue
            code = path.read_text()
            mutated = mutate_code(code, get_operator(name)(), occurrence)
            if mutated is None or mutated == code:
                continue
            line, removed, added, key = what(path, code, mutated)
            if given.list:
                print(file, line, removed, "->", added)
                continue
            digest = hashlib.sha256(key.encode()).hexdigest()[:12]
            if results.get(digest, {}).get("outcome", "survived") != "survived":
                continue  # an earlier run has it, and was broken off
            if path not in sound:
                sound[path] = run(path, code, source, Path(scratch) / "log")
                if sound[path] != "survived":
                    sys.exit(f"{file}: its tests fail without any mutation\n{(Path(scratch) / 'log').read_text()[-3000:]}")
            began = time.time()
            outcome = run(path, mutated, source, Path(scratch) / "log")
            done += 1
            if outcome == "survived":
                outcome = "equivalent" if key in known else outcome
                if outcome == "survived":
                    unknown.append(key)
                    print(f"{file}:{line}  {removed}  ->  {added}  [{name}]", flush=True)
            if given.store:
                results[digest] = {"file": file, "line": line, "was": removed, "became": added, "outcome": outcome}
                given.store.write_text(json.dumps(results, ensure_ascii=False, indent=0, sort_keys=True) + "\n")
            print(f"  {done} {file} {outcome} {time.time() - began:.1f} s", file=sys.stderr, flush=True)
    print(f"{done} mutations in {time.time() - start:.0f} s, {len(unknown)} that no test notices")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
