"""From examples/:  python -m assistant "Do you ship to Norway?" [--customer CUS-02]   |   python -m assistant --evaluate held_out"""

import argparse
import tempfile
from pathlib import Path

from . import Assistant, build, demo_token, open_shop
from .evaluate import evaluate, failures, latency, load_cases, summary


def main() -> None:
    parser = argparse.ArgumentParser(prog="assistant", description=__doc__)
    parser.add_argument("question", nargs="*")
    parser.add_argument("--customer", metavar="ID", help="who is signed in (CUS-01 to CUS-10)")
    parser.add_argument("--evaluate", metavar="SPLIT", help="score a set of cases: development, held_out_1 or held_out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        connection = open_shop(build(Path(folder) / "shop.sqlite"))
        assistant = Assistant(connection)
        if options.evaluate:
            results = evaluate(assistant, load_cases(options.evaluate))
            for name, value in (summary(results) | {f"ms a question, {k}": f"{v:.2f}" for k, v in latency(results).items()}).items():
                print(f"{name:32}{value}")
            for name, count in failures(results).most_common():
                print(f"  {count} x {name}")
        else:
            print(assistant.ask(" ".join(options.question), demo_token(options.customer) if options.customer else None).text)
        connection.close()


if __name__ == "__main__":
    main()
