#!/usr/bin/env python3
"""A network of apps/networks in PyTorch: images/s of a training step. Several ranks use DistributedDataParallel over gloo.

Starts its own processes, or mpirun starts one per rank. Prints one JSON line. README.md in this folder explains how to
install PyTorch. It does the same work as bench_step: forward, backward with the all-reduce, and the update, on samples
that are already in memory.
"""

import os
import tempfile
import time
import warnings

from harness import BATCHES, finish, parse, report, time_steps


def options_of_command_line():
    parser = parse(__doc__)
    parser.add_argument("--layout", choices=["channels_last", "contiguous"], default="channels_last",
                        help="memory layout of images (channels_last)")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")
    parser.add_argument("--ipex", action="store_true", help="use Intel Extension for PyTorch, only with --ranks 1")
    parser.add_argument(
        "--rendezvous", metavar="FILE",
        help="new file that all hosts share, if mpirun starts the ranks; GLOO_SOCKET_IFNAME names their network")
    return finish(parser, "ipex")


def make_optimizer(model, recipe, dtype):
    """Returns the fused optimizer if PyTorch has one, else the multi-tensor one."""
    from torch import bfloat16, float32, optim

    if recipe.optimizer == "muon":
        from pytorch_muon import Muon

        return Muon(model.parameters(), recipe, bfloat16 if dtype == "bf16" else float32)
    by_decay = {}
    for parameter in model.parameters():
        by_decay.setdefault(getattr(parameter, "decay", 0.0), []).append(parameter)
    groups = [{"params": parameters, "weight_decay": decay} for decay, parameters in by_decay.items()]
    if recipe.optimizer == "sgd":
        return optim.SGD(groups, lr=recipe.rate, momentum=recipe.momentum, fused=True)
    if recipe.optimizer == "adam":
        return optim.Adam(groups, lr=recipe.rate, fused=True)
    if recipe.optimizer == "adamw":
        return optim.AdamW(groups, lr=recipe.rate, fused=True)
    if recipe.optimizer == "rmsprop":  # PyTorch adds epsilon outside the root
        return optim.RMSprop(groups, lr=recipe.rate, alpha=0.9, eps=1e-7, foreach=True)
    return optim.NAdam(groups, lr=recipe.rate, eps=1e-7, momentum_decay=0.004, foreach=True)


def with_ipex(model, optimizer, dtype):
    """Returns the model and the optimizer with blocked weights and fused updates. Muon needs plain weights."""
    import intel_extension_for_pytorch  # replaces kernels
    from torch import bfloat16, float32, optim

    if not isinstance(optimizer, optim.Optimizer):
        return model, optimizer
    return intel_extension_for_pytorch.optimize(model.train(), optimizer=optimizer,
                                                dtype=bfloat16 if dtype == "bf16" else float32)


def run(rank, options, rendezvous, started):
    import torch
    from torch import nn

    from pytorch_networks import NETWORKS

    recipe = options.recipe
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    if options.ranks > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=options.ranks)
    layout = torch.channels_last if options.layout == "channels_last" else torch.contiguous_format
    model = NETWORKS[options.net](recipe).to(memory_format=layout)
    parameters = sum(p.numel() for p in model.parameters())
    optimizer = make_optimizer(model, recipe, options.dtype)
    if options.ipex:
        model, optimizer = with_ipex(model, optimizer, options.dtype)
    if options.ranks > 1:
        # Each rank keeps its own statistics of batch norm, as in Lockstep. PyTorch 2.15 has a new name for this option.
        warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated")
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, broadcast_buffers=False)
    if options.compile:
        model = torch.compile(model)

    generator = torch.Generator().manual_seed(1 + rank)

    def samples():
        if recipe.vocabulary:
            return torch.randint(recipe.vocabulary, (options.batch, *recipe.sample), generator=generator)
        height, width, channels = recipe.sample
        return torch.randn(options.batch, channels, height, width, generator=generator).to(memory_format=layout)

    batches = [(samples(), torch.randint(recipe.classes, (options.batch,), generator=generator))
               for _ in range(BATCHES)]
    loss_of = nn.CrossEntropyLoss(label_smoothing=recipe.smoothing)

    def step(number):
        optimizer.zero_grad(set_to_none=False)
        inputs, labels = batches[number % BATCHES]
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.dtype == "bf16"):
            loss = loss_of(model(inputs), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    times = time_steps(step, options)
    if rank == 0:
        report("pytorch_ddp", torch.__version__, options, times, started, layout=options.layout,
               compiled=options.compile, ipex=options.ipex, parameters=parameters)
    if options.ranks > 1:
        torch.distributed.destroy_process_group()


def main():
    started = time.time()
    options = options_of_command_line()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        import torch.multiprocessing
    except ImportError:
        raise SystemExit("pytorch_ddp.py: PyTorch is missing. Install it as bench/peers/README.md explains.")
    if options.ranks == 1:
        return run(0, options, None, started)
    if options.rendezvous:
        return run(int(os.environ["OMPI_COMM_WORLD_RANK"]), options, options.rendezvous, started)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            run, args=(options, os.path.join(folder, "rendezvous"), started), nprocs=options.ranks)


if __name__ == "__main__":
    main()
