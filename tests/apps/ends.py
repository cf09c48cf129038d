#!/usr/bin/env python3
"""Walks the table of docs/ends.md: each row is an end that this test brings about, and then the same command must continue.

For each row it compares the exit code, the words of the message and what is kept: `checkpoint`: of the last finished step; `state`:
the same command resumes at most one second (or one step) before the end; `complete`: the run trains to its end by itself. The
final weights are bitwise those of a run without an end, and metrics.jsonl has each step once. Rows of ends that need several hosts or SLURM name the test that has them.
Without ROW-REGEX it walks the first row of each kind. `.` walks all.
usage: ends.py BUILD_FOLDER FOLDER [ROW-REGEX]
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import h5py

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 110
SECOND = 1.5  # and some time for a busy machine
OPTIONS = f"""model = "resnet_small"
global-batch = 64
threads = 1
log-every = 1
eval-every = 0
summary-every = 0
checkpoint-every = 1000000
steps = {STEPS}
"""
SIGNALS = {name: getattr(signal, "SIG" + name) for name in ("INT", "TERM", "HUP", "USR1", "KILL")}


def rows():
    """The cells of the rows of the tables of docs/ends.md, by the first two."""
    for line in (ROOT / "docs/ends.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 6 and not set(cells[0]) <= set("-") and cells[0] != "started by":
            yield cells


def weights(file):
    with h5py.File(file) as f:
        values = {}
        f.visititems(lambda name, item: values.__setitem__(name, item[()].tobytes()) if hasattr(item, "shape") else None)
        return values


def kind(row):
    launcher, text, code, kept, _, _ = row
    return launcher, text.startswith("two "), code, kept


def memory_of(run):
    """The folders of `run` in memory. Other runs may remove theirs meanwhile."""
    for file in pathlib.Path("/dev/shm").glob("lockstep-run-*/run"):
        try:
            if file.read_text() == str(run):
                yield file.parent
        except OSError:
            pass


class Run:
    """One command, started in a folder of its own."""

    def __init__(self, build, folder, launcher, more=(), disk=None):
        self.build, self.folder = build, folder
        folder.mkdir(parents=True)
        (folder / "options.toml").write_text(OPTIONS)
        self.place = pathlib.Path(disk or folder) / "run"
        program = [str(build / "train_cifar"), "--config", "options.toml", "--run", str(self.place)]
        start = {"mpirun": ["mpirun", "-np", "2"], "lockstep_run": [str(build / "lockstep_run"), "-np", "2", *more]}[launcher]
        self.words = start + program
        self.launcher = launcher

    def start(self, environment=None):
        self.out = open(self.folder / "out", "w")
        self.err = open(self.folder / "err", "w")
        self.process = subprocess.Popen(self.words, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err,
                                        start_new_session=True, env={**os.environ, **(environment or {})})

    def wait(self, seconds=150):
        code = self.process.wait(timeout=seconds)
        return code if code >= 0 else 128 - code

    def text(self, name):
        return (self.folder / name).read_text(errors="replace").replace("\0", "")

    def step(self):
        found = re.findall(r"^step (\d+)/", self.text("out"), re.M)
        return int(found[-1]) if found else 0

    def await_step(self, least, seconds=120):
        end = time.monotonic() + seconds
        while self.step() < least:
            assert self.process.poll() is None, f"it ended: {self.text('err')}"
            assert time.monotonic() < end, "it does not train"
            time.sleep(0.02)

    def processes(self):
        """pid -> "supervisor", "mpirun" or "rank", for all that live."""
        parents, names = {}, {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                stat = (entry / "stat").read_text()
                if stat.rsplit(")", 1)[1].split()[0] == "Z":
                    continue
                parents[int(entry.name)] = int(stat.rsplit(")", 1)[1].split()[1])
                names[int(entry.name)] = stat[stat.index("(") + 1 : stat.rindex(")")]
            except OSError:
                pass
        kinds = {"lockstep_run": "supervisor", "mpirun": "mpirun", "orterun": "mpirun", "prterun": "mpirun", "train_cifar": "rank"}
        mine, grown = {self.process.pid}, True
        while grown:
            more = {pid for pid, parent in parents.items() if parent in mine} - mine
            grown = bool(more)
            mine |= more
        return {pid: kinds[names[pid]] for pid in mine if names.get(pid) in kinds}

    def pids(self, kind):
        return sorted(pid for pid, name in self.processes().items() if kind in (name, "all"))

    def send(self, name, kind, count=None):
        for pid in self.pids(kind)[:count]:
            try:
                os.kill(pid, SIGNALS[name])
            except ProcessLookupError:
                pass

    def gone(self, pids, seconds=15):
        end = time.monotonic() + seconds
        while any(pathlib.Path(f"/proc/{pid}/exe").exists() for pid in pids):
            assert time.monotonic() < end, "processes of the run remain"
            time.sleep(0.02)


def event(run, text):
    """Brings the event of a row about. Returns the number of the last step that was finished one second before."""
    match = re.fullmatch(r"(two )?SIG(\w+) to (a rank|all ranks|mpirun|lockstep_run|all processes)", text)
    pids = run.pids("all")
    run.history = []
    end = time.monotonic() + SECOND + 0.5
    while time.monotonic() < end and run.step() < 0.7 * STEPS:
        run.history.append((time.monotonic(), run.step()))
        time.sleep(0.02)
    if match:
        twice, name, to = match.groups()
        kind, count = {"a rank": ("rank", 1), "all ranks": ("rank", None), "mpirun": ("mpirun", None),
                       "lockstep_run": ("supervisor", None), "all processes": ("all", None)}[to]
        at = time.monotonic()
        run.send(name, kind, count)
        if twice:
            time.sleep(0.05)
            run.send(name, kind, count)
    elif text == "a full disk":
        at = time.monotonic()
        fill(run.place.parent)
        run.await_step(run.step() + 10)  # their lines wait in memory, and in its states
        time.sleep(0.5)
        at = time.monotonic()
        run.send("USR1", "rank", 1)
    else:
        raise AssertionError(f"no test brings this about: {text}")
    run.all_pids = pids
    return max((step for when, step in run.history if when <= at - SECOND), default=0)


def fill(disk):
    with open(disk / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass


def check(build, folder, row, whole):
    launcher, text, code, kept, says, _ = row
    launcher = launcher.strip("`")
    disk, more = None, ()
    if text == "a full disk":
        disk = folder / "disk"
        disk.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "ends", str(disk)], check=True)
    if text.endswith(" with --restarts 0"):
        more = ("--restarts", "0")
    try:
        run = Run(build, folder / "case", launcher, more, disk)
        run.start()
        run.await_step(20)
        before = event(run, text.removesuffix(" with --restarts 0"))
        ended = run.wait()
        run.gone(run.all_pids)
        assert str(ended) in re.findall(r"\d+", code), f"exit code {ended}, not {code}"
        error = run.text("err")
        for words in re.findall(r"`([^`]+)`", says):
            assert words in error + run.text("out"), f"it does not say '{words}'"
        promised = "stopped on request after" in error or " saved " in run.text("out")
        files = sorted((run.place / "checkpoints").glob("step-*.h5"))
        assert not promised or files, "a checkpoint was promised"
        last = run.step()
        if kept == "complete":
            assert files and files[-1].name == f"step-{STEPS:010}.h5", f"it is not complete: {files}"
        else:
            if disk:
                (disk / "filler").unlink()
            run.start()
            assert run.wait() == 0, f"the same command: {run.text('err')}"
            resumed = int((re.findall(r"^resumed .*?step-0*(\d+)\.h5", run.text("out"), re.M) or [0])[0])
            least = last if kept == "checkpoint" else before
            assert resumed >= least, f"it resumed at step {resumed}, {last} was done, {before} one second before"
        assert weights(run.place / f"checkpoints/step-{STEPS:010}.h5") == whole, "other weights"
        lines = [json.loads(line) for line in (run.place / "metrics.jsonl").read_text().splitlines()]
        logged = [line["step"] for line in lines if line["kind"] == "train"]
        assert logged == list(range(1, STEPS + 1)), f"metrics.jsonl has steps {logged}"
        memory = list(memory_of(run.place))
        assert not memory, f"memory remains: {memory}"
    finally:
        if disk:
            subprocess.run(["umount", "-l", str(disk)], check=True)


def main():
    build, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    chosen = sys.argv[3] if len(sys.argv) > 3 else ""
    whole = Run(build, folder / "whole", "mpirun")
    whole.start()
    assert whole.wait(120) == 0, whole.text("err")
    reference = weights(whole.place / f"checkpoints/step-{STEPS:010}.h5")
    failures, count, kinds = 0, 0, set()
    for number, row in enumerate(rows()):
        if not re.search(chosen, " ".join(row)) or (not chosen and kind(row) in kinds):
            continue
        kinds.add(kind(row))
        count += 1
        test = re.search(r"`tests/([^`]+)`", row[5])
        try:
            if test:
                assert (ROOT / "tests" / test[1]).exists(), f"there is no {test[1]}"
            else:
                check(build, folder / str(number), row, reference)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failures += 1
            print(f"FAILED: {' | '.join(row)}\n    {error}")
    print(f"ends: {count} rows, {failures} failures")
    return 1 if failures or count < (1 if chosen else 12) else 0


if __name__ == "__main__":
    sys.exit(main())
