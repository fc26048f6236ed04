"""The conformance kit: three formats with the same numbers, a schema, runners that pass, and that name the first wrong stage."""

import contextlib
import io
import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import safetensors.numpy

from byhand.__main__ import main
from byhand.check import kit
from byhand.check.measure import difference
from byhand.check.mistakes import MISTAKES
from byhand.check.plant import Change, Mistake
from byhand.numpy import attention

ROOT = Path(__file__).parents[2]
SAMPLE = [mistake for mistake in MISTAKES.values() if mistake.part in kit.LOOKED_AT][::9]
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler (cc, gcc, clang)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The kit with a sample of the broken files."""
    folder = tmp_path_factory.mktemp("kit")
    kit.write(folder, SAMPLE)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """As the site and a release have it, with its runners."""
    folder = tmp_path_factory.mktemp("whole") / "kit"
    subprocess.run([sys.executable, ROOT / "book/_ext/kit.py", folder], check=True)
    assert (folder / "runners/c_runner.c").is_file()
    return folder


@pytest.fixture(scope="module")
def manifest(folder):
    return json.loads((folder / "manifest.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def schema(folder):
    schema = json.loads((folder / kit.SCHEMA).read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture
def runners(tmp_path):
    """A copy of the runners that a test may break."""
    return shutil.copytree(ROOT / "examples/kit", tmp_path / "runners", ignore=shutil.ignore_patterns("__pycache__"))


def command(runners, language):
    """The command that starts the runner of a language."""
    if language != "c":
        return [sys.executable, str(runners / f"{language}_runner.py")]
    program = runners / "c_runner"
    subprocess.run([COMPILER, "-std=c99", "-Wall", "-Werror", "-O2", "-o", program, runners / "c_runner.c", "-lm"], check=True)
    return [str(program)]


def verdicts(command, folder, files):
    """{file: what the runner says of it}, and its exit code."""
    run = in_this_process if command[-1].endswith("torch_runner.py") else in_its_own
    lines, code = run(command, [str(folder / file) for file in files])
    said = dict(line.split(": ", 1) for line in lines)
    assert list(said) == [file.rpartition("/")[2] for file in files]
    return dict(zip(files, said.values())), code


def in_its_own(command, files):
    run = subprocess.run([*command, *files], capture_output=True, text=True, timeout=600)
    assert not run.stderr, run.stderr
    return run.stdout.splitlines(), run.returncode


def in_this_process(command, files):
    """PyTorch is imported once, and not for every call."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said), pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", command[1:] + files)
        patch.syspath_prepend(str(Path(command[1]).parent))
        patch.delitem(sys.modules, "kit_files", raising=False)
        runpy.run_path(command[1], run_name="__main__")
    return said.getvalue().splitlines(), int(ended.value.code)


def named(words):
    found = re.match(r"the first wrong stage is ([^:]*): ", words)
    return found and found[1]


def right_files(folder, kind="safetensors"):
    return [f"{instance}.{kind}" for instance in kit.instances()]


def check_runner(runner, folder):
    """It passes every right file, and names the stage at which each broken one was broken."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    said, code = verdicts(runner, folder, right_files(folder))
    assert all(re.fullmatch(r"passes: [1-9]\d* stages agree, \d+ are too small to tell", words) for words in said.values()), said
    assert code == 0
    wanted = {entry["file"]: entry["first"] for entry in manifest["broken"]}
    said, code = verdicts(runner, folder, list(wanted))
    assert {file: named(words) for file, words in said.items()} == wanted
    assert code == 1


LANGUAGES = ["numpy", "torch", pytest.param("c", marks=needs_compiler)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_runner_passes_and_names_the_first_wrong_stage(runners, folder, language):
    check_runner(command(runners, language), folder)


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_runner_names_every_mistake(whole, language):
    check_runner(command(whole / "runners", language), whole)


BREAKS = [
    ("numpy", "numpy_runner.py", "dweights - (dweights * weights).sum(axis=-1, keepdims=True)", "dweights - dweights * weights",
     "lively", "gradients/decoder.0.cross_attention.scores"),
    ("numpy", "numpy_runner.py", "np.add.at(dtable, tokens, np.sqrt(self.c[\"d_model\"]) * dy)", "dtable[tokens] += np.sqrt(self.c[\"d_model\"]) * dy",
     "decoder", "gradients/embedding"),
    ("torch", "torch_runner.py", ".tril()", ".tril(1)", "block_post", "activations/block.0.attention.weights"),
    ("torch", "torch_runner.py", 'eps=how["eps"]', "eps=1e-3", "document", "parameters_1/source_embedding"),
    ("c", "parts.h", "- along_ones - ", "- ", "generic", "gradients/decoder.1.residual_3"),
    ("c", "c_runner.c", "pow(b_2, t)", "pow(b_2, 1)", "decoder_brief", "parameters_2/embedding"),
]  # fmt: skip


@pytest.mark.parametrize(("language", "file", "right", "wrong", "instance", "stage"), [
    pytest.param(*broken, marks=needs_compiler if broken[0] == "c" else ()) for broken in BREAKS
])  # fmt: skip
def test_an_implementation_with_a_mistake_is_told_where(runners, folder, language, file, right, wrong, instance, stage):
    text = (runners / file).read_text("utf-8")
    assert text.count(right) == 1
    (runners / file).write_text(text.replace(right, wrong), "utf-8")
    said, code = verdicts(command(runners, language), folder, [f"{instance}.safetensors"])
    assert {file: named(words) for file, words in said.items()} == {f"{instance}.safetensors": stage}
    assert code == 1


def test_the_runners_know_nothing_of_the_package():
    for file in (ROOT / "examples/kit").glob("*_*.py"):
        assert not re.search(r"(import|from) byhand", file.read_text("utf-8")), file


def test_all_three_formats_are_read_alike(runners, folder):
    command_of = command(runners, "numpy")
    for kind in kit.FORMATS:
        said, code = verdicts(command_of, folder, [f"{instance}.{kind}" for instance in ("document", "block_pre")])
        assert code == 0, said


def read_by_libraries(path):
    if path.suffix == ".json":
        content = json.loads(path.read_text("utf-8"))
        return content["kit"], {name: np.array(value) for name, value in content["arrays"].items()}
    if path.suffix == ".npz":
        arrays = dict(np.load(path))
        return json.loads(arrays.pop("kit").item()), arrays
    with safetensors.safe_open(path, "numpy") as file:
        return json.loads(file.metadata()["kit"]), {name: file.get_tensor(name) for name in file.keys()}


@pytest.mark.parametrize("instance", list(kit.instances()))
def test_the_formats_hold_the_package_s_numbers(folder, instance):
    for kind in kit.FORMATS:
        about, arrays = read_by_libraries(folder / f"{instance}.{kind}")
        assert about == json.loads(json.dumps(kit.about(instance)))
        assert arrays.keys() == kit.right(instance).keys()
        for name, array in kit.right(instance).items():
            assert arrays[name].dtype == array.dtype and arrays[name].shape == array.shape, name
            assert np.array_equal(arrays[name], array), name


def test_a_broken_file_holds_what_differs_and_no_more(folder, manifest):
    for entry in manifest["broken"]:
        about, arrays = read_by_libraries(folder / entry["file"])
        right = kit.right(about["instance"])
        assert about["version"] == kit.VERSION and about["right"] == f"../{about['instance']}.safetensors"
        assert all(difference(array, right[name]).holds(kit.BOUND) is False for name, array in arrays.items())
        assert entry["first"] == next(name for name in kit.about(about["instance"])["order"] if name in arrays)


def test_the_files_keep_to_the_schema(folder, schema, manifest):
    schema.validate(manifest)
    for instance in ("block_pre", "document"):
        schema.validate(json.loads((folder / f"{instance}.json").read_text("utf-8")))
    about = kit.about("document")
    numbers = "1.0", {"lr": 1e-3, "beta_1": 0.9, "beta_2": 0.98, "eps": 1e-6}, 1e-9, 1e-3
    assert (about["version"], about["adam"], about["bound"], about["floor"]) == numbers  # others are another version
    assert kit.instances()["decoder_brief"].decoder_input.shape == (1, 4)
    broken = kit.broken(MISTAKES["the causal mask forgotten"])
    about = {"version": kit.VERSION, "instance": broken.instance, "right": "../lively.json"}
    kit.save(folder / "one.json", about, broken.arrays)
    schema.validate(json.loads((folder / "one.json").read_text("utf-8")))


@pytest.mark.parametrize("spoil", [
    lambda content: content["kit"].update(version="0.9"),
    lambda content: content["kit"].pop("order"),
    lambda content: content["arrays"].pop("loss"),
    lambda content: content["arrays"].update({"logits": 1.0}),
    lambda content: content["arrays"].update({"loss": "1.0"}),
    lambda content: content["kit"]["config"].update(d_model=0),
])  # fmt: skip
def test_what_does_not_keep_to_it_is_refused(folder, schema, spoil):
    content = json.loads((folder / "block_post.json").read_text("utf-8"))
    spoil(content)
    assert not schema.is_valid(content)


def test_the_bytes_are_the_same_on_every_run(folder, manifest, tmp_path):
    program = "import sys; from byhand.check import kit, mistakes; kit.write(sys.argv[1], [mistakes.MISTAKES[name] for name in sys.argv[2:]])"
    names = [entry["mistake"] for entry in manifest["broken"]]
    subprocess.run([sys.executable, "-c", program, tmp_path, *names], check=True)  # another process has other hashes
    again = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    assert again == manifest


def test_every_mistake_of_a_training_step_has_a_name_for_its_file():
    slugs = [kit.slug(name) for name in MISTAKES]
    assert len(set(slugs)) == len(slugs)
    assert all(re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", slug) for slug in slugs)
    assert kit.slug("γ outside the two means") == "gamma-outside-the-two-means"
    assert kit.slug("−q for p − q") == "minus-q-for-p-minus-q"


@pytest.mark.slow
def test_every_mistake_of_a_training_step_has_its_file(whole):
    manifest = json.loads((whole / "manifest.json").read_text("utf-8"))
    assert [entry["mistake"] for entry in manifest["broken"]] == [mistake.name for mistake in MISTAKES.values() if mistake.part in kit.LOOKED_AT]
    assert not any(entry["shows_in"] in ("no instance", *kit.LOOKED_AT) for entry in manifest["not_in_a_step"])


def test_a_mistake_around_the_step_shows_in_none_of_it(tmp_path):
    around, within = MISTAKES["temperature multiplied"], MISTAKES["A for Aᵀ in dV"]
    assert kit.broken(around) is None
    manifest = kit.write(tmp_path, [around, within], right_as=())
    assert manifest["not_in_a_step"] == [{"mistake": around.name, "shows_in": around.part}]
    assert [entry["mistake"] for entry in manifest["broken"]] == [within.name]


def test_an_instance_on_which_a_mistake_does_not_run_or_changes_a_shape_is_passed_over():
    """In document's attention there are as many queries as keys, in lively's there are not."""
    does_not_run = MISTAKES["A for Aᵀ in dV"]
    other_shape = Mistake("dSᵀ kept", "", (Change(attention, 'record("scores", dscores)', 'record("scores", dscores.swapaxes(-1, -2))'),))
    for mistake in (does_not_run, other_shape):
        assert kit.LOOKED_AT[mistake.part][:2] == ("lively", "document") and kit.broken(mistake).instance == "document"


def test_one_command_writes_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kit, "MISTAKES", {mistake.name: mistake for mistake in SAMPLE[:1]})
    assert main(["kit", str(tmp_path / "new/kit")]) == 0
    assert re.fullmatch(r"27 right files and 1 broken ones in \S+new/kit, \d\.\d MB\n", capsys.readouterr().out)
    assert (tmp_path / "new/kit/manifest.json").is_file()


@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != "torch"])  # it asks by the same function as NumPy's
@pytest.mark.parametrize(("key", "value"), [("pairing", "half"), ("scaled", False), ("biases", ["output"]), ("positions", "learned")])
def test_a_choice_that_a_runner_has_not_is_refused(runners, tmp_path, language, key, value):
    about = kit.about("decoder_brief")
    about["config"][key] = value
    kit.save(tmp_path / "other.safetensors", about, kit.right("decoder_brief"))
    run = subprocess.run([*command(runners, language), tmp_path / "other.safetensors"], capture_output=True, text=True)
    assert run.returncode and key in run.stderr and not run.stdout


@needs_compiler
def test_the_c_runner_says_what_it_cannot_read(runners, folder, tmp_path):
    runner = command(runners, "c")
    content = (folder / "lively.safetensors").read_bytes()
    for name, cut, reason in (("a", 3, "cannot be read"), ("b", 999, "is no file of safetensors"), ("c", len(content) - 9, "stands beyond the file's end")):
        (tmp_path / name).write_bytes(content[:cut])
        run = subprocess.run([*runner, tmp_path / name], capture_output=True, text=True)
        assert run.returncode == 2 and reason in run.stderr and not run.stdout


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(ValueError, match="path was .*it must end in one of json, npz, safetensors"):
        kit.save(tmp_path / "kit.txt", {}, {})


def test_what_is_not_finite_is_no_json(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        kit.save(tmp_path / "kit.json", {}, {"loss": np.array(np.nan)})


def test_what_was_not_computed_is_no_pass(runners, monkeypatch):
    monkeypatch.syspath_prepend(str(runners))
    import kit_files

    about, right = kit.about("block_pre"), kit.right("block_pre")
    assert kit_files.verdict(about, right, right)[0]
    assert kit_files.verdict(about, right, {n: a for n, a in right.items() if n != "loss"}) == (False, "loss was not computed")
    tiny = {name: np.full_like(array, 1e-20, dtype=float) for name, array in right.items()}
    noise = {name: 2 * array for name, array in tiny.items()}
    passes, words = kit_files.verdict(about, tiny, noise)
    assert not passes and words.startswith("no verdict: 0 stages agree")
