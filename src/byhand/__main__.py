"""python -m byhand check file.py:name    a reader's training step, run in a process of its own; exit code 0 right, 1 not right, 2 no verdict"""

import argparse
import ast
import sys


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m byhand", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    check = commands.add_parser("check", help="which line of a training step of your own is wrong")
    check.add_argument("step", metavar="file.py:name", help="a function (tokens, targets) or (source, decoder_input, targets) that returns a dict")
    check.add_argument("stated", nargs="*", metavar="key=value", help="what need not be worked out: n_heads=4 norm=pre eps=1e-6 …")
    check.add_argument("--json", action="store_true", help="the verdict as JSON, for a grader")
    check.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds for each call (60)")
    check.add_argument("--seed", type=int, default=0, help="of the tokens")
    return run_check(parser.parse_args(arguments))


def run_check(options: argparse.Namespace) -> int:
    from .check import mine

    try:
        verdict = mine(options.step, seed=options.seed, timeout=options.timeout, **dict(map(_stated, options.stated)))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(verdict.json() if options.json else verdict)
    return 0 if verdict else 1 if verdict.findings else 2


def _stated(text):
    key, _, value = text.partition("=")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value


if __name__ == "__main__":
    sys.exit(main())
