#!/usr/bin/env python3
"""Draws the test accuracy of published examples over epochs: one panel per run, the published accuracy dashed.

  bench/plot_examples.py OUT TITLE:PUBLISHED:LOGDIR/metrics.jsonl ...     (PUBLISHED: a fraction such as 0.9907, or empty)
"""
import json
import sys

try:
    import matplotlib
except ImportError:
    sys.exit("plot_examples.py: matplotlib is missing. Run: sudo apt install python3-matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot

if len(sys.argv) < 3 or any(argument.count(":") < 2 for argument in sys.argv[2:]):
    sys.exit(__doc__)
out, runs = sys.argv[1], [argument.split(":", 2) for argument in sys.argv[2:]]

columns = min(3, len(runs))
lines = -(-len(runs) // columns)
figure, panels = pyplot.subplots(lines, columns, figsize=(4 * columns, 3 * lines), squeeze=False)
for panel in panels.flat[len(runs):]:
    panel.set_visible(False)
for panel, (title, published, path) in zip(panels.flat, runs):
    # A resumed run contains some steps twice. The last row counts.
    rows = {}
    for line in open(path, encoding="utf-8"):
        row = json.loads(line)
        if row["kind"] == "evaluation":
            rows[row["step"]] = row
    epochs, shares = zip(*((row["epoch"], 100 * row["top1"]) for _, row in sorted(rows.items())))
    panel.plot(epochs, shares, "o-", color="#1f5fa8", markersize=3)
    low = min(shares)
    if published:
        share = 100 * float(published)
        panel.axhline(share, color="#c26a1b", linestyle="--", linewidth=1)
        panel.annotate(f"published {share:g}", (1, share), xycoords=("axes fraction", "data"), ha="right", va="bottom",
                       color="#c26a1b", fontsize=8)
        low = min(low, share)
    # The panel shows the last 30 percentage points. The first epochs may be below it.
    high = max(*shares, share if published else 0)
    panel.set(title=f"{title}: {shares[-1]:.2f} %", xlabel="epochs", ylim=(max(low, high - 30) - 1, high + (high - max(low, high - 30)) * 0.12 + 0.2))
    panel.grid(alpha=0.3)
for row in panels:
    row[0].set_ylabel("test accuracy, %")
figure.tight_layout()
figure.savefig(out, dpi=100)
