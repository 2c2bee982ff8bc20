"""Prints a table of scores in README from a file of measured products or of measured layers, as Markdown.
usage: score_table.py data/benchmarks/h200.json | data/benchmarks/h200_layer.json
A row is one model and batch, a figure the geometric mean over its uniform and skewed routing (and, of products, the up
and down product): score = reference / time, where 1 is the time of dense products of the same size, or of the least
bytes at the memory rate if that is slower."""
import json
import math
import sys


def geometric_mean(scores):
    return math.exp(sum(map(math.log, scores)) / len(scores)) if scores else None


def shown(score):
    return "" if score is None else f"{score:.2f}"


def product_scores(products, contestant):
    def scores(cases):
        return [case["score"][contestant] for case in cases
                if case["product"] in products and contestant in case["score"]]
    return scores


def layer_scores(kind, contestant):
    def scores(cases):
        return [case["reference_us"][kind] / case["us"][contestant] for case in cases if contestant in case["us"]]
    return scores


FORWARD, INPUT_GRADIENTS, WEIGHT_GRADIENTS = ("up", "down"), ("up_dgrad", "down_dgrad"), ("up_wgrad", "down_wgrad")
PRODUCT_COLUMNS = {"up, down: dropless": product_scores(FORWARD, "dropless"),
                   "torch": product_scores(FORWARD, "torch_grouped"),
                   "input gradients: dropless": product_scores(INPUT_GRADIENTS, "dropless"),
                   "torch ": product_scores(INPUT_GRADIENTS, "torch_grouped"),
                   "weight gradients: dropless": product_scores(WEIGHT_GRADIENTS, "dropless"),
                   "torch  ": product_scores(WEIGHT_GRADIENTS, "torch_grouped")}
LAYER_COLUMNS = {"forward: dropless": layer_scores("fwd", "fwd"),
                 "single calls": layer_scores("fwd", "unfused_fwd"),
                 "torch": layer_scores("fwd", "torch_fwd"),
                 "forward + backward: dropless": layer_scores("fwd_bwd", "fwd_bwd"),
                 "torch ": layer_scores("fwd_bwd", "torch_fwd_bwd")}


def main():
    with open(sys.argv[1]) as file:
        cases = json.load(file)["cases"]
    columns = PRODUCT_COLUMNS if "product" in cases[0] else LAYER_COLUMNS
    groups = {}
    for case in cases:
        model, tokens, _ = case["name"].split("/")
        groups.setdefault(f"{model}, {tokens[1:]} tokens", []).append(case)
    groups["all"] = cases
    print("| case | " + " | ".join(title.strip() for title in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for label, of_group in groups.items():
        figures = [geometric_mean(scores(of_group)) for scores in columns.values()]
        print(f"| {label} | " + " | ".join(map(shown, figures)) + " |")
    worst = [min(scores(cases), default=None) for scores in columns.values()]
    print("| worst | " + " | ".join(map(shown, worst)) + " |")


if __name__ == "__main__":
    main()
