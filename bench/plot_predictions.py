#!/usr/bin/env python3
"""Plots the output of cost_model --json: plot_predictions.py RESULTS OUT. Efficiency and step time over ranks, one column per network."""
import collections
import json
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("plot_predictions.py: matplotlib is missing. Install it: apt install python3-matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot

results, out = sys.argv[1:3]
lines = collections.defaultdict(lambda: collections.defaultdict(list))
for row in map(json.loads, open(results, encoding="utf-8")):
    point = row["ranks"], row["compute_ms"], row["allreduce_ms"], row["exposed_ms"]
    lines[row["network"], row["compute_ms"]][row["gbit_s"]].append(point)

figure, panels = pyplot.subplots(2, len(lines), figsize=(5.4 * len(lines), 7), sharex=True, squeeze=False)
for column, ((network, compute), links) in enumerate(lines.items()):
    for number, (gbits, points) in enumerate(sorted(links.items())):
        ranks = [p[0] for p in points]
        label = "%g Gbit/s" % gbits
        panels[0][column].plot(ranks, [100 * p[1] / (p[1] + p[3]) for p in points], "o-", color=f"C{number}", label=label, markersize=4)
        panels[0][column].plot(ranks, [100 * p[1] / (p[1] + p[2]) for p in points], ":", color=f"C{number}")
        panels[1][column].plot(ranks, [p[1] + p[3] for p in points], "o-", color=f"C{number}", label=label, markersize=4)
    panels[0][column].set(title="%s, %g ms of computing per step" % (network, compute), ylim=(0, 104))
    panels[1][column].set(xlabel="ranks, one on each host", xscale="log", ylim=(0, None))
    panels[1][column].set_xscale("log", base=2)
    for row in (0, 1):
        panels[row][column].grid(alpha=0.3)
panels[0][0].set_ylabel("efficiency, % (dotted: without overlap)")
panels[1][0].set_ylabel("step, ms")
panels[0][0].legend(fontsize=9, loc="lower left")
figure.suptitle("Predicted by the cost model of the schedules, not measured")
figure.tight_layout()
figure.savefig(out, dpi=110)
