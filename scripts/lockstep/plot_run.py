"""Plots loss, accuracy and speed of runs over their steps: one curve for each run, named by the options that differ.
A file of --find-lr is plotted as loss over learning rate.

Needs matplotlib:  sudo apt install python3-matplotlib   (or: pip install matplotlib)
"""
import argparse
import json
import os
import sys

from lockstep import networks

# The colours of a run's page (src/report/page/page.css), which colour-blind readers can tell apart; then line styles.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#b0578d", "#a87900", "#3a8fc7", "#5b5b5b", "#7a4fd0"]
STYLES = ["-", "--", ":", "-."]


def log_of(run):
    """Returns the path of metrics.jsonl of a run, which networks.folder_of_run() finds, or that of another file."""
    path = networks.folder_of_run(run)
    return os.path.join(path, "metrics.jsonl") if os.path.isdir(path) else path


def read(path):
    """Returns the rows of each kind, in the order of the file. Skips a line that a crash cut short."""
    rows = {"train": [], "evaluation": [], "run": []}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):  # the last: values that are too deep
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


def subplots(pyplot, title, *shape, **how):
    """Returns a figure and its axes in the style of all plots."""
    ink = "#333333"
    pyplot.rcParams.update({"font.size": 10, "axes.edgecolor": "#999999", "axes.labelcolor": ink, "text.color": ink,
                            "xtick.color": ink, "ytick.color": ink, "svg.hashsalt": "lockstep"})
    figure, all_axes = pyplot.subplots(*shape, **how)
    for axes in figure.axes:
        axes.grid(color="#e4e4e4", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines["top"].set_visible(False)
        axes.spines["right"].set_visible(False)
    figure.suptitle(title, y=0.93, fontsize=12)
    return figure, all_axes


def three_axes(pyplot, title):
    figure, (loss, accuracy, speed) = subplots(
        pyplot, title, 3, 1, sharex=True, figsize=(8, 8), gridspec_kw={"height_ratios": [3, 3, 1.2], "hspace": 0.12})
    loss.set_ylabel("loss")
    accuracy.set_ylabel("accuracy, %")
    speed.set_ylabel("samples/s")
    speed.set_xlabel("step")
    return figure, loss, accuracy, speed


def finish(accuracy, speed, with_speed):
    if accuracy.lines:
        accuracy.set_ylim(0, 100)
    else:
        accuracy.set_yticks([])
        accuracy.text(0.5, 0.5, "no evaluations", transform=accuracy.transAxes, ha="center", color="#999999")
    if not with_speed:
        speed.remove()
        accuracy.tick_params(labelbottom=True)
        accuracy.set_xlabel("step")


def labels_of(paths, runs):
    """Returns a name for each run: the options that differ, or the path if none do."""
    options = [(rows["run"][-1].get("options") or {}) if rows["run"] else {} for rows in runs]
    names = dict.fromkeys(name for one in options for name in one)
    differing = [name for name in names if len({json.dumps(one.get(name)) for one in options}) > 1]
    labels = [", ".join(f"{name} {one.get(name, 'not set')}" for name in differing) for one in options]
    return labels if differing and len(set(labels)) == len(labels) else [
        f"{path}: {label}" if label else path for path, label in zip(paths, labels)]


def draw_several(paths, runs, title, with_speed, pyplot):
    figure, loss, accuracy, speed = three_axes(pyplot, title)
    for i, (label, rows) in enumerate(zip(labels_of(paths, runs), runs)):
        look = {"color": COLOURS[i % len(COLOURS)], "linestyle": STYLES[i // len(COLOURS) % len(STYLES)]}
        steps, values = column(rows["train"], "loss")
        loss.plot(steps, smooth(values), linewidth=1.4, label=label, **look)
        steps, values = column(rows["evaluation"], "top1")
        if values:
            accuracy.plot(steps, [100 * value for value in values], marker="o", markersize=3.5, linewidth=1.4, **look)
        steps, values = column(rows["train"], "images_per_s")
        speed.plot(steps, smooth(values), linewidth=0.8, **look)
    loss.set_ylabel("training loss")
    loss.legend(frameon=False, fontsize=9)
    speed.set_ylim(bottom=0)
    finish(accuracy, speed, with_speed)
    return figure


def draw_rates(test, title, pyplot):
    figure, axes = subplots(pyplot, title, 1, 1, figsize=(8, 5))
    points = [point for point in test["points"] if isinstance(point["smoothed"], (int, float))]
    rates = [point["lr"] for point in points]
    axes.plot(rates, [point["loss"] for point in points], color=COLOURS[0], alpha=0.25, linewidth=0.8)
    axes.plot(rates, [point["smoothed"] for point in points], color=COLOURS[0], linewidth=1.6, label="loss, smoothed")
    if test["suggested"] is not None:
        axes.axvline(test["suggested"], color=COLOURS[1], linewidth=1, linestyle="--", label=f"suggested {test['suggested']:g}")
    axes.set_xscale("log")
    first, lowest = points[0]["smoothed"], min(point["smoothed"] for point in points)
    fall = max(first - lowest, 0.05 * first)
    axes.set_ylim(lowest - 0.5 * fall, first + 1.5 * fall)  # without the divergence
    axes.set_xlabel("learning rate")
    axes.set_ylabel("loss")
    axes.legend(frameon=False)
    return figure


def draw(rows, title, with_speed, pyplot):
    ink, (blue, orange, _, purple) = "#333333", COLOURS[:4]
    figure, loss, accuracy, speed = three_axes(pyplot, title)
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

    for name, label, color in (("top5", "top-5", purple), ("top1", "top-1", orange)):
        steps, values = column(rows["evaluation"], name)
        if not values or (name == "top5" and min(values) == 1):  # of five classes or fewer
            continue
        values = [100 * value for value in values]
        accuracy.plot(steps, values, color=color, marker="o", markersize=3.5, linewidth=1.6)
        accuracy.annotate(f"{label} {values[-1]:.1f} %", (steps[-1], values[-1]), xytext=(0, -15), textcoords="offset points",
                          ha="right", color=color)

    steps, values = column(rows["train"], "images_per_s")
    if values:
        speed.plot(steps, values, color=ink, linewidth=0.8)
        speed.axhline(median(values), color=orange, linewidth=1, linestyle="--", label=f"median {median(values):,.0f}")
        speed.legend(frameon=False, loc="lower right")
        speed.set_ylim(0, 1.1 * max(values))
    finish(accuracy, speed, with_speed)
    return figure


def range_test(path):
    """Returns the contents of a file of --find-lr; None: it is another file."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            test = json.load(file)
    except (ValueError, RecursionError):  # metrics.jsonl has several objects
        return None
    return test if isinstance(test, dict) and test.get("kind") == "find-lr" else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="name of a run in runs/, folder of a run, metrics.jsonl, or file of --find-lr")
    parser.add_argument("picture", help="output file: .png, .svg or .pdf")
    parser.add_argument("--title", default="", help="title of the plot (default: none)")
    parser.add_argument("--no-speed", action="store_true", help="no plot of samples/s")
    arguments = parser.parse_args()
    try:
        import matplotlib
    except ImportError:
        sys.exit("plot_run.py: matplotlib is missing. Install it (sudo apt install python3-matplotlib) and run this with "
                 "/usr/bin/python3, or pip install matplotlib.")
    matplotlib.use("Agg")  # no window, no display
    from matplotlib import pyplot
    paths = [log_of(path) for path in arguments.runs]
    speed, title = not arguments.no_speed, arguments.title
    try:
        test = range_test(paths[0]) if len(paths) == 1 else None
        runs = [] if test else [read(path) for path in paths]
        for path, rows in zip(paths, runs):
            if not rows["train"] and not rows["evaluation"]:
                sys.exit(f"plot_run.py: {path} contains no steps yet. Wait for the run, or name another file.")
        figure = (draw_rates(test, title, pyplot) if test else
                  draw(runs[0], title, speed, pyplot) if len(runs) == 1 else
                  draw_several(arguments.runs, runs, title, speed, pyplot))
        picture = arguments.picture if os.path.splitext(arguments.picture)[1] else arguments.picture + ".png"
        beside = os.path.join(os.path.dirname(picture), f"tmp-{os.getpid()}-{os.path.basename(picture)}")
        figure.savefig(beside, dpi=130, bbox_inches="tight")
        os.replace(beside, picture)  # an existing picture is replaced as a whole
    except (OSError, ValueError) as error:
        sys.exit(f"plot_run.py: {error}. Name other files.")
    if test:
        print(f"{arguments.runs[0]}: {len(test['points'])} learning rates")
    for run, rows in zip(arguments.runs, runs):
        last = max((row["step"] for kind in ("train", "evaluation") for row in rows[kind]), default=0)
        print(f"{run}: {len(rows['train'])} training rows, {len(rows['evaluation'])} evaluations, up to step {last}")
    print(f"written {arguments.picture}")


if __name__ == "__main__":
    main()
