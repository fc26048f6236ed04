"""From the repository's root:

python -m examples.translate train --config examples/translate/configs/small.yaml --out runs/small
python -m examples.translate commit --run runs/small
python -m examples.translate evaluate --out examples/translate/results/evaluation.json
python -m examples.translate translate "trois cent douze"
"""

import argparse
import sys
from pathlib import Path

from .model import HERE, TRAINED


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.translate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, run, text):
        added = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        added.set_defaults(run=run)
        return added

    train = command("train", _train, "train a model; under torchrun on many processes")
    train.add_argument("--config", required=True, type=Path, help="a YAML file such as examples/translate/configs/small.yaml")
    train.add_argument("--out", required=True, type=Path, help="the folder for checkpoints, log and model")
    train.add_argument("--resume", action="store_true", help="go on from the newest whole checkpoint in the folder")
    train.add_argument("--device", help="cpu or cuda (a GPU where there is one)")
    train.add_argument("--stop-after", type=int, metavar="STEP", help="leave off after this step, with a checkpoint")
    train.add_argument("--quiet", action="store_true", help="no progress bar")

    translate = command("translate", _translate, "translate sentences, by the package's own NumPy")
    translate.add_argument("sentences", nargs="+", metavar="SENTENCE")
    translate.add_argument("--model", type=Path, default=TRAINED, help="the folder of a trained model (the committed one)")
    translate.add_argument("--beam", type=int, default=4, help="width of the beam search; 1 is greedy (4)")

    evaluate = command("evaluate", _evaluate, "translate held-out sentences and list the errors")
    evaluate.add_argument("--model", type=Path, default=TRAINED, help="the folder of a trained model (the committed one)")
    evaluate.add_argument("--run", dest="folder", type=Path, help="score a checkpoint of this run instead of a model")
    evaluate.add_argument("--step", type=int, help="the step of the checkpoint")
    evaluate.add_argument("--out", type=Path, help="a JSON file for the result")
    evaluate.add_argument("--number", type=int, default=5000, help="how many numbers of the test part (5000)")
    evaluate.add_argument("--date", type=int, default=1500, help="how many dates of each format (1500)")
    evaluate.add_argument("--beam", type=int, default=1, help="width of the beam search; 1 is greedy (1)")

    commit = command("commit", _commit, "keep a trained model in half precision, and its log, where the book's pages look for them")
    commit.add_argument("--run", dest="folder", required=True, type=Path, help="the folder of the run")
    commit.add_argument("--out", type=Path, default=HERE, help="where `trained` and `results` lie (beside this program)")

    ablate = command("ablations", _ablations, "the same short run with one ingredient left out, on several seeds")
    ablate.add_argument("--config", type=Path, default=HERE / "configs" / "ablations.yaml", help="the settings of one run")
    ablate.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    ablate.add_argument("--out", required=True, type=Path, help="a JSON file for the result")

    options = parser.parse_args(argv)
    try:
        options.run(options)
    except (ValueError, OSError, FloatingPointError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _train(options):
    from .settings import load
    from .train import train

    train(load(options.config), options.out, options.resume, options.device, options.stop_after, not options.quiet)


def _translate(options):
    from .model import Translator

    translator = Translator.load(options.model)
    for sentence in options.sentences:
        print(translator.translate(sentence, options.beam).text)


def _evaluate(options):
    from . import results
    from .model import Translator

    if (options.folder is None) != (options.step is None):
        raise ValueError("--run and --step name a checkpoint together; one of them was missing")
    translator = Translator.load(options.model) if options.folder is None else results.of_checkpoint(options.folder, options.step)
    found = results.evaluation(translator, {"number": options.number, "long date": options.date, "full date": options.date}, options.beam)
    print(results.evaluation_text(found))
    if options.out:
        results.write(options.out, found)


def _ablations(options):
    from . import results
    from .ablations import ablations
    from .settings import load

    results.write(options.out, ablations(load(options.config), options.seeds))


def _commit(options):
    from . import results

    results.commit(options.folder, options.out)


if __name__ == "__main__":
    sys.exit(main())
