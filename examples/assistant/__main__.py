"""From examples/:  python -m assistant "Do you ship to Norway?" [--customer CUS-02]   |   python -m assistant --evaluate kept"""

import argparse
import tempfile
from datetime import date
from pathlib import Path

from . import Assistant, Embeddings, build, demo_token
from .evaluate import MemoryDesk, Result, by_category, evaluate, latency, load_cases, share, splits, summary, targets


def main() -> None:
    parser = argparse.ArgumentParser(prog="assistant", description=__doc__)
    parser.add_argument("question", nargs="*")
    parser.add_argument("--customer", metavar="ID", help="who is signed in (CUS-01 to CUS-10)")
    parser.add_argument("--day", type=date.fromisoformat, metavar="YYYY-MM-DD", help="the day of the question (the exercise's day)")
    parser.add_argument("--evaluate", metavar="SPLIT", help=f"score a set of cases: {', '.join(splits())}")
    parser.add_argument("--embeddings", action="store_true", help="with the small model, where byhand[embeddings] is installed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        desk = MemoryDesk() if options.evaluate else None
        assistant = Assistant(build(Path(folder) / "shop.sqlite"), desk=desk, embeddings=Embeddings() if options.embeddings else None)
        if options.evaluate:
            report(evaluate(assistant, load_cases(options.evaluate)))
        else:
            token = demo_token(options.customer) if options.customer else None
            print(assistant.ask(" ".join(options.question), token, day=options.day).text)


def report(results: list[Result]) -> None:
    """Every score, every category, every failure."""
    for name, value in (summary(results) | {f"ms a question, {k}": f"{v:.2f}" for k, v in latency(results).items()}).items():
        print(f"{name:36}{value}")
    print()
    for name, (done, of) in (targets(results) | by_category(results)).items():
        print(f"{name:36}{share(done, of)}")
    print()
    for r in results:
        if r.failure:
            earlier = "".join(f"{text} > " for text in r.case.get("before", ()))
            print(f"{r.case['id']}: {r.failure}\n  {earlier}{r.case['question']}\n  {r.answer.text}")


if __name__ == "__main__":
    main()
