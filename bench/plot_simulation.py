#!/usr/bin/env python3
"""Draws the results of bench/simulate.sh: plot_simulation.py RESULTS OUT TITLE (time over bytes, one panel for each number of ranks)."""
import collections
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("plot_simulation.py: matplotlib is missing. Run: sudo apt install python3-matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot

results, out, title = sys.argv[1:4]
times = collections.defaultdict(lambda: collections.defaultdict(list))
for line in open(results, encoding="utf-8"):
    algorithm, ranks, size, seconds, cost = line.split()
    times[int(ranks)][algorithm].append((int(size), float(seconds) * 1e6, float(cost) * 1e6))

figure, panels = pyplot.subplots(1, len(times), figsize=(1 + 4.2 * len(times), 4.2), sharey=True, squeeze=False)
for panel, (ranks, lines) in zip(panels[0], sorted(times.items())):
    for number, (algorithm, points) in enumerate(lines.items()):
        size, simulated, cost = zip(*sorted(points))
        panel.plot(size, simulated, "o-", color=f"C{number}", label=algorithm, markersize=4)
        panel.plot(size, cost, ":", color=f"C{number}")
    panel.set(title=f"{ranks} ranks", xscale="log", yscale="log", xlabel="bytes")
    panel.grid(alpha=0.3)
panels[0][0].set_ylabel("us (dotted: by the cost model)")
panels[0][0].legend(fontsize=8)
figure.suptitle(title)
figure.tight_layout()
figure.savefig(out, dpi=110)
