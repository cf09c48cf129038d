#!/usr/bin/env python3
"""The tutorial network under PyTorch's DistributedDataParallel over gloo: images/s of a training step.

Starts its own processes. Prints one JSON line. README.md of this folder says how to get PyTorch.
The same work as bench_step: forward, backward with the all-reduce, and the SGD update of the network of
net/models/tutorial.cc, on images of CIFAR's shape that already lie in memory.
"""

import argparse
import json
import os
import statistics
import tempfile
import time


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="processes")
    parser.add_argument("--threads", type=int, default=1, help="threads of each process")
    parser.add_argument("--batch", type=int, default=64, help="images per process and step")
    parser.add_argument("--steps", type=int, default=40, help="timed steps")
    parser.add_argument("--warmup", type=int, default=5, help="steps before them")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32", help="bf16 is autocast")
    parser.add_argument("--layout", choices=["channels_last", "contiguous"], default="channels_last")
    parser.add_argument("--lrn", choices=["builtin", "pool"], default="pool",
                        help="torch's own layer, or the same sum by a two-dimensional pool (faster)")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    return parser.parse_args()


def make_model(lrn):
    import torch
    from torch import nn
    from torch.nn import functional

    class ResponseNorm(nn.Module):
        """TensorFlow's: x / (1 + alpha * sum of squares of 9 neighbouring channels)^0.75, alpha = 0.001/9."""

        def forward(self, x):
            if lrn == "builtin":  # alpha is divided by the size there
                return functional.local_response_norm(x, size=9, alpha=0.001, beta=0.75, k=1.0)
            pixels = x.permute(0, 2, 3, 1).flatten(1, 2)  # a view in channels_last
            mean = functional.avg_pool1d(pixels.square(), kernel_size=9, stride=1, padding=4)
            scale = torch.add(1.0, mean, alpha=0.001)
            # scale^-0.75 by two reciprocal square roots: pow is several times slower
            root = scale.rsqrt()
            return (pixels * (root * root.sqrt())).view(x.shape[0], x.shape[2], x.shape[3], -1).permute(0, 3, 1, 2)

    def conv(channels_in, bias):
        layer = nn.Conv2d(channels_in, 64, 5, padding=2)
        nn.init.trunc_normal_(layer.weight, std=0.05)
        nn.init.constant_(layer.bias, bias)
        return layer

    def dense(size_in, size_out, std, bias):
        layer = nn.Linear(size_in, size_out)
        nn.init.trunc_normal_(layer.weight, std=std)
        nn.init.constant_(layer.bias, bias)
        return layer

    def pool():  # padding at the far edges only, as TensorFlow's SAME: 24 -> 12 -> 6
        return nn.MaxPool2d(3, stride=2, ceil_mode=True)

    return nn.Sequential(
        conv(3, 0.0), nn.ReLU(), pool(), ResponseNorm(),
        conv(64, 0.1), nn.ReLU(), ResponseNorm(), pool(),
        nn.Flatten(),
        dense(2304, 384, 0.04, 0.1), nn.ReLU(),
        dense(384, 192, 0.04, 0.1), nn.ReLU(),
        dense(192, 10, 1 / 192, 0.0))


def run(rank, options, rendezvous, started):
    import torch
    from torch import nn

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=options.ranks)
    layout = torch.channels_last if options.layout == "channels_last" else torch.contiguous_format
    model = make_model(options.lrn).to(memory_format=layout)
    parameters = sum(p.numel() for p in model.parameters())
    decayed = [model[9].weight, model[11].weight]  # L2 of the two hidden dense layers
    others = [p for p in model.parameters() if all(p is not d for d in decayed)]
    optimizer = torch.optim.SGD(
        [{"params": decayed, "weight_decay": 0.004}, {"params": others}], lr=0.1)
    model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    if options.compile:
        model = torch.compile(model)

    generator = torch.Generator().manual_seed(1 + rank)
    pool_size = 8  # batches to go round
    images = [torch.randn(options.batch, 3, 24, 24, generator=generator).to(memory_format=layout)
              for _ in range(pool_size)]
    labels = [torch.randint(10, (options.batch,), generator=generator) for _ in range(pool_size)]
    loss_of = nn.CrossEntropyLoss()

    def step(number):
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.dtype == "bf16"):
            loss = loss_of(model(images[number % pool_size]), labels[number % pool_size])
        loss.backward()
        optimizer.step()
        return loss.item()

    times, first = [], None
    for number in range(options.warmup + options.steps):
        begin = time.perf_counter()
        loss = step(number)
        end = time.perf_counter()
        first = first or time.time() - started
        if number >= options.warmup:
            times.append(end - begin)
    if rank == 0:
        seconds = statistics.median(times)
        print(json.dumps({
            "peer": "pytorch_ddp", "version": torch.__version__, "ranks": options.ranks, "threads": options.threads,
            "batch": options.batch, "precision": options.dtype, "layout": options.layout, "lrn": options.lrn,
            "compiled": options.compile, "parameters": parameters,
            "images_per_s": round(options.batch * options.ranks / seconds, 1), "seconds_per_step": round(seconds, 6),
            "first_step_after_s": round(first, 2), "loss": round(loss, 4)}), flush=True)
    torch.distributed.destroy_process_group()


def main():
    started = time.time()
    options = parse()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        import torch.multiprocessing
    except ImportError:
        raise SystemExit("pytorch_ddp.py: PyTorch is missing: bench/peers/README.md says how to get it.")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            run, args=(options, os.path.join(folder, "rendezvous"), started), nprocs=options.ranks)


if __name__ == "__main__":
    main()
