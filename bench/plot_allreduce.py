#!/usr/bin/env python3
"""Draws the output of bench_allreduce --json: plot_allreduce.py ROWS PICTURE (time and bus bandwidth by size)."""
import collections
import json
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("plot_allreduce.py: matplotlib is missing. Run: sudo apt install python3-matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot

if len(sys.argv) != 3:
    sys.exit(__doc__)
lines, bound = collections.defaultdict(list), {}
for row in map(json.loads, open(sys.argv[1], encoding="utf-8")):
    lines[row["reducer"]].append((row["bytes"], row["median_us"], row["busbw_gb_s"]))
    if row["percent_of_bound"]:
        part = row["percent_of_bound"] / 100
        bound[row["bytes"]] = (row["bytes"], row["median_us"] * part, row["busbw_gb_s"] / part)

figure, panels = pyplot.subplots(1, 2, figsize=(12, 4.5))
for panel, column, title in (panels[0], 1, "microseconds"), (panels[1], 2, "bus bandwidth, GB/s"):
    for reducer, points in lines.items():
        points = sorted(points)
        panel.plot([p[0] for p in points], [p[column] for p in points], label=reducer)
    points = sorted(bound.values())
    panel.plot([p[0] for p in points], [p[column] for p in points], "k--", label="bound")
    panel.set(title=title, xlabel="bytes", yscale="log")
    panel.set_xscale("log", base=2)
    panel.grid(alpha=0.3)
panels[0].legend(fontsize=8)
figure.tight_layout()
figure.savefig(sys.argv[2])
