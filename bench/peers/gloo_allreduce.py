#!/usr/bin/env python3
"""Times gloo's all-reduce of fp32 through PyTorch, as bench_allreduce times the reducers.

Starts its own processes. Prints one JSON line per size, with the keys of bench_allreduce --json. Each call gets a newly
written buffer, and several buffers take turns, so that caches help no more than in training. Times are of the slowest rank.
"""

import argparse
import json
import os
import statistics
import tempfile
import time

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text):
    """"64K" in bytes."""
    scale = UNITS.get(text[-1:].upper(), 1)
    try:
        bytes_ = int(text[:-1] if scale > 1 else text) * scale
    except ValueError:
        bytes_ = 0
    if bytes_ < 4:
        raise argparse.ArgumentTypeError(f"{text} is not a size of at least 4 bytes, such as 64K")
    return bytes_


def options_of_command_line():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="processes (2)")
    parser.add_argument("--min", type=size, default=size("1K"), help="bytes of the shortest buffer (1K)")
    parser.add_argument("--max", type=size, default=size("64M"), help="bytes of the longest buffer (64M)")
    parser.add_argument("--factor", type=int, default=4, help="ratio of one size to the next (4)")
    parser.add_argument("--iters", type=int, default=0, help="iterations per measurement (0: about 0.15 s)")
    options = parser.parse_args()
    for name, least in ("ranks", 1), ("factor", 2), ("iters", 0), ("max", options.min):
        if getattr(options, name) < least:
            parser.error(f"--{name} {getattr(options, name)} is less than {least}")
    return options


def run(rank, options, rendezvous):
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=options.ranks)

    def slowest(buffers, times):
        """Seconds of each call."""
        own = torch.empty(times, dtype=torch.float64)
        for i in range(times):
            buffer = buffers[i % len(buffers)]
            buffer.fill_(rank + i % 7)
            distributed.barrier()
            began = time.perf_counter()
            distributed.all_reduce(buffer)
            own[i] = time.perf_counter() - began
        distributed.all_reduce(own, op=distributed.ReduceOp.MAX)
        return own.tolist()

    bytes_ = options.min
    while bytes_ <= options.max:
        count = bytes_ // 4
        buffers = [torch.empty(count) for _ in range(max(1, min(8, (32 << 20) // bytes_)))]
        first = statistics.median(slowest(buffers, 3))
        seconds = sorted(slowest(buffers, options.iters or max(7, min(2000, round(0.15 / first)))))
        buffers[0].fill_(rank + 1)
        distributed.all_reduce(buffers[0])
        wrong = int((buffers[0] != options.ranks * (options.ranks + 1) / 2).sum())
        ranks, median = options.ranks, seconds[len(seconds) // 2]
        if rank == 0:
            print(json.dumps({
                "reducer": "gloo", "type": "fp32", "ranks": ranks, "bytes": 4 * count,
                "median_us": round(median * 1e6, 2), "p95_us": round(seconds[len(seconds) * 95 // 100] * 1e6, 2),
                "max_us": round(seconds[-1] * 1e6, 2), "algbw_gb_s": round(4e-9 * count / median, 4),
                "busbw_gb_s": round(2 * (ranks - 1) / ranks * 4e-9 * count / median, 4),
                "percent_of_bound": None, "wrong": wrong}), flush=True)
        bytes_ *= options.factor
    distributed.destroy_process_group()


def main():
    options = options_of_command_line()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from torch import multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(run, (options, os.path.join(folder, "rendezvous")), options.ranks,
                                        start_method="spawn")


if __name__ == "__main__":
    main()
