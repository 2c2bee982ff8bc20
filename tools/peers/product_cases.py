"""The benchmark's cases and scores in Python: the same shapes, router ids, bytes and reference as dropless_bench.
Run with a case file it lists every product, which needs no GPU."""
import json
import math
import statistics
import sys
from dataclasses import dataclass

PRODUCTS = ("up", "down", "up_dgrad", "down_dgrad", "up_wgrad", "down_wgrad")


def read_cases(path):
    with open(path) as file:
        return json.load(file)


def router_ids(case):
    """Ids [tokens * top_k], token-major: the i-th assignment in expert order goes to token p[i mod T], slot i div T,
    where p[j] = (j * a) mod T and a is the smallest integer from 0.618 T on that is coprime with T."""
    tokens, top_k = case["tokens"], case["top_k"]
    step = math.ceil(0.618 * tokens)
    while math.gcd(step, tokens) != 1:
        step += 1
    ids, assignment = [-1] * (tokens * top_k), 0
    for expert, rows in enumerate(case["rows_per_expert"]):
        for _ in range(rows):
            ids[assignment % tokens * step % tokens * top_k + assignment // tokens] = expert
            assignment += 1
    return ids


@dataclass(frozen=True)
class ProductShape:
    """[rows, k] times each expert's [k, n], or for a weight gradient each expert's [rows, k]^T times [rows, n]."""
    rows: int
    k: int
    n: int
    experts: int
    nonempty_experts: int
    weight_gradient: bool

    @property
    def flops(self):
        return 2 * self.rows * self.k * self.n

    @property
    def matrices(self):
        """Expert matrices that must move: of a weight gradient all, since empty experts are written as zeros."""
        return self.experts if self.weight_gradient else self.nonempty_experts

    @property
    def least_bytes(self):
        return 2 * (self.rows * (self.k + self.n) + self.matrices * self.k * self.n)


def product_shape(case, product):
    up_columns = (2 if case["mlp"] == "glu" else 1) * case["d_ff"]
    k, n = (case["d_model"], up_columns) if product.startswith("up") else (case["d_ff"], case["d_model"])
    if product.endswith("dgrad"):
        k, n = n, k
    rows = case["rows_per_expert"]
    return ProductShape(sum(rows), k, n, case["experts"], sum(r > 0 for r in rows), product.endswith("wgrad"))


def reference_us(dense_us, least_bytes, memory_tbps):
    """The longer of one dense product of the same total shape and the least bytes at the memory rate."""
    return max(dense_us, least_bytes / memory_tbps * 1e-6)


def relative_spread(values):
    return (max(values) - min(values)) / statistics.median(values)


def main():
    for case in read_cases(sys.argv[1]):
        ids = router_ids(case)
        assert [ids.count(e) for e in range(case["experts"])] == case["rows_per_expert"], case["name"]
        for product in PRODUCTS:
            shape = product_shape(case, product)
            print(f"{case['name']:32} {product:10} [{shape.rows}, {shape.k}] x [{shape.k}, {shape.n}]  "
                  f"{shape.flops * 1e-9:9.1f} GFLOP {shape.least_bytes * 1e-6:8.1f} MB")


if __name__ == "__main__":
    main()
