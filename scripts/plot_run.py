#!/usr/bin/env python3
"""Plots loss, accuracy and speed of a run over its steps, from metrics.jsonl in its log directory.

Needs matplotlib:  sudo apt install python3-matplotlib   (or: pip install matplotlib)
"""
import argparse
import json
import sys


def read(path):
    """Returns the rows of each kind, in the order of the file. Skips a line that a crash cut short."""
    rows = {"train": [], "evaluation": []}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            kind, step = (row.get("kind"), row.get("step")) if isinstance(row, dict) else (None, None)
            if isinstance(kind, str) and kind in rows and isinstance(step, (int, float)):
                rows[kind].append(row)
    return rows


def column(rows, name):
    """Returns the steps and values of `name`. Skips rows without a number there (NaN is written as text)."""
    pairs = [(row["step"], row[name]) for row in rows if isinstance(row.get(name), (int, float))]
    return [step for step, _ in pairs], [value for _, value in pairs]


def smooth(values):
    """Returns the centred moving mean over a fortieth of the rows. It has no lag, and shorter windows at both ends."""
    half = len(values) // 80
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    result = []
    for i in range(len(values)):
        reach = min(half, i, len(values) - 1 - i)
        result.append((sums[i + reach + 1] - sums[i - reach]) / (2 * reach + 1))
    return result


def median(values):
    return sorted(values)[len(values) // 2]


def draw(rows, title, with_speed, pyplot):
    ink, blue, green, orange = "#333333", "#1f5fa8", "#2a8f5a", "#c26a1b"
    pyplot.rcParams.update({"font.size": 10, "axes.edgecolor": "#999999", "axes.labelcolor": ink, "text.color": ink,
                            "xtick.color": ink, "ytick.color": ink, "svg.hashsalt": "lockstep"})
    figure, (loss, accuracy, speed) = pyplot.subplots(
        3, 1, sharex=True, figsize=(8, 8), gridspec_kw={"height_ratios": [3, 3, 1.2], "hspace": 0.12})
    for axes in (loss, accuracy, speed):
        axes.grid(color="#e4e4e4", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines["top"].set_visible(False)
        axes.spines["right"].set_visible(False)
    figure.suptitle(title, y=0.93, fontsize=12)

    steps, values = column(rows["train"], "loss")
    if values:
        loss.plot(steps, values, color=blue, alpha=0.25, linewidth=0.8)
        loss.plot(steps, smooth(values), color=blue, linewidth=1.6, label="training")
        if min(values) > 0 and max(values) / min(values) > 20:
            loss.set_yscale("log")
    penalties = column(rows["train"], "penalty")[1]
    if any(penalties) and len(penalties) == len(values):
        total = [one + other for one, other in zip(values, penalties)]
        loss.plot(steps, smooth(total), color=blue, linewidth=1.2, linestyle=":", label="training, with the weight penalty")
    held_out = column(rows["evaluation"], "loss")
    if held_out[0]:
        loss.plot(*held_out, color=orange, marker="o", markersize=3.5, linewidth=1.2, label="evaluation")
    if values or held_out[0]:
        loss.legend(frameon=False)
    loss.set_ylabel("loss")

    for name, label, color in (("top5", "top-5", "#8fc7a9"), ("top1", "top-1", green)):
        steps, values = column(rows["evaluation"], name)
        if not values:
            continue
        values = [100 * value for value in values]
        accuracy.plot(steps, values, color=color, marker="o", markersize=3.5, linewidth=1.6)
        accuracy.annotate(f"{label} {values[-1]:.1f} %", (steps[-1], values[-1]), xytext=(0, -15), textcoords="offset points",
                          ha="right", color=color if name == "top1" else ink)
    if accuracy.lines:
        accuracy.set_ylim(0, 100)
    else:
        accuracy.set_yticks([])
        accuracy.text(0.5, 0.5, "no evaluations", transform=accuracy.transAxes, ha="center", color="#999999")
    accuracy.set_ylabel("accuracy, %")

    steps, values = column(rows["train"], "images_per_s")
    if values:
        speed.plot(steps, values, color=ink, linewidth=0.8)
        speed.axhline(median(values), color=orange, linewidth=1, linestyle="--", label=f"median {median(values):,.0f}")
        speed.legend(frameon=False, loc="lower right")
        speed.set_ylim(0, 1.1 * max(values))
    speed.set_ylabel("images/s")
    speed.set_xlabel("step")
    if not with_speed:
        speed.remove()
        accuracy.tick_params(labelbottom=True)
        accuracy.set_xlabel("step")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("metrics", help="metrics.jsonl in a log directory")
    parser.add_argument("picture", help="output file: .png, .svg or .pdf")
    parser.add_argument("--title", default="", help="title of the plot (default: none)")
    parser.add_argument("--no-speed", action="store_true", help="no plot of images/s")
    arguments = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        sys.exit("plot_run.py: matplotlib is missing. Install it (sudo apt install python3-matplotlib) and run this with "
                 "/usr/bin/python3, or pip install matplotlib.")
    matplotlib.use("Agg")  # no window, no display
    from matplotlib import pyplot
    try:
        rows = read(arguments.metrics)
        if not rows["train"] and not rows["evaluation"]:
            sys.exit(f"plot_run.py: {arguments.metrics} contains no steps yet. Wait for the run, or name another file.")
        draw(rows, arguments.title, not arguments.no_speed, pyplot).savefig(arguments.picture, dpi=130, bbox_inches="tight")
    except (OSError, ValueError) as error:
        sys.exit(f"plot_run.py: {error}. Name other files.")
    last = max((row["step"] for kind in rows.values() for row in kind), default=0)
    print(f"{arguments.picture}: {len(rows['train'])} training rows, {len(rows['evaluation'])} evaluations, "
          f"up to step {last}")


if __name__ == "__main__":
    main()
