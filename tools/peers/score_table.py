"""Prints the table of scores in README from a file of measured products, as Markdown.
usage: score_table.py data/benchmarks/h200.json
A row is one model and batch, a figure the geometric mean over its uniform and skewed routing and the up and down
product: score = reference / time, where 1 is one dense product of the same size, or the memory rate if that is slower."""
import json
import math
import sys


def geometric_mean(scores):
    return math.exp(sum(map(math.log, scores)) / len(scores)) if scores else None


def shown(score):
    return "" if score is None else f"{score:.2f}"


def scores_of(cases, gradients, contestant):
    return [case["score"][contestant] for case in cases
            if case["product"].endswith("_wgrad") == gradients and contestant in case["score"]]


def row(label, cases):
    figures = [geometric_mean(scores_of(cases, gradients, contestant))
               for gradients in (False, True) for contestant in ("dropless", "torch_grouped")]
    return f"| {label} | " + " | ".join(map(shown, figures)) + " |"


def main():
    with open(sys.argv[1]) as file:
        report = json.load(file)
    groups = {}
    for case in report["cases"]:
        model, tokens, _ = case["name"].split("/")
        groups.setdefault((model, tokens), []).append(case)
    print("| case | up, down: dropless | torch | weight gradients: dropless | torch |")
    print("|---|---|---|---|---|")
    for (model, tokens), cases in groups.items():
        print(row(f"{model}, {tokens[1:]} tokens", cases))
    print(row("all", report["cases"]))
    worst = [min(scores_of(report["cases"], gradients, contestant))
             for gradients in (False, True) for contestant in ("dropless", "torch_grouped")]
    print("| worst | " + " | ".join(map(shown, worst)) + " |")


if __name__ == "__main__":
    main()
