"""Processes of this namespace, and a thread that follows one command."""
import os
import pathlib
import re
import threading
import time


def load():
    """How many times slower this machine may be than without other work."""
    return max(1.0, os.getloadavg()[0] / os.cpu_count())


def status(pid):
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def processes():
    """All that run here, except this one, which is the first of its namespace."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
    return [pid for pid in pids if status(pid).get("State", "Z")[0] not in "ZX"]


def alive(pid, name):
    return status(pid).get("Name") == name


def mpirun_of(supervisor):
    try:
        children = pathlib.Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text(encoding="utf-8").split()
    except OSError:
        return 0
    return next((int(pid) for pid in children if alive(pid, "mpirun")), 0)


class Watch(threading.Thread):
    """Members: `mpirun` its process, 0 if there is none; `first` and `step` the first and the last one that it printed;
    `slowest` by fault: seconds from mpirun to the next step. `plain`: the process is mpirun itself."""

    def __init__(self, process, out, every, plain=False):
        super().__init__(daemon=True)
        self.process, self.every, self.fault, self.plain = process, every, "", plain
        self.mpirun, self.starts, self.first, self.step, self.slowest = 0, 0, 0, 0, {}
        self._began, self._file, self._done = 0.0, open(out, "r", encoding="utf-8", errors="replace"), threading.Event()
        self.evaluates, self._rest = False, ""
        self.start()

    def run(self):
        while not self._done.wait(0.01):
            self._look()
        self._file.close()

    def stop(self):
        self._done.set()
        if self.is_alive():
            self.join()

    def _look(self):
        pid = self.process.pid if self.plain else mpirun_of(self.process.pid)
        if pid not in (0, self.mpirun):
            self.starts += 1
            self._began = time.time()
        self.mpirun = pid
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        for line in lines:
            found = re.match(r"step (\d+)/", line)
            if not found:
                self.evaluates &= " evaluation:" not in line
                continue
            self.step = int(found[1])
            self.first = self.first or self.step
            self.evaluates = self.step % self.every == 0
            if self._began:
                seconds = time.time() - self._began
                self.slowest[self.fault] = max(seconds, self.slowest.get(self.fault, 0))
                self._began = 0

    def lasts(self, seconds):
        self._done.wait(seconds)
        return self.process.poll() is None

    def await_phase(self, phase, run_folder, random, seconds):
        """Returns in this phase of the command, or after its end."""
        end, starts, step = time.time() + seconds, self.starts, self.step + random.randint(1, 40)
        begins = {
            "start": lambda: self.starts > starts or starts <= 1 and self.step == 0,
            "step": lambda: self.step >= step or self._began == 0 and self.step < step - 40,
            "evaluation": lambda: self.evaluates,
            "saving": lambda: any(p.suffix != ".h5" for p in (run_folder / "checkpoints").glob("*")),
        }[phase]
        if phase != "step" and self.step > 0:
            end = time.time() + 2  # it may never come
        while self.process.poll() is None and not begins() and time.time() < end:
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.8 if phase == "start" else 0.02))
