#!/usr/bin/env python3
"""Trains one program with several values of its options, and compares the runs.

FILE.toml names the values. Each run has a folder in runs/NAME. Start the same command again to continue: complete runs are
kept, stopped and failed ones go on. Ctrl-C stops all runs after a checkpoint. docs/runs.md describes the file.
"""
import argparse
import dataclasses
import fcntl
import itertools
import json
import math
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
import zlib

if sys.version_info < (3, 11):
    sys.exit("sweep_runs: Python 3.11 or later is needed, because it reads TOML.")
import tomllib

USAGE, IN_USE, REQUEUE, MOST_RUNS = 2, 69, 75, 10000  # three exit codes (docs/troubleshooting.md)
HELD_SECONDS = 5  # until the next try of a run whose files another process uses
HERE = pathlib.Path(__file__).resolve().parent
# Options that the sweep sets, or that train nothing.
OWN = {"run", "new", "no-run", "check", "list", "summary", "find-lr", "help", "help-all", "version"}
REPEATED = {"fold", "seed", "split-seed"}  # runs that differ in nothing else repeat one experiment
FREE = {"run", "config", "threads", "checkpoint-every"}  # a complete run may have others
TOP = {"program": str, "name": str, "ranks": int, "at-once": int, "search": str, "runs": int, "seed": int,
       "options": dict, "sweep": dict, "slurm": dict}


class Number(float):
    """A number that prints as the file has it."""

    def __new__(cls, text):
        number = super().__new__(cls, text)
        number.text = text.replace("_", "")
        return number

    def __str__(self):
        return self.text


def plain(text):
    """Returns the text with ? for control characters, which a terminal would obey."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", "?", str(text))


def fail(text, code=USAGE):
    print(f"sweep_runs: {plain(text)}", file=sys.stderr)
    sys.exit(code)


def text_of(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def words_of(options):
    """Returns the command line of options: --name=value, and one for each element of a list."""
    return [f"--{name}={text_of(one)}" for name, value in options.items()
            for one in (value if isinstance(value, list) else [value])]


def read(file, parse):
    """Returns the table in a file; an empty one if the file is missing or damaged."""
    try:
        table = parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # the last: values that are too deep
        return {}
    return table if isinstance(table, dict) else {}


@dataclasses.dataclass
class Run:
    name: str  # "lr=0.1,momentum=0.9"
    folder: pathlib.Path
    options: dict

    def words(self):
        return [f"--run={self.folder}"] + words_of(self.options)

    def summary(self):
        return read(self.folder / "summary.json", json.loads)

    def complete(self):
        """Returns whether it ended with the options that the file has now, or with more steps."""
        summary = self.summary()
        used = summary.get("options") if isinstance(summary.get("options"), dict) else {}
        used = {**used, **{name: summary.get(name.replace("-", "_")) for name in ("steps", "shards") if not used.get(name)}}
        used["global-batch"] = summary.get("global_batch")  # that of a recipe fits the ranks

        def kept(name, value):
            now = used.get(name)
            longer = name in ("steps", "epochs") and all(isinstance(one, (int, float)) for one in (now, value)) and now > value
            return longer or now == value or words_of({name: now}) == words_of({name: value})

        def names(key):
            return set(map(str, summary[key])) if isinstance(summary.get(key), list) else set()
        # A config file and the recipe of the model may set others.
        more = set() if "config" in self.options else names("changed_options") - names("recipe_options")
        return summary.get("status") == "complete" and all(kept(name, self.options.get(name)) for name in {*self.options, *more} - FREE)

    def accuracy(self):
        """Returns the best accuracy of the evaluations during training and its step, or None. A loss of NaN does not count."""
        summary = self.summary()
        for key in ("best", "result"):
            found = summary.get(key)
            if isinstance(found, dict) and isinstance(found.get("top1"), float) and found.get("loss", 0) is not None:
                return found["top1"], found.get("step")
        return None

    def score(self):
        """Returns the name of what its best evaluation is best by, and the value; accuracy if a file does not name it."""
        best = self.summary().get("best")
        by, value = (best.get("by"), best.get("value")) if isinstance(best, dict) else (None, None)
        if isinstance(by, str) and isinstance(value, float):
            return by, value
        return "accuracy", self.accuracy()[0]

    def log(self):
        return self.folder.with_name(self.folder.name + ".log")


class Sweep:
    """The contents of FILE.toml. The constructor ends the program at the first mistake, with file and key."""

    def __init__(self, path):
        self.path = path
        try:
            table = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8"), parse_float=Number)
        except (OSError, ValueError, RecursionError) as error:
            fail(f"{path}: {error}. Correct the file.", 1 if isinstance(error, OSError) else USAGE)
        for key, value in table.items():
            kind = TOP.get(key)
            if kind is None:
                self.wrong(key, f"is unknown. Use {', '.join(TOP)}; options belong into [options] or [sweep]")
            if not isinstance(value, kind) or isinstance(value, bool):
                self.wrong(key, f"is not a {'table' if kind is dict else 'text' if kind is str else 'whole number'}")
            if kind is int and key != "seed" and not 1 <= value <= MOST_RUNS:
                self.wrong(key, f"is {value}. Use a number from 1 to {MOST_RUNS}")
        self.name = table.get("name", pathlib.Path(path).stem)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", self.name):
            self.wrong("name", f"is {self.name!r}. Use letters, digits, dots, dashes and underscores")
        self.at_once, self.limited = table.get("at-once", 1), "at-once" in table
        self.ranks = table.get("ranks", max(1, len(os.sched_getaffinity(0)) // self.at_once))
        self.slurm = table.get("slurm", {})
        self.program = find_program(table.get("program", "train_cifar"))
        self.options, self.values = table.get("options", {}), table.get("sweep", {})
        self.search = table.get("search", "grid")
        if self.search not in ("grid", "random"):
            self.wrong("search", f"is {self.search!r}. Use grid or random")
        if (self.search == "random") != ("runs" in table):
            self.wrong("runs", "is the number of random runs. Pass it with search = \"random\", and only then")
        if not self.values:
            self.wrong("sweep", "is missing. Add a table of options and their values, such as lr = [0.01, 0.1]")
        self.check_options()
        self.check_values()
        count = math.prod(map(len, self.values.values())) if self.search == "grid" else 0
        if count > MOST_RUNS:
            self.wrong("sweep", f"has {count} runs, and the limit is {MOST_RUNS}. Use fewer values, or search = \"random\"")
        self.runs = [self.run_of(choice) for choice in self.choices(table.get("runs"), table.get("seed", 1))]

    def wrong(self, key, text):
        fail(f"{self.path}: {key} {text}.")

    def check_options(self):
        # A program takes longer to start than to print the help of all options.
        known = subprocess.run([self.program, "--help-all"], capture_output=True, text=True, check=False).stdout
        known = set(re.findall(r"^ +(?:-\w,? ?)?--([\w-]+)", known, re.M))
        for table, options in (("options", self.options), ("sweep", self.values)):
            for name, value in options.items():
                key = f"{table}.{name}"
                if not re.fullmatch(r"\w[\w-]*", name):
                    self.wrong(key, "is no name of an option. Write it without dashes at its beginning, such as lr")
                if name in OWN:
                    self.wrong(key, "is not for a sweep. Remove it")
                if table == "sweep" and name in self.options:
                    self.wrong(key, "is in [options] too. Remove one of them")
                if name not in known:
                    self.require_option(key, name)
                if table == "options" and isinstance(value, dict):
                    self.wrong(key, "is a table. Use one value, or a list for an option that may occur several times")

    def require_option(self, key, name):
        asked = subprocess.run([self.program, "--help", name], capture_output=True, text=True, check=False)
        if asked.returncode or f"--{name}" not in asked.stdout:
            said = asked.stderr.strip().partition(": ")[2] or "it is no training program of Lockstep. Use another program"
            self.wrong(key, f"is no option of {self.program.name}: {said}".rstrip("."))

    def check_values(self):
        for name, value in self.values.items():
            key = f"sweep.{name}"
            if isinstance(value, list):
                if not value or any(isinstance(one, (list, dict)) for one in value):
                    self.wrong(key, "is not a list of values. Use at least one number or text, such as [0.01, 0.1]")
                if len(set(map(text_of, value))) < len(value):
                    self.wrong(key, "contains a value twice. Remove one of them")
                continue
            if not isinstance(value, dict):
                self.wrong(key, "is one value. Use a list, or move it to [options]")
            if self.search == "grid":
                self.wrong(key, "is a range. Use a list of values, or search = \"random\"")
            low, high = value.get("min"), value.get("max")
            numbers = all(isinstance(end, (int, float)) and not isinstance(end, bool) and abs(end) < 2**63 for end in (low, high))
            if set(value) - {"min", "max", "log"} or not numbers or low > high:
                self.wrong(key, "is no range. Use {min = 0.001, max = 1, log = true} with numbers")
            if value.get("log") and low <= 0:
                self.wrong(key, f"has log = true and min = {low}. Use a min above 0")

    def choices(self, count, seed):
        """Yields the values of each run. Random ones depend on the seed and the file only; equal ones occur once."""
        if self.search == "grid":
            yield from (dict(zip(self.values, one)) for one in itertools.product(*self.values.values()))
            return
        generator, seen = random.Random(seed), set()
        for _ in range(100 * count):
            choice = {name: drawn(value, generator) for name, value in self.values.items()}
            if len(seen) < count and repr(choice) not in seen:
                seen.add(repr(choice))
                yield choice

    def run_of(self, choice):
        text = ",".join(f"{option}={text_of(value)}" for option, value in choice.items())
        text = re.sub(r"=(\d+)/(\d+)(?=,|$)", r"=\1of\2", text)  # fold=2of5
        name = re.sub(r"[^A-Za-z0-9.,=+-]", "_", text)[:200]
        if name != text:  # another value may have the same name
            name += f"-{zlib.crc32(text.encode()):08x}"
        return Run(name, pathlib.Path("runs", self.name, name), self.options | choice)


def drawn(value, generator):
    if isinstance(value, list):
        return generator.choice(value)
    low, high = value["min"], value["max"]
    if value.get("log"):
        number = math.exp(generator.uniform(math.log(low), math.log(high)))
    else:
        number = generator.uniform(low, high)
    return round(number) if isinstance(low, int) and isinstance(high, int) else float(f"{number:.3g}")


def find_program(name, fallback=None):
    """Searches LOCKSTEP_BUILD, the folder of this program, the build folder of the repository, and PATH."""
    folders = [os.environ.get("LOCKSTEP_BUILD"), HERE, HERE.parent / "build", os.environ.get("PATH")]
    found = shutil.which(name, path=os.pathsep.join(str(folder) for folder in folders if folder)) or fallback
    if found is None:
        fail(f"the program {name} was not found. Build it, or set LOCKSTEP_BUILD to the build folder.")
    return pathlib.Path(found).absolute()


def environment():
    """Returns the environment of mpirun, as scripts/train.sh sets it. Values of the user stay."""
    more = {"OMPI_MCA_orte_execute_quiet": "1", "PRTE_MCA_prte_execute_quiet": "1", "OMPI_MCA_regx": "naive",
            "OMPI_MCA_hwloc_base_binding_policy": "none", "PRTE_MCA_hwloc_default_binding_policy": "none",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    if os.getuid() == 0:
        more |= {f"{mpi}_ALLOW_RUN_AS_ROOT{end}": "1" for mpi in ("OMPI", "PRTE") for end in ("", "_CONFIRM")}
    return more | os.environ


class Local:
    """Runs on this machine, `at_once` at a time, each on cores of its own."""

    def __init__(self, sweep):
        self.sweep, self.stopping, self.asked = sweep, 0, 0.0
        cores = sorted(os.sched_getaffinity(0))
        share = len(cores) // sweep.at_once
        self.slots = [cores[i * share:(i + 1) * share] or cores for i in range(sweep.at_once)]
        self.running = {}  # slot: (run, process, time of the start)
        self.held = {}  # name of a run whose files another process uses: when to try again
        self.ended, self.failed, self.reasons = [], [], []
        self.hopeless = False  # no other run is begun

    def command(self, run):
        launch = ["mpirun", "-np", str(self.sweep.ranks)] if self.sweep.ranks > 1 else []
        return launch + [str(self.sweep.program)] + run.words()

    def train(self, runs):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores it
                signal.signal(number, self.stop)
        self.lock(pathlib.Path("runs", self.sweep.name))
        waiting = list(runs)
        while self.running or (waiting and not self.stopping and not self.hopeless):
            for slot in range(len(self.slots)):
                ready = next((run for run in waiting if time.monotonic() >= self.held.get(run.name, 0)), None)
                if ready and not self.stopping and not self.hopeless and slot not in self.running:
                    waiting.remove(ready)
                    self.start(slot, ready)
            if self.stopping:
                self.ask()
            time.sleep(0.1)
            for slot, (run, process, begin) in list(self.running.items()):
                if process.poll() is not None:
                    del self.running[slot]
                    if not self.is_held(run, process.returncode):
                        self.report(run, process.returncode, time.monotonic() - begin)
                    elif not self.stopping:
                        waiting.append(run)
        if self.stopping:
            fail("stopped on request. The same command continues.", REQUEUE)

    def lock(self, folder):
        """Creates the folder and locks it until the end of this program. Another sweep there is an error."""
        folder.mkdir(parents=True, exist_ok=True)
        try:
            fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fail(f"another sweep trains in {folder}. Wait for it, or use another name.", 1)
        except OSError:
            pass  # a file system without locks; each run has a lock of its own

    def start(self, slot, run):
        if run.name not in self.held:
            self.tell(f"begins  {run.name}")
        cores = self.slots[slot]
        try:
            with open(run.log(), "a", encoding="utf-8") as log:
                # A session of its own, so that Ctrl-C reaches only this program.
                process = subprocess.Popen(self.command(run), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(),
                                           start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        except (OSError, ValueError) as error:
            self.failed.append(run)
            print(f"failed  {run.name}: {error}", flush=True)
            return
        self.running[slot] = run, process, time.monotonic()

    def tell(self, text):
        if not self.sweep.quiet:
            print(text, flush=True)

    def stop(self, *_):
        self.stopping += 1
        self.asked = 0.0

    def ask(self):
        """Asks for a checkpoint every 5 s, because ranks that start may miss it; from the second Ctrl-C on, ends the runs."""
        if time.monotonic() - self.asked < 5:
            return
        self.asked = time.monotonic()
        for _, process, _ in self.running.values():
            process.send_signal(signal.SIGUSR1 if self.stopping == 1 else signal.SIGTERM)

    def is_held(self, run, code):
        """Returns whether another process uses its files, as those of a sweep that was killed do. Then it is tried again later."""
        if code != IN_USE:
            return False
        if run.name not in self.held:
            print(f"waits   {run.name}: {reason_of(run)}", flush=True)
        self.held[run.name] = time.monotonic() + HELD_SECONDS
        return True

    def report(self, run, code, seconds):
        if code == 0:
            self.ended.append(run)
            self.tell(f"ended   {run.name}: {result_of(run)}, {seconds:.0f} s")
        elif self.stopping:
            self.tell(f"stopped {run.name}")
        else:
            reason = reason_of(run)
            print(f"failed  {run.name}: exit code {code}: {reason}", flush=True)
            # Two runs with wrong options or data, and none that trained: the others would fail too.
            if code in (2, 65) and reason in self.reasons and not any(run.complete() for run in self.sweep.runs):
                self.hopeless = True
                print("Two runs failed alike, so no other one begins.", flush=True)
            self.reasons.append(reason)
            self.failed.append(run)


def reason_of(run):
    lines = [line for line in run.log().read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"train_\w+: (?!note|warning)", line)]
    return plain((errors or lines or ["no output"])[-1])


def value_text(by, value):
    return f"{plain(by)} {value:.4f}" if by == "loss" else f"{plain(by)} {100 * value:.2f} %"


def result_of(run):
    found = run.accuracy()
    if not found:
        return "no evaluation"
    by, value = run.score()
    more = "" if by == "accuracy" else value_text(by, value) + ", "
    return f"{more}{value_text('accuracy', found[0])} at step {plain(found[1])}"


def compare(sweep, ended=(), failed=()):
    """Prints the table of `compare_runs`, what is missing, and the best run. ended, failed: runs that did so now."""
    complete = [run for run in sweep.runs if run in ended or run.complete()]
    begun = [run for run in sweep.runs if run.summary()]
    program = find_program("compare_runs", sweep.program.with_name("compare_runs"))
    if len(begun) > 1 and program.exists():
        sys.stdout.flush()
        subprocess.run([program] + [run.folder for run in begun], check=False)
    else:
        for run in begun:
            print(f"{result_of(run):<30} {run.name}")
    for run in sweep.runs:
        if run not in complete and run not in failed:
            status = plain(run.summary().get("status", "not begun"))
            print(f"missing {run.name}: {status}{' with other options' if status == 'complete' else ''}")
    known = [run for run in complete if run.accuracy()]
    if not known:
        return
    groups = show_means(sweep, known)
    if len(groups) == 1 and len(known) > 1:
        return  # no fold or seed is better than another
    name, runs = groups[0]
    best = runs[0]
    page = best.folder / "report.html"
    show = ["xdg-open", page] if page.exists() else [find_program("report_runs", "report_runs"), best.folder]
    print(f"best    {name}: the mean of {len(runs)} runs" if len(runs) > 1 else f"best    {best.name}: {result_of(best)}")
    print(f"        its report: {shlex.join(map(str, show))}")


def show_means(sweep, known):
    """Prints mean and standard deviation of the runs that repeat one experiment, the best experiment first.

    Returns the experiments in this order: name and runs, the best run first."""
    scores = {run.name: run.score() for run in known}
    alike = len({by for by, _ in scores.values()}) == 1
    by = scores[known[0].name][0] if alike else "accuracy"
    values = {run.name: scores[run.name][1] if alike else run.accuracy()[0] for run in known}
    sign = -1 if by == "loss" else 1
    groups = {}
    for run in known:
        choice = [f"{name}={text_of(run.options[name])}" for name in sweep.values if name not in REPEATED]
        groups.setdefault(plain(",".join(choice)) or sweep.name, []).append(run)
    for runs in groups.values():
        runs.sort(key=lambda run: -sign * values[run.name])
    ordered = sorted(groups.items(), key=lambda group: -sign * statistics.mean(values[run.name] for run in group[1]))
    for name, runs in ordered:
        if len(runs) > 1:
            numbers = [values[run.name] for run in runs]
            mean, spread = value_text(by, statistics.mean(numbers)), value_text(by, statistics.stdev(numbers))
            print(f"mean    {name}: {mean} +- {spread.removeprefix(plain(by)).strip()} of {len(runs)} runs")
    return ordered


def batch_script(sweep, runs):
    """Returns the text of a job array with one task per run. slurm/train_cifar.sbatch does the work of each."""
    places = (HERE.parent / "slurm", HERE.parent / "share/doc/lockstep/slurm")
    script = next((place / "train_cifar.sbatch" for place in places if (place / "train_cifar.sbatch").exists()), None)
    if script is None:
        fail(f"slurm/train_cifar.sbatch was found neither in {places[0]} nor in {places[1]}. Install Lockstep with its docs.")
    options = {"job-name": sweep.name, "array": f"1-{len(runs)}" + (f"%{sweep.at_once}" if sweep.limited else ""),
               "output": f"runs/{sweep.name}/task-%a.log", "open-mode": "append", "requeue": True, "signal": "B:USR1@120",
               "ntasks": sweep.ranks} | sweep.slurm
    lines = ["#!/bin/bash", f"# The runs of {sweep.path} as a job array, written by sweep_runs."]
    lines += [f"#SBATCH --{name}" + ("" if value is True else f"={value}") for name, value in options.items()]
    lines = [plain(line) for line in lines]  # a line break would begin a command
    lines.append(f"export LOCKSTEP_PROGRAM={shlex.quote(sweep.program.name)} LOCKSTEP_BUILD={shlex.quote(str(sweep.program.parent))}")
    lines.append("case $SLURM_ARRAY_TASK_ID in")
    lines += [f"  {i}) set -- {shlex.join(run.words())} ;;" for i, run in enumerate(runs, 1)]
    lines += ["esac", f"exec bash {shlex.quote(str(script.resolve()))} \"$@\"", ""]
    return "\n".join(lines)


def submit(sweep, runs, only_print):
    text = batch_script(sweep, runs)
    if only_print:
        print(text, end="")
        return
    file = pathlib.Path("runs", sweep.name, "sweep.sbatch")
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f"{file.name}.tmp-{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)
    try:
        code = subprocess.run(["sbatch", file], check=False).returncode
    except OSError as error:
        fail(f"cannot start sbatch: {error.strerror}. The script is {file}.", 1)
    if code:
        fail(f"sbatch refused {file} with exit code {code}. Correct [slurm] in {sweep.path}.", 1)
    print(f"{len(runs)} runs are submitted. When they have ended: {shlex.join([sys.argv[0], '--table', sweep.path])}")


def main():
    parser = argparse.ArgumentParser(prog="sweep_runs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE.toml", help="values of the options")
    parser.add_argument("--slurm", action="store_true", help="submit the runs as a SLURM job array")
    parser.add_argument("--print", action="store_true", help="print the commands, or the script of --slurm, and train nothing")
    parser.add_argument("--quiet", action="store_true", help="print only failed runs and the table")
    parser.add_argument("--table", action="store_true", help="compare the runs that are complete, and train nothing")
    arguments = parser.parse_args()
    sweep = Sweep(arguments.file)
    sweep.quiet = arguments.quiet
    runs = [run for run in sweep.runs if not run.complete()]
    if not arguments.print and not arguments.quiet:
        print(f"{sweep.name}: {len(sweep.runs)} runs in runs/{sweep.name}, {len(sweep.runs) - len(runs)} of them complete")
    local = Local(sweep)
    if arguments.table:
        compare(sweep)
    elif arguments.slurm and runs:
        submit(sweep, runs, arguments.print)
    elif arguments.print:
        print("\n".join(shlex.join(local.command(run)) for run in runs))
    else:
        local.train(runs)
        compare(sweep, local.ended, local.failed)
        if local.failed:
            names = ", ".join(run.name for run in sweep.runs if run in local.failed)
            fail(f"{len(local.failed)} of {len(sweep.runs)} runs failed: {names}. Their output is in runs/{sweep.name}/*.log.", 1)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # the reader left early, as head does; Python must not flush into the pipe again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as problem:
        fail(f"{problem.filename}: {problem.strerror}. Correct it, or use another name.", 1)
