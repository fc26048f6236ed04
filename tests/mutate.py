"""Which slips in the package's own source would no test notice? A random sample of mutations, made by Cosmic Ray, and the tests run on each.

    python tests/mutate.py numpy --sample 300 --seed 1 --store     # a folder of src/byhand; --store: the appendix shows it
    python tests/mutate.py torch check/compare --sample 20         # or a file of one

A mutation is a place in the source (an operator, a number, a comparison, a decorator, ...) and one of the ways that Cosmic Ray knows to change
it. Left out are annotations, and arithmetic turned into bit operations, which no float takes. The tests of a file are those of its name and
those under OTHERS, beside the bad calls of its functions. Each mutation runs them in a process of its own, forked from one that has the
libraries loaded, on a copy of the source: those that run the changed line, the quickest first, as a run without any mutation has
told. A survivor that stands in equivalent.yml, with the reason why it makes no difference, is known; any other makes the exit status 1.
"""

import argparse
import ast
import compileall
import difflib
import hashlib
import json
import os
import py_compile
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import hypothesis
import jaxtyping  # noqa: F401 (loaded once, for every child, as the others)
import pytest
import sympy  # noqa: F401
import torch
import yaml
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from coverage import Coverage

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
    "numpy/step": "torch/step", "numpy/tiled": "tiled_attention", "torch/decoder": "compiler", "torch/inputs": "transformer loss compiler",
    "torch/linear": "transformer", "torch/embedding": "transformer", "torch/softmax": "attention", "check/diagnosis": "compare exercise",
    "check/copies": "derivatives task", "check/report": "compare instruments", "check/shapes": "invariants", "check/match": "mine",
    "check/reader": "mine", "check/reference": "mine", "check/doors": "derivatives", "check/watch": "compare",
    "check/torch_model": "invariants", "check/exercise": "exercises", "check/plant": "mistakes mine",
}  # fmt: skip
# Tests that run a file in processes of their own, where no coverage is measured: taken to run all of its lines.
IN_PROCESSES = {"torch/weights": {"test_under_fsdp2_the_arrays_are_whole_on_every_rank"}}
LIMIT = 300  # seconds for one mutation, against hanging; of the processor's five times what the tests take without one


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
    """size mutations of each folder or file: places drawn at random over all its files, and one of the ways at each. What is drawn stays drawn where
    other lines change."""
    for folder in folders:
        found = []
        for path in sorted((SOURCE / folder).glob("*.py")) or [SOURCE / f"{folder}.py"]:
            file, code = str(path.relative_to(SOURCE)), path.read_text()
            lines = code.splitlines()
            for place, ways in places(code).items() if file not in LEFT_OUT else ():
                line, column = lines[place[0][0] - 1], place[0][1]
                drawn = hashlib.sha256(f"{seed} {file} {line.strip()} {line[:column].strip()}".encode()).digest()
                found.append((drawn, path, place, ways[int.from_bytes(drawn[-4:]) % len(ways)]))
        yield from sorted(mutation[1:] for mutation in sorted(found)[:size])


def tests_of(path):
    """The tests of a file's name, and those that OTHERS adds."""
    file = str(path.relative_to(SOURCE).with_suffix(""))
    names = [f"{path.parent.name}/{path.stem}", *OTHERS.get(file, "").split()]
    places = [name.rpartition("/") for name in names]
    return [found for floor, _, name in places if (found := TESTS / (floor or path.parent.name) / f"test_{name}.py").exists()]


def without_shrinking():
    """The examples that conftest.py asks for; the smallest that fails is of no interest here."""
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutate", hypothesis.settings.get_profile("book"), phases=phases)
    hypothesis.settings.load_profile("mutate")


class Measuring:
    """Notes of every test how long it took, and which lines of a file it ran."""

    def __init__(self, file, notes):
        self.file, self.notes, self.seconds = str(file), notes, {}
        self.coverage = Coverage(data_file=None, include=[self.file], messages=False)

    def pytest_collection(self):
        without_shrinking()
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.coverage.switch_context(item.nodeid)
        began = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - began
        self.coverage.switch_context("")
        return result

    def pytest_sessionfinish(self):
        self.coverage.stop()
        lines = {}
        for line, tests in self.coverage.get_data().contexts_by_lineno(self.file).items():
            for test in tests:
                lines.setdefault(test, []).append(line)
        known = json.loads(self.notes.read_text()) if self.notes.exists() else {}
        self.notes.write_text(json.dumps(known | {test: (seconds, lines.get(test, [])) for test, seconds in self.seconds.items()}))


class Chosen:
    """Runs these tests alone, in this order."""

    def __init__(self, tests):
        self.place = {test: i for i, test in enumerate(tests)}

    def pytest_collection(self):
        without_shrinking()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items[:] = sorted((item for item in items if item.nodeid in self.place), key=lambda item: self.place[item.nodeid])


def measured(path, notes):
    """The notes of a run without any mutation: each test's seconds, and the lines of the file that it ran."""
    elsewhere, every = IN_PROCESSES.get(str(path.relative_to(SOURCE).with_suffix("")), ()), list(range(1, 1 + len(path.read_text().splitlines())))
    return {test: (seconds, every if test.rpartition("::")[2] in elsewhere else lines) for test, (seconds, lines) in json.loads(notes.read_text()).items()}


def choose(notes, code, place):
    """The tests that run the changed lines, the quickest first, and the seconds of each; where none does, as of a default: all, those of its function first."""
    changed, around = set(range(place[0][0], place[1][0] + 1)), set()
    for node in ast.parse(code).body:
        lines = range(min(part.lineno for part in (node, *getattr(node, "decorator_list", ()))), node.end_lineno + 1)
        around |= set(lines) if changed.intersection(lines) else set()
    order = sorted(notes, key=lambda test: (around.isdisjoint(notes[test][1]), notes[test][0]))
    return {test: notes[test][0] for test in [test for test in order if changed.intersection(notes[test][1])] or order}


def run(path, code, scratch, tests=None):
    """Whether the tests notice: "noticed", "survived" or "too slow". Forked, so that each finds the libraries loaded and the package not yet."""
    file = scratch / "src" / "byhand" / path.relative_to(SOURCE)
    file.write_text(code)
    child = os.fork()
    if not child:
        os.dup2(os.open(scratch / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(1, 2)
        resource.setrlimit(resource.RLIMIT_DATA, (6 << 30, 6 << 30))
        if tests:
            signal.alarm(LIMIT)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds := int(20 + 5 * sum(tests.values())), seconds))
        os._exit(tested(path, scratch, tests))
    _, status = os.waitpid(child, 0)
    file.write_text(path.read_text())
    if os.WIFSIGNALED(status):
        return "too slow"
    return "survived" if os.WEXITSTATUS(status) == 0 else "noticed"


def tested(path, scratch, tests):
    sys.path.insert(0, str(scratch / "src"))
    sys.dont_write_bytecode = False
    os.environ |= {"PYTHONPATH": str(scratch / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    os.chdir(ROOT)
    if tests:
        files = {str(ROOT / test.partition("::")[0]) for test in tests}
        sessions = [sorted(files - {str(API)}), [str(API)] if str(API) in files else []]
    else:
        by_floor = path.parent.name == "check" or path.stem in ("checks", "inputs", "passes")
        sessions = [list(map(str, tests_of(path))), [str(API), "-k", f"{path.parent.name}." if by_floor else f"{path.parent.name}.{path.stem}."]]
    plugin = Chosen(tests) if tests else Measuring(scratch / "src" / "byhand" / path.relative_to(SOURCE), scratch / "notes")
    try:
        for session in filter(None, sessions):
            if pytest.main(["-x", "-q", "--tb=line", "-p", "no:cacheprovider", *session], [plugin]) not in (0, 5):
                return 1
    except BaseException:
        return 1
    return 0


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
    torch.set_num_threads(1)

    known = yaml.safe_load(EQUIVALENT.read_text()) if EQUIVALENT.exists() else {}
    results = json.loads(given.store.read_text()) if given.store and given.store.exists() else {}
    unknown, done, start = [], 0, time.time()
    with tempfile.TemporaryDirectory() as scratch:
        scratch, source = Path(scratch), Path(scratch) / "src"
        shutil.copytree(SOURCE, source / "byhand", ignore=shutil.ignore_patterns("__pycache__"))
        # told apart by what they hold, and not by a time: a file changed twice in one second would be taken for what it was
        compileall.compile_dir(source, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
        notes = {}
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
            if path not in notes:
                (scratch / "notes").unlink(missing_ok=True)
                if run(path, code, scratch) != "survived":
                    sys.exit(f"{file}: its tests fail without any mutation\n{(scratch / 'log').read_text()[-3000:]}")
                notes[path] = measured(path, scratch / "notes")
                print(f"{file}: {len(notes[path])} tests, {sum(seconds for seconds, _ in notes[path].values()):.0f} s", file=sys.stderr, flush=True)
            began = time.time()
            outcome = run(path, mutated, scratch, choose(notes[path], code, place))
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
