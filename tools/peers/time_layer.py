"""Times the whole expert layer, router ids to output and back, of dropless and torch on the benchmark's cases, in one
process and one rotation, beside the dense products that it is scored against.

usage: time_layer.py data/cases/moe_shapes.json --library build/libdropless_c.so --json out.json

A call of `fwd` takes ids, routing weights and tokens to the output (preparation, gather, activation and combine
included) and saves nothing; `fwd_bwd` is forward that saves and backward to the gradients of tokens, weights and
routing weights. `unfused_fwd` is dropless composed of its single calls. `_graph` replays a CUDA graph of calls; the
others are eager. torch's layer is torch.sort, torch._grouped_mm and index_add. Results are compared with torch's
before anything is timed. reference = sum over the layer's products of max(dense cuBLAS product of the same shape in
the same rotation, least bytes / memory rate)."""
import argparse
import json
import math
import statistics
import sys
import time

import dropless_c as dc
from product_cases import PRODUCTS, product_shape, read_cases, reference_us, relative_spread, router_ids
from time_products import PEAK_FLOPS, Batch, Operands, order_of_round, peer_calls, report_header, write_report

TOLERANCE = 1.5e-2  # torch rounds its intermediate rows too, at other places
BACKWARD_TOKENS = 512
BOUNDARY = ("device time of one call, mean of back-to-back calls, router ids to output: preparation, gather, "
            "products, activation and combine included; fwd saves nothing, fwd_bwd saves and gives all gradients")


class LayerOperands:
    """Weights, tokens and routing of one case, shared by all contestants; weights are [experts, k, n]."""

    def __init__(self, torch, case):
        d_model, d_ff, experts, tokens, top_k = (case[key] for key in ("d_model", "d_ff", "experts", "tokens", "top_k"))
        self.columns = (2 if case["mlp"] == "glu" else 1) * d_ff

        def random(*sizes, deviation=1.0):
            return torch.randn(*sizes, device="cuda", dtype=torch.bfloat16) * deviation
        self.up = random(experts, d_model, self.columns, deviation=d_model ** -0.5)
        self.down = random(experts, d_ff, d_model, deviation=d_ff ** -0.5)
        self.x, self.out_gradient = random(tokens, d_model), random(tokens, d_model)
        self.ids = torch.tensor(router_ids(case), dtype=torch.int64, device="cuda").view(tokens, top_k)
        self.routing_weights = torch.rand(tokens, top_k, device="cuda")


class DroplessLayer:
    """dropless on one case: forward and backward as calls."""

    def __init__(self, torch, library, case, operands, path):
        self.torch, self.library, self.path = torch, library, path
        self.x, self.ids, self.routing_weights = operands.x, operands.ids, operands.routing_weights
        glu = case["mlp"] == "glu"
        self.mlp = dc.ExpertMlp(kind=dc.GLU if glu else dc.LINEAR2,
                                activation=dc.Activation(function=dc.SILU if glu else dc.GELU_ERF),
                                up=self.weights(operands.up), down=self.weights(operands.down))
        bounds = dc.TopologyBounds(tokens=case["tokens"], top_k=case["top_k"], experts=case["experts"])
        self.batch = dc.ExpertMlpBatch(bounds=bounds, ids=dc.RouterIds(data=self.ids.data_ptr(), is_int64=1),
                                       routing_weights=self.routing_weights.data_ptr(), x=self.view(operands.x))
        self.bytes = dc.ExpertMlpMemory()
        library.expert_mlp_bytes(self.mlp, bounds, self.options(), self.bytes)
        self.out = torch.full_like(operands.x, float("nan"))
        self.out_gradient = operands.out_gradient
        self.workspace = self.memory(max(self.bytes.inference_workspace, self.bytes.forward_workspace))
        if case["tokens"] >= BACKWARD_TOKENS:
            self.saved = self.memory(self.bytes.saved)
            self.backward_workspace = self.memory(self.bytes.backward_workspace)
            self.x_gradient = torch.full_like(operands.x, float("nan"))
            self.up_gradient, self.down_gradient = torch.full_like(operands.up, float("nan")), torch.full_like(
                operands.down, float("nan"))
            self.weights_gradient = torch.full_like(operands.routing_weights, float("nan"))
            self.gradients = dc.ExpertMlpGradients(
                x=self.view(self.x_gradient), up=self.gradient(self.up_gradient),
                down=self.gradient(self.down_gradient), routing_weights=self.weights_gradient.data_ptr())

    def memory(self, size):
        return self.torch.empty(size, dtype=self.torch.uint8, device="cuda")

    def stream(self):
        return self.torch.cuda.current_stream().cuda_stream

    def options(self, composed=False):
        return dc.ExpertMlpOptions(path=self.path, composed=composed)

    @staticmethod
    def view(matrix):
        return dc.RowsView(matrix.data_ptr(), matrix.shape[1], dc.BF16)

    @staticmethod
    def weights(tensor):
        experts, k, n = tensor.shape
        return dc.ExpertWeights(element_type=dc.BF16, order=dc.K_BY_N, experts=experts, k=k, n=n, leading_dimension=n,
                                first=dc.WeightTensor(tensor.data_ptr(), k * n, None))

    @staticmethod
    def gradient(tensor):
        experts, m, n = tensor.shape
        return dc.ExpertGradients(element_type=dc.BF16, experts=experts, m=m, n=n, leading_dimension=n,
                                  expert_stride=m * n, data=tensor.data_ptr())

    @staticmethod
    def device_memory(tensor):
        return dc.DeviceMemory(tensor.data_ptr(), tensor.numel())

    def forward(self, _=0, composed=False):
        self.library.expert_mlp_forward(self.mlp, self.batch, self.view(self.out), self.options(composed),
                                        dc.DeviceMemory(), self.device_memory(self.workspace), self.stream(), None)
        return self.out

    def unfused_forward(self, _=0):
        return self.forward(composed=True)

    def forward_backward(self, _=0):
        saved, options = self.device_memory(self.saved), self.options()
        self.library.expert_mlp_forward(self.mlp, self.batch, self.view(self.out), options, saved,
                                        self.device_memory(self.workspace), self.stream(), None)
        self.library.expert_mlp_backward(self.mlp, self.batch, self.view(self.out_gradient), self.gradients, options,
                                         saved, self.device_memory(self.backward_workspace), self.stream())
        return self.out


class TorchLayer:
    """The same layer of torch's own operators."""

    def __init__(self, torch, case, operands):
        self.torch, self.case, self.operands = torch, case, operands
        self.parameters = [operands.up.detach().requires_grad_(), operands.down.detach().requires_grad_(),
                           operands.x.detach().requires_grad_(), operands.routing_weights.detach().requires_grad_()]

    def layer(self):
        torch, experts, top_k = self.torch, self.case["experts"], self.case["top_k"]
        up, down, x, routing_weights = self.parameters
        ids = self.operands.ids.flatten()
        order = torch.sort(ids, stable=True)[1]
        counts = torch.zeros(experts, device="cuda", dtype=torch.int32).scatter_add(
            0, ids, torch.ones_like(ids, dtype=torch.int32))
        offsets = counts.cumsum(0).to(torch.int32)
        token = order // top_k
        pre_activation = torch._grouped_mm(x.index_select(0, token), up, offs=offsets)
        if self.case["mlp"] == "glu":
            gate, rest = pre_activation.chunk(2, dim=1)
            h = torch.nn.functional.silu(gate) * rest
        else:
            h = torch.nn.functional.gelu(pre_activation)
        weights = routing_weights.to(torch.bfloat16).flatten()[order].unsqueeze(1)
        return torch.zeros_like(x).index_add(0, token, torch._grouped_mm(h, down, offs=offsets) * weights)

    def forward(self, _=0):
        with self.torch.no_grad():
            return self.layer()

    def forward_backward(self, _=0):
        for parameter in self.parameters:
            parameter.grad = None
        out = self.layer()
        out.backward(self.operands.out_gradient)
        return out


def relative_error(result, expected):
    return float((result.float() - expected.float()).norm() / expected.float().norm())


def check(dropless_layer, torch_layer, backward):
    """Errors of dropless against torch by name; raises where one is too large."""
    errors = {"unfused_out": relative_error(dropless_layer.unfused_forward(), torch_layer.forward())}
    dropless_layer.out.fill_(float("nan"))
    errors["out"] = relative_error(dropless_layer.forward(), torch_layer.forward())
    if backward:
        dropless_layer.forward_backward()
        torch_layer.forward_backward()
        for name, parameter, result in zip(("up", "down", "x", "routing_weights"), torch_layer.parameters, (
                dropless_layer.up_gradient, dropless_layer.down_gradient, dropless_layer.x_gradient,
                dropless_layer.weights_gradient)):
            errors[name] = relative_error(result, parameter.grad)
    wrong = {name: error for name, error in errors.items() if not error <= TOLERANCE}
    if wrong:
        raise RuntimeError(f"wrong results: {wrong}, at most {TOLERANCE}")
    return errors


def time_in_rotation(batches, most_rounds, seconds):
    """Microseconds a call of every round, by name; as many rounds as the time allows, two at least, and an even number
    of them."""
    begin = time.monotonic()
    for batch in batches.values():
        batch.microseconds_per_call()
    rounds = max(2, min(most_rounds, int(seconds / (time.monotonic() - begin))) // 2 * 2)
    names, times = list(batches), {name: [] for name in batches}
    for turn in range(rounds):
        for name in order_of_round(names, turn):
            times[name].append(batches[name].microseconds_per_call())
    return times


def measure(torch, library, case, options, memory_tbps):
    """One case as a dictionary of the JSON's format."""
    backward = case["tokens"] >= BACKWARD_TOKENS
    operands = LayerOperands(torch, case)
    path = {"automatic": dc.AUTOMATIC, "sm90": dc.SM90, "portable": dc.PORTABLE}[options.path]
    ours, theirs = DroplessLayer(torch, library, case, operands, path), TorchLayer(torch, case, operands)
    errors = check(ours, theirs, backward)
    products = [p for p in PRODUCTS if backward or p in ("up", "down")]
    shapes = {product: product_shape(case, product) for product in products}

    def least_us(names):
        return sum(max(shapes[p].flops / PEAK_FLOPS * 1e6, shapes[p].least_bytes / memory_tbps * 1e-6) for p in names)

    calls = {"fwd": (ours.forward, "eager"), "fwd_graph": (ours.forward, "graph"),
             "unfused_fwd": (ours.unfused_forward, "eager"), "torch_fwd": (theirs.forward, "eager"),
             "torch_fwd_graph": (theirs.forward, "graph")}
    if backward:
        calls.update({"fwd_bwd": (ours.forward_backward, "eager"), "fwd_bwd_graph": (ours.forward_backward, "graph"),
                      "torch_fwd_bwd": (theirs.forward_backward, "eager")})
    batches = {}
    for name, (call, mode) in calls.items():
        count = max(1, math.ceil(options.batch_us / least_us(products if "bwd" in name else ("up", "down"))))
        batches[name] = Batch(torch, call, count, mode)
    for product, shape in shapes.items():
        dense = peer_calls(torch, Operands(torch, shape), case, ())["cublas_dense"]
        batches["dense_" + product] = Batch(torch, dense, max(1, math.ceil(options.batch_us / least_us([product]))),
                                            "eager")
    times = time_in_rotation(batches, options.rounds, options.seconds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    us = {name: medians[name] for name in calls}
    references = {p: reference_us(medians["dense_" + p], shapes[p].least_bytes, memory_tbps) for p in products}
    reference = {"fwd": references["up"] + references["down"]}
    if backward:
        reference["fwd_bwd"] = sum(references.values())
    result = {"name": case["name"], "rounds": len(times["fwd"]), "errors": errors, "reference_us": reference,
              "dense_us": {p: medians["dense_" + p] for p in products}, "us": us,
              "score": {name: reference[name] / us[name] for name in reference},
              "torch_score": {name: reference[name] / us["torch_" + name] for name in reference},
              "spread": {name: relative_spread(times[name]) for name in calls},
              "workspace_bytes": ours.bytes.inference_workspace}
    if backward:
        result["training_bytes"] = ours.bytes.saved + max(ours.bytes.forward_workspace, ours.bytes.backward_workspace)
    return result


def print_case(result):
    columns = [f"{name} {us:.1f}" for name, us in result["us"].items()]
    scores = [f"{name} {score:.3f} (torch {result['torch_score'][name]:.3f})"
              for name, score in result["score"].items()]
    print(f"{result['name']} reference {' / '.join(f'{us:.0f}' for us in result['reference_us'].values())} us | "
          + ", ".join(columns) + " | score " + ", ".join(scores)
          + f" | worst error {max(result['errors'].values()):.1e}", flush=True)


def print_summary(results):
    for kind in ("fwd", "fwd_bwd"):
        for who, key in (("dropless", "score"), ("torch", "torch_score")):
            scores = {r["name"]: r[key][kind] for r in results if kind in r[key]}
            if scores:
                worst = min(scores, key=scores.get)
                print(f"{kind}: {who} geometric mean {statistics.geometric_mean(scores.values()):.3f}, worst "
                      f"{scores[worst]:.3f} ({worst}), {len(scores)} cases")
        for r in results:
            if kind in r["us"] and r["us"][kind] > r["us"]["torch_" + kind]:
                print(f"{kind}: torch is faster on {r['name']}")


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases")
    parser.add_argument("--library", default="build/libdropless_c.so")
    parser.add_argument("--only", default="", help="take the cases whose name contains this")
    parser.add_argument("--path", choices=("automatic", "sm90", "portable"), default="automatic")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--batch-us", type=float, default=2000)
    parser.add_argument("--seconds", type=float, default=4, help="about the longest that one case's rounds take")
    parser.add_argument("--commit", default=None)
    parser.add_argument("--json")
    return parser.parse_args(arguments)


def main():
    options = parse_arguments(sys.argv[1:])
    import torch
    torch.manual_seed(0)
    library = dc.Dropless(options.library)
    memory_tbps, report = report_header(torch, library, options, BOUNDARY, weight_order="k_by_n",
                                        l2="cold: a call moves several times the L2 cache")
    report["peers_not_run"] = ["scattermoe", "megablocks"]
    print(json.dumps(report))
    report["cases"] = []
    for case in read_cases(options.cases):
        if options.only not in case["name"]:
            continue
        report["cases"].append(measure(torch, library, case, options, memory_tbps))
        print_case(report["cases"][-1])
        torch.cuda.empty_cache()
        write_report(report, options.json)
    print_summary(report["cases"])


if __name__ == "__main__":
    main()
