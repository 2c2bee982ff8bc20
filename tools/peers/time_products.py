"""Times the expert products of dropless, torch._grouped_mm and other Python peers on the benchmark's cases, in one
process and one rotation, and scores them as dropless_bench does.

usage: time_products.py data/cases/moe_shapes.json --library build/libdropless_c.so --json out.json

Every contestant's batch is a CUDA graph of back-to-back calls (or, with --mode eager, the calls themselves: then the
host's time shows in short products, of dropless's ctypes calls too). Consecutive calls take other copies of the
operands, so that nothing is found in the L2 cache. Results are compared with one torch.mm an expert before anything
is timed. torch is called with both weight layouts; `torch_grouped` is the better of the two. ScatterMoE takes part
when it can be imported and is named in --peers."""
import argparse
import ctypes
import json
import math
import statistics
import subprocess
import sys

import dropless_c as dc
from product_cases import PRODUCTS, product_shape, read_cases, reference_us, relative_spread, router_ids

LEAST_BYTES_PER_TURN = 180_000_000  # three times the largest L2 cache at hand
PEAK_FLOPS = 1e15  # above what the GPU can do: no product is faster than its arithmetic at this rate
TOLERANCE = 5e-3
MARKED_SPREAD = 0.05


class Operands:
    """Slots of row matrices a [rows, k] and b [rows, n], and copies of the weights in both orders. A forward product
    or input gradient writes b, a weight gradient writes [experts, k, n]."""

    def __init__(self, torch, shape):
        bytes_of_rows, bytes_of_matrix = 2 * shape.rows * (shape.k + shape.n), 2 * shape.k * shape.n
        slots = math.ceil(LEAST_BYTES_PER_TURN / (bytes_of_rows + bytes_of_matrix))
        copies = math.ceil(LEAST_BYTES_PER_TURN / (bytes_of_rows + shape.matrices * bytes_of_matrix))

        def random(*sizes, deviation=1.0):
            return torch.randn(*sizes, device="cuda", dtype=torch.bfloat16) * deviation
        self.shape = shape
        self.a = [random(shape.rows, shape.k) for _ in range(slots)]
        self.b = [random(shape.rows, shape.n) for _ in range(slots)]
        self.k_by_n = [random(shape.experts, shape.k, shape.n, deviation=shape.k ** -0.5) for _ in range(copies)]
        self.n_by_k = [] if shape.weight_gradient else [w.transpose(1, 2).contiguous() for w in self.k_by_n]

    def slot(self, index):
        return index % len(self.a)

    def copy(self, index):
        return self.slot(index) % len(self.k_by_n)


class DroplessCase:
    """dropless on one case: its topology, and the products as calls."""

    def __init__(self, torch, library, case):
        self.torch, self.library = torch, library
        bounds = dc.TopologyBounds(tokens=case["tokens"], top_k=case["top_k"], experts=case["experts"])
        metadata, workspace = ctypes.c_size_t(), ctypes.c_size_t()
        library.topology_bytes(bounds, metadata, workspace)
        self.metadata_bytes, self.workspace_bytes = metadata.value, workspace.value
        self.memory = torch.empty(self.metadata_bytes, dtype=torch.uint8, device="cuda")
        scratch = torch.empty(self.workspace_bytes, dtype=torch.uint8, device="cuda")
        ids = torch.tensor(router_ids(case), dtype=torch.int32, device="cuda")
        self.topology, status = dc.Topology(), dc.TopologyStatus()
        library.build_topology(dc.RouterIds(data=ids.data_ptr()), bounds, self.memory.data_ptr(), self.metadata_bytes,
                               scratch.data_ptr(), self.workspace_bytes, self.stream(), self.topology)
        library.check_topology(self.topology, self.stream(), status)
        if status.useful_rows != sum(case["rows_per_expert"]):
            raise RuntimeError(f"{case['name']}: the topology has {status.useful_rows} rows")

    def stream(self):
        return self.torch.cuda.current_stream().cuda_stream

    def call(self, operands, product, order, path):
        """A function of the call index that enqueues the product and returns its result."""
        shape, options = operands.shape, dc.ProductOptions(path=path, exclusive_rows=1)

        def view(matrix):
            return dc.RowsView(matrix.data_ptr(), matrix.shape[1], dc.BF16)

        def gradient(index):
            a, b = operands.a[operands.slot(index)], operands.b[operands.slot(index)]
            result = operands.k_by_n[operands.copy(index)]
            dw = dc.ExpertGradients(element_type=dc.BF16, experts=shape.experts, m=shape.k, n=shape.n,
                                    leading_dimension=shape.n, expert_stride=shape.k * shape.n,
                                    data=result.data_ptr())
            self.library.weight_gradient(self.topology.rows, view(a), view(b), dw, options, self.stream())
            return result

        def rows_by_weights(index):
            a, b = operands.a[operands.slot(index)], operands.b[operands.slot(index)]
            matrices = (operands.k_by_n if order == dc.K_BY_N else operands.n_by_k)[operands.copy(index)]
            weights = dc.ExpertWeights(element_type=dc.BF16, order=order, experts=shape.experts, k=shape.k, n=shape.n,
                                       leading_dimension=matrices.shape[2],
                                       first=dc.WeightTensor(matrices.data_ptr(), shape.k * shape.n, None))
            verb = self.library.sdd if product in ("up", "down_dgrad") else self.library.dsd
            verb(self.topology.rows, view(a), weights, view(b), options, self.stream())
            return b

        return gradient if shape.weight_gradient else rows_by_weights


def expected_result(torch, operands, rows_per_expert):
    """One torch.mm an expert over the first slot."""
    a, b, weights = operands.a[0], operands.b[0], operands.k_by_n[0]
    wgrad = operands.shape.weight_gradient
    result = torch.zeros_like(weights) if wgrad else torch.empty_like(b)
    begin = 0
    for expert, rows in enumerate(rows_per_expert):
        part = slice(begin, begin + rows)
        if rows and wgrad:
            result[expert] = a[part].t() @ b[part]
        elif rows:
            result[part] = a[part] @ weights[expert]
        begin += rows
    return result


def peer_calls(torch, operands, case, names):
    """The peers' functions of the call index, by name."""
    shape, slot, copy = operands.shape, operands.slot, operands.copy
    offsets = torch.tensor(case["rows_per_expert"], device="cuda").cumsum(0).to(torch.int32)
    calls = {}

    def dense(index):
        a, b = operands.a[slot(index)], operands.b[slot(index)]
        if shape.weight_gradient:
            return torch.mm(a.t(), b)
        return torch.mm(a, operands.k_by_n[index // shape.experts % len(operands.k_by_n)][index % shape.experts])
    calls["cublas_dense"] = dense
    if "torch_grouped" in names and shape.weight_gradient:
        calls["torch_grouped"] = lambda i: torch._grouped_mm(operands.a[slot(i)].t(), operands.b[slot(i)], offs=offsets)
    elif "torch_grouped" in names:
        calls["torch_grouped_k_by_n"] = lambda i: torch._grouped_mm(
            operands.a[slot(i)], operands.k_by_n[copy(i)], offs=offsets)
        calls["torch_grouped_n_by_k"] = lambda i: torch._grouped_mm(
            operands.a[slot(i)], operands.n_by_k[copy(i)].transpose(1, 2), offs=offsets)
    if "scattermoe" in names and not shape.weight_gradient:
        import scattermoe.kernels.ops as scattermoe
        experts = torch.repeat_interleave(torch.arange(shape.experts, device="cuda"),
                                          torch.tensor(case["rows_per_expert"], device="cuda"))
        order = torch.arange(shape.rows, device="cuda")
        calls["scattermoe"] = lambda i: scattermoe.scatter2scatter(
            operands.a[slot(i)], operands.k_by_n[copy(i)], experts, order, 1, x_grouped=True, y_grouped=True)
    return calls


class Batch:
    """`calls` back-to-back calls of one contestant, replayed from a graph or enqueued one by one."""

    def __init__(self, torch, call, calls, mode):
        self.torch, self.call, self.calls, self.mode, self.next_index = torch, call, calls, mode, 0
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # warm up outside the capture: first calls may allocate or compile
            for index in range(2):
                call(index)
        stream.synchronize()
        if mode == "graph":
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.enqueue()

    def enqueue(self):
        for index in range(self.next_index, self.next_index + self.calls):
            self.call(index)
        self.next_index += self.calls

    def microseconds_per_call(self):
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        if self.mode == "graph":
            self.graph.replay()
        else:
            self.enqueue()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / self.calls


def order_of_round(names, turn):
    """Every other round begins one contestant further, and the rounds between run backwards: in an even number of
    rounds each contestant follows either of its neighbours equally often. What a call leaves in the caches, and how
    warm, is worth up to 3 % to the next one."""
    first = turn // 2 % len(names)
    order = names[first:] + names[:first]
    return order if turn % 2 == 0 else order[::-1]


def time_in_rotation(batches, rounds):
    """Microseconds a call of every round, by name."""
    names, times = list(batches), {name: [] for name in batches}
    for batch in batches.values():
        batch.microseconds_per_call()
    for turn in range(rounds):
        for name in order_of_round(names, turn):
            times[name].append(batches[name].microseconds_per_call())
    return times


def memory_rates(torch):
    """Copy rate (bytes read + written) and read-only rate, in TB/s, of random values."""
    source = torch.randn(2 ** 29, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    batches = {"copy": Batch(torch, lambda _: target.copy_(source), 4, "eager"),
               "read": Batch(torch, lambda _: source.sum(), 4, "eager")}
    times = {name: statistics.median(values) for name, values in time_in_rotation(batches, 9).items()}
    size = source.numel() * source.element_size()
    return 2 * size / times["copy"] * 1e-6, size / times["read"] * 1e-6


def measure(torch, dropless_case, case, product, options, memory_tbps):
    """One product of one case as a dictionary of the JSON's format."""
    shape = product_shape(case, product)
    operands = Operands(torch, shape)
    order = dc.K_BY_N if options.weight_order == "k_by_n" else dc.N_BY_K
    if product.endswith("dgrad"):  # the same memory, read the other way round
        order = dc.N_BY_K if order == dc.K_BY_N else dc.K_BY_N
    path = {"automatic": dc.AUTOMATIC, "sm90": dc.SM90, "portable": dc.PORTABLE}[options.path]
    calls = {"dropless": dropless_case.call(operands, product, order, path)}
    calls.update(peer_calls(torch, operands, case, options.peers))

    expected = expected_result(torch, operands, case["rows_per_expert"]).float()
    errors, failed, batches = {}, {}, {}
    least_us = max(shape.flops / PEAK_FLOPS * 1e6, shape.least_bytes / memory_tbps * 1e-6)
    count = max(1, math.ceil(options.batch_us / least_us))
    for name, call in calls.items():
        try:
            if name == "dropless":
                (operands.k_by_n if shape.weight_gradient else operands.b)[0].fill_(float("nan"))
            if name != "cublas_dense":
                errors[name] = float((call(0).float() - expected).norm() / expected.norm())
                if not errors[name] <= TOLERANCE:
                    raise RuntimeError(f"wrong result: error {errors[name]:.2e}, at most {TOLERANCE:.0e}")
            batches[name] = Batch(torch, call, count, options.mode)
        except Exception as error:
            if name in ("dropless", "cublas_dense"):
                raise
            failed[name] = str(error)
    times = time_in_rotation(batches, options.rounds)
    us = {name: statistics.median(values) for name, values in times.items()}
    spread = {name: relative_spread(values) for name, values in times.items()}
    layouts = [name for name in us if name.startswith("torch_grouped_")]
    if layouts:
        best = min(layouts, key=us.get)
        us["torch_grouped"], spread["torch_grouped"] = us[best], spread[best]
    reference = reference_us(us["cublas_dense"], shape.least_bytes, memory_tbps)
    return {"name": case["name"], "product": product, "dtype": "bf16",
            "precision_path": "bf16 x bf16 -> float -> bf16", "mlp": case["mlp"], "local_experts": case["experts"],
            "rows_per_expert": case["rows_per_expert"], "k": shape.k, "n": shape.n, "useful_rows": shape.rows,
            "flops": shape.flops, "least_bytes": shape.least_bytes, "error": errors["dropless"],
            "reference_us": reference, "us": us, "score": {name: reference / value for name, value in us.items()},
            "spread": spread, "failed_peers": failed, "metadata_bytes": dropless_case.metadata_bytes,
            "topology_workspace_bytes": dropless_case.workspace_bytes, "product_workspace_bytes": 0}


def print_product(result):
    columns = [f"{name} {us:.1f} us {result['flops'] / us * 1e-6:.0f} TFLOP/s {result['score'][name]:.3f}"
               + ("!" if result["spread"][name] > MARKED_SPREAD else "") for name, us in result["us"].items()]
    columns += [f"{name} failed: {reason}" for name, reason in result["failed_peers"].items()]
    print(f"{result['name']} {result['product']} reference {result['reference_us']:.1f} us | " + " | ".join(columns),
          flush=True)


def print_summary(results):
    for kind, products in (("up and down", ("up", "down")), ("input gradients", ("up_dgrad", "down_dgrad")),
                           ("weight gradients", ("up_wgrad", "down_wgrad"))):
        of_kind = [r for r in results if r["product"] in products]
        for name in dict.fromkeys(name for r in of_kind for name in r["score"]):
            scores = [r["score"][name] for r in of_kind if name in r["score"]]
            print(f"{kind}: {name} geometric mean {statistics.geometric_mean(scores):.3f}, worst {min(scores):.3f}, "
                  f"{len(scores)} products")
        slower = [r for r in of_kind if r["us"]["dropless"] > min(
            us for name, us in r["us"].items() if name != "cublas_dense")]
        for r in slower:
            print(f"{kind}: a peer is faster on {r['name']} {r['product']}")


def report_header(torch, library, options, boundary, **facts):
    """The measured memory rate in TB/s, and what a report says before its cases."""
    copy_tbps, read_tbps = memory_rates(torch)
    memory_tbps = max(copy_tbps, read_tbps)
    return memory_tbps, {
        "gpu": torch.cuda.get_device_name(), "B_tbps": memory_tbps, "copy_tbps": copy_tbps,
        "read_only_tbps": read_tbps, "commit": options.commit or head_commit(),
        "versions": {"dropless": library.version(), "torch": torch.__version__, "cuda": torch.version.cuda},
        "boundary": boundary, **facts, "rounds": options.rounds}


def write_report(report, path):
    """Written as the run goes on, so that a run cut short leaves what it measured."""
    if path:
        with open(path, "w") as file:
            json.dump(report, file, indent=1)


def head_commit():
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases")
    parser.add_argument("--library", default="build/libdropless_c.so")
    parser.add_argument("--only", default="", help="take the cases whose name contains this")
    parser.add_argument("--products", default="up,down")
    parser.add_argument("--peers", default="torch_grouped", help="torch_grouped, scattermoe")
    parser.add_argument("--path", choices=("automatic", "sm90", "portable"), default="automatic")
    parser.add_argument("--weight-order", choices=("n_by_k", "k_by_n"), default="n_by_k")
    parser.add_argument("--mode", choices=("graph", "eager"), default="graph")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--batch-us", type=float, default=2000)
    parser.add_argument("--gradient-rows", type=int, default=4096)
    parser.add_argument("--commit", default=None)
    parser.add_argument("--json")
    options = parser.parse_args(arguments)
    options.products, options.peers = options.products.split(","), options.peers.split(",")
    for product in options.products:
        if product not in PRODUCTS:
            parser.error(f"--products: {product} is none of {', '.join(PRODUCTS)}")
    return options


def main():
    options = parse_arguments(sys.argv[1:])
    import torch
    torch.manual_seed(0)
    library = dc.Dropless(options.library)
    memory_tbps, report = report_header(
        torch, library, options, f"device time of one call, mean of back-to-back calls ({options.mode}); the tile "
        "list was built before by the topology", l2="cold: operands rotate through at least 180 MB",
        weight_order=options.weight_order)
    report["peers_not_run"] = [p for p in ("torch_grouped", "scattermoe", "stk") if p not in options.peers] + [
        "cublas_loop", "cublas_streams", "cublas_grouped"]  # by dropless_bench
    print(json.dumps(report))
    report["cases"] = []
    for case in read_cases(options.cases):
        if options.only not in case["name"]:
            continue
        dropless_case = DroplessCase(torch, library, case)
        for product in options.products:
            if "grad" in product and sum(case["rows_per_expert"]) < options.gradient_rows:
                continue
            report["cases"].append(measure(torch, dropless_case, case, product, options, memory_tbps))
            print_product(report["cases"][-1])
            torch.cuda.empty_cache()
            write_report(report, options.json)
    print_summary(report["cases"])


if __name__ == "__main__":
    main()
