#!/usr/bin/env python3
"""How fast `dropless report` reads, against what people use instead.

A .npy of uniform expert ids (64 experts, top-8, 4 layers, sequences of 512; 1 GiB unless told otherwise) is
reported with the default policies, swept over five batch sizes, and counted with one numpy bincount of the mapped
file; a log of one token a line is reported and counted with Python's json. The page cache is warm; each figure is the best of three runs.

    tools/benchmark/trace_speed.py [--program build/dropless] [--mebibytes 1024] [--folder /tmp]
"""
import argparse
import json
import os
import random
import subprocess
import tempfile
import time

REPEATS = 3
EXPERTS, TOP_K, LAYERS, POSITIONS = 64, 8, 4, 512
SWEEP = "1,16,64,512,8192"


def best_seconds(work):
    def once():
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return min(once() for _ in range(REPEATS))


def report(program, path, *options):
    subprocess.run([program, "report", path, *options], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def write_log(path, tokens):
    """What a vLLM logger writes: the expert ids and gate weights of one token a line."""
    choose = random.Random(0)
    with open(path, "w") as log:
        log.write(json.dumps({"type": "meta", "top_k": 4, "num_experts": EXPERTS}) + "\n")
        for token in range(tokens):
            log.write(json.dumps({
                "type": "route", "req_id": "r1", "token_idx": token % 700, "layer": 12,
                "topk_ids": choose.sample(range(EXPERTS), 4),
                "topk_weights": [choose.random() for _ in range(4)]}) + "\n")


def count_with_json(path):
    rows = {}
    with open(path) as log:
        for line in log:
            record = json.loads(line)
            if record["type"] != "route":
                continue
            of_layer = rows.setdefault(record["layer"], [0] * EXPERTS)
            for expert in record["topk_ids"]:
                of_layer[expert] += 1


def count_with_numpy(path):
    import numpy
    numpy.bincount(numpy.load(path, mmap_mode="r").reshape(-1), minlength=EXPERTS)


def line(what, seconds, units, unit):
    print(f"{what:<44} {seconds:8.3f} s {units / seconds / 1e6:10.2f} million {unit}/s")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--program", default="build/dropless")
    arguments.add_argument("--mebibytes", type=int, default=1024, help="size of the .npy")
    arguments.add_argument("--log-tokens", type=int, default=500000)
    arguments.add_argument("--folder", help="where the files are written (default: the temporary folder)")
    given = arguments.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores")

    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        trace = os.path.join(folder, "uniform.npy")
        sequences = given.mebibytes * 2**20 // (LAYERS * POSITIONS * TOP_K)
        subprocess.run([given.program, "synth", trace, "--experts", str(EXPERTS), "--top-k", str(TOP_K), "--layers",
                        str(LAYERS), "--sequences", str(sequences), "--positions", str(POSITIONS)],
                       check=True, stdout=subprocess.DEVNULL)
        assignments = sequences * LAYERS * POSITIONS * TOP_K
        ours = best_seconds(lambda: report(given.program, trace))
        line(f"dropless report, {given.mebibytes} MiB .npy", ours, assignments, "assignments")
        sweep = best_seconds(lambda: report(given.program, trace, "--batch-tokens", SWEEP))
        line(f"the same swept over {SWEEP} tokens", sweep, assignments, "assignments")
        print(f"  the sweep costs {sweep / ours:.2f} default reports")
        try:
            theirs = best_seconds(lambda: count_with_numpy(trace))
            line("numpy.bincount of the mapped file", theirs, assignments, "assignments")
            print(f"  dropless is {theirs / ours:.1f} times as fast")
        except ImportError:
            print("numpy is not installed: nothing to compare the .npy with")
        os.remove(trace)

        log = os.path.join(folder, "routes.jsonl")
        write_log(log, given.log_tokens)
        ours = best_seconds(lambda: report(given.program, log))
        theirs = best_seconds(lambda: count_with_json(log))
        line(f"dropless report, {os.path.getsize(log) >> 20} MiB of JSON lines", ours, given.log_tokens, "lines")
        line("Python's json and counting", theirs, given.log_tokens, "lines")
        print(f"  dropless is {theirs / ours:.1f} times as fast")


if __name__ == "__main__":
    main()
