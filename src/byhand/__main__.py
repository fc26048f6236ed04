"""python -m byhand check file.py:name    a reader's training step, run in a process of its own; exit code 0 right, 1 not right, 2 no verdict
python -m byhand kit FOLDER             the conformance kit: worked examples as plain files, and a broken one for each mistake
python -m byhand worksheet --topic attention --seed 3    a problem for one sheet of paper, and its solution
"""

import argparse
import ast
import sys


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m byhand", description="Checks for a transformer of your own, and problems to work by hand.")
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="which line of a training step of your own is wrong")
    check.add_argument("step", metavar="file.py:name", help="a function (tokens, targets) or (source, decoder_input, targets) that returns a dict")
    check.add_argument("stated", nargs="*", metavar="key=value", help="what need not be worked out: n_heads=4 norm=pre eps=1e-6 …")
    check.add_argument("--json", action="store_true", help="the verdict as JSON, for a grader")
    check.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds for each call (60)")
    check.add_argument("--seed", type=int, default=0, help="of the tokens")
    check.set_defaults(run=run_check)
    kit = commands.add_parser("kit", help="worked examples as plain files, to hold an implementation in any language against")
    kit.add_argument("folder", help="where to write them")
    kit.set_defaults(run=write_kit)
    sheet = commands.add_parser("worksheet", help="a problem to work with a calculator, and its solution: HTML that prints, Markdown, a notebook")
    sheet.add_argument("--topic", required=True, help="attention, norm, loss, output-layer, softmax-backward, adam; step for the whole step, solved")
    sheet.add_argument("--seed", type=int, required=True, help="another number gives another problem; the same, the same")
    sheet.add_argument("--folder", default=".", help="where to write (here)")
    sheet.set_defaults(run=run_worksheet)
    options = parser.parse_args(arguments)
    return options.run(options)


def run_check(options: argparse.Namespace) -> int:
    from .check import mine

    try:
        verdict = mine(options.step, seed=options.seed, timeout=options.timeout, **dict(map(_stated, options.stated)))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(verdict.json() if options.json else verdict)
    return 0 if verdict else 1 if verdict.findings else 2


def write_kit(options: argparse.Namespace) -> int:
    from .check import kit

    try:
        manifest = kit.write(options.folder)
    except ModuleNotFoundError as error:
        print(f"{error.name} is not installed, which writes the kit's files: pip install {error.name}", file=sys.stderr)
        return 2
    size = sum(entry["bytes"] for part in ("right", "broken") for entry in manifest[part])
    print(f"{len(manifest['right'])} right files and {len(manifest['broken'])} broken ones in {options.folder}, {size / 1e6:.1f} MB")
    return 0


def run_worksheet(options: argparse.Namespace) -> int:
    from .worked.worksheet import write

    try:
        written = write(options.topic, options.seed, options.folder)
    except (ValueError, ArithmeticError) as error:
        print(error, file=sys.stderr)
        return 2
    print(*written, sep="\n")
    return 0


def _stated(text):
    key, _, value = text.partition("=")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


if __name__ == "__main__":
    sys.exit(main())
