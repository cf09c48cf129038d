"""Shared by all drivers: the command line, the timing, and the line of JSON at the end."""

import argparse
import json
import statistics
import time

from recipes import RECIPES

BATCHES = 8  # batches in memory, used in turns


def parse(about):
    """Returns the parser of the common options. `about` is the program's help."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", choices=RECIPES, default="tutorial", help="network of apps/networks (tutorial)")
    parser.add_argument("--ranks", type=int, default=2, help="processes or replicas (2)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each process or replica (1)")
    parser.add_argument("--batch", type=int, help="samples per rank and step (from the recipe)")
    parser.add_argument("--steps", type=int, default=40, help="timed steps (40)")
    parser.add_argument("--warmup", type=int, default=5, help="steps before the timed ones (5)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32",
                        help="type of convolutions and dense layers (fp32)")
    return parser


def finish(parser, alone):
    """Returns the options with the recipe. The default batch is that of the recipe. `alone` is an option for one rank."""
    options = parser.parse_args()
    if getattr(options, alone) and options.ranks > 1:
        parser.error(f"--{alone} needs one process. Pass --ranks 1.")
    options.recipe = RECIPES[options.net]
    options.batch = options.batch or options.recipe.batch
    return options


def time_steps(step, options):
    """Times step(number), which returns the loss. Returns the times for report()."""
    seconds, first, loss = [], None, None
    for number in range(options.warmup + options.steps):
        begin = time.perf_counter()
        loss = step(number)
        end = time.perf_counter()
        first = first or time.time()
        if number >= options.warmup:
            seconds.append(end - begin)
    return {"seconds": statistics.median(seconds), "first": first, "loss": loss}


def report(peer, version, options, times, started, **more):
    """Prints the line of JSON. `started` is time.time() at the start of the program."""
    print(json.dumps({
        "peer": peer, "version": version, "net": options.net, "ranks": options.ranks, "threads": options.threads,
        "batch": options.batch, "precision": options.dtype, **more,
        "images_per_s": round(options.batch * options.ranks / times["seconds"], 3),
        "seconds_per_step": round(times["seconds"], 6), "first_step_after_s": round(times["first"] - started, 2),
        "loss": round(times["loss"], 4)}), flush=True)
