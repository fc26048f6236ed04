"""What the book's pages show of longer runs: made by commands, stored as JSON under results/."""

import json
from pathlib import Path

import numpy as np

from . import align
from .data import examples, pairs
from .model import Translator, save
from .vocabulary import END

RESULTS = Path(__file__).parent / "results"


def write(path: str | Path, found) -> None:
    """As JSON that reads well and differs by lines."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(name: str) -> dict:
    """A stored result, by its file's name without the ending."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def of_checkpoint(folder: str | Path, step: int) -> Translator:
    """The weights of one checkpoint of a finished run, not averaged with others."""
    from . import checkpoint  # needs PyTorch, which reading the stored results does not

    whole = Translator.load(Path(folder) / "model")
    weights = checkpoint.load(Path(folder) / "checkpoints" / f"step-{step:08d}").weights
    return Translator({name: value.numpy() for name, value in weights.items()}, whole.config, whole.source, whole.target)


def evaluation(translator: Translator, counts: dict[str, int], width: int = 1, seed: int = 2) -> dict:
    """Exact translations and token accuracy for each kind of the test part, every error, and for each head its agreement with the rule."""
    from .evaluate import score, translations  # likewise

    module = torch_module(translator)
    kinds, errors = {}, []
    heads = np.zeros((translator.config.n_layers, translator.config.n_heads), int)
    aligned = 0
    for kind, count in counts.items():
        some = pairs("test", {kind: count}, seed)
        numbered = examples(some, translator.source, translator.target, translator.config.max_length)
        said = translations(module, [one.source for one in numbered], width)
        right = [one.tokens == [*example.target, END] for one, example in zip(said, numbered, strict=True)]
        kinds[kind] = {"sentences": count, "exact": sum(right), "token accuracy": score(module, numbered, search=False).means()["token accuracy"]}
        for one, fine, hypothesis in zip(some, right, said, strict=True):
            if not fine:
                errors.append(one._asdict() | {"said": translator.target.decode(hypothesis.tokens)})
        exact = [place for place, fine in enumerate(right) if fine]
        for place in exact[:300]:
            found = translator.translation(numbered[place].source, [said[place]])
            wanted = align.alignment(some[place].source, found.text)
            for layer, weights in enumerate(found.weights):
                hits, n = align.agreement(align.by_words(weights, found.pieces, found.source_pieces), wanted)
                heads[layer] += hits
            aligned += n
    return {"kinds": kinds, "errors": errors, "alignment": {"words": aligned, "heads": heads.tolist()}, "beam": width}


def torch_module(translator: Translator):
    from byhand.torch.transformer import Transformer

    return Transformer(translator.config).load_params(translator.params).eval()


def evaluation_text(found: dict) -> str:
    lines = [f"{'kind':12}{'sentences':>10}{'exact':>8}{'share':>9}{'token accuracy':>16}"]
    for kind, one in found["kinds"].items():
        lines.append(f"{kind:12}{one['sentences']:10}{one['exact']:8}{one['exact'] / one['sentences']:9.2%}{one['token accuracy']:16.4%}")
    words = found["alignment"]["words"]
    lines += [f"\n{words} words aligned by the rule; for so many of them the word that a head looked at most is the rule's:"]
    for layer, heads in enumerate(found["alignment"]["heads"] if words else []):
        lines.append(f"  decoder.{layer}: " + "  ".join(f"{hits / words:6.1%}" for hits in heads))
    lines += [f"\n{len(found['errors'])} errors" + (", the first:" if found["errors"] else "")]
    for one in found["errors"][:20]:
        lines.append(f"  {one['value']}: {one['source']}\n      wanted {one['target']}\n      said   {one['said']}")
    return "\n".join(lines)


def kind_of_error(error: dict) -> str:
    """What went wrong, in a word: the first that fits."""
    wanted, said = align.words(error["target"]), align.words(error["said"])
    if " thousand" in said and " thousand" not in wanted:
        return "thousands that nobody said"
    if len(said) != len(wanted):
        return "a word too many" if len(said) > len(wanted) else "a word missing"
    differ = [place for place, (one, other) in enumerate(zip(wanted, said, strict=True)) if one != other]
    return "one word wrong" if len(differ) == 1 else f"{len(differ)} words wrong"


def commit(folder: str | Path, out: str | Path) -> None:
    """The run's model in float16 under `trained`, its log under `results/small.json`."""
    folder, out = Path(folder), Path(out)
    translator = Translator.load(folder / "model")
    save(out / "trained", translator.params, translator.config, translator.source, translator.target, np.float16)
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    keep = [line for line in lines if line["step"] <= 20 or line["step"] % 10 == 0]
    write(out / "results" / "small.json", [{name: _short(value) for name, value in line.items()} for line in keep])


def _short(value):
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def sorted_errors(errors: list[dict]) -> dict[str, list[dict]]:
    """The errors by kind_of_error, the most frequent kind first."""
    kinds: dict[str, list[dict]] = {}
    for one in errors:
        kinds.setdefault(kind_of_error(one), []).append(one)
    return dict(sorted(kinds.items(), key=lambda item: -len(item[1])))
