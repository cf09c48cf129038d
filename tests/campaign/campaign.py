#!/usr/bin/env python3
"""Fault injection: many small runs of lockstep_run, and of mpirun alone, with faults at random moments.

Each run must complete with weights that are bitwise those of an undisturbed run, or end with the named reason; then the same
command must complete. At the end a table lists the kinds of faults. Needs root, because each campaign has its own
namespaces of processes, mounts and hosts: it ends no other process and leaves nothing. Needs h5py for the comparison.
"""
import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

from faults import FAULTS
from hosts import Hosts
from run import SHARDS, STEPS, VARIANTS, Failure, Run
from watch import load

HERE = pathlib.Path(__file__).resolve().parent
INSIDE = "LOCKSTEP_CAMPAIGN_INSIDE"  # set in the namespaces
SKIPPED = 77


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="build folder")
    parser.add_argument("--seed", type=int, default=1, help="of all choices")
    parser.add_argument("--faults", type=int, default=1000, help="ends after as many")
    parser.add_argument("--minutes", type=float, default=1e6, help="ends after as many")
    parser.add_argument("--most-failures", type=int, default=20, help="ends after as many failed tries")
    parser.add_argument("--only", type=int, metavar="TRY", help="repeats this try")
    parser.add_argument("--kinds", default="", metavar="REGEX", help="only these kinds of faults")
    parser.add_argument("--slow", type=float, default=3, help="longest start in s; longer on a machine with other work")
    parser.add_argument("--logs", type=pathlib.Path, default=pathlib.Path("campaign-logs"), help="folder for failed tries")
    return parser.parse_args()


def enter_namespaces():
    """Starts this program again as the first process of its own namespaces."""
    if os.environ.get(INSIDE):
        for folder, size in (("/dev/shm", "128m"), ("/run/netns", "1m")):
            os.makedirs(folder, exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "campaign", folder], check=True)
        return
    words = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    try:
        subprocess.run([*words, "true"], check=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        print("skipped: no namespaces can be made here (root, unshare)")
        sys.exit(SKIPPED)
    os.environ[INSIDE] = "1"
    os.execvp(words[0], [*words, sys.executable, *sys.argv])


class Place:
    """The programs, data, hosts and references of all tries."""

    def __init__(self, build, folder):
        self.build, self.folder = build.resolve(), folder
        self.disk = folder / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "campaign", self.disk], check=True)
        self.skipped, self._hosts = {}, None
        self.environment = {"CAMPAIGN_DISK_FAILS": str(folder / "disk-fails"), "CAMPAIGN_CLOCK": str(folder / "clock"),
                            "TMPDIR": str(folder), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
                            # as in the tests (tests/CMakeLists.txt): faster starts, and ranks that wait leave their cores
                            "OMPI_MCA_btl": "^tcp,ofi", "OMPI_MCA_pml": "ob1", "OMPI_MCA_mpi_yield_when_idle": "1"}
        self._build_libraries("failing_disk", "shifted_clock")
        self.clocks = {name: folder / f"clock-{name}" for name in [socket.gethostname(), *map(Hosts.name, range(1, 5))]}
        self.set_clocks_right()
        subprocess.run([sys.executable, HERE.parent / "apps/small_data.py", folder / "data"], check=True)

    def _build_libraries(self, *names):
        libraries = [str(self.folder / f"{name}.so") for name in names]
        try:
            for name, library in zip(names, libraries):
                words = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", HERE / f"{name}.c", "-o", library, "-ldl"]
                subprocess.run(words, check=True, capture_output=True)
            self.environment["LD_PRELOAD"] = ":".join(libraries)
        except (OSError, subprocess.CalledProcessError):
            self.skipped |= {f.name: "no C compiler" for f in FAULTS if re.search("EIO|clock", f.name)}

    def set_clocks_right(self):
        for path in self.clocks.values():
            if not path.exists():
                path.write_bytes(bytes(8))
        for name in self.clocks:
            self.shift_clock(name, 0)

    def shift_clock(self, name, seconds):
        """The clock of this host is wrong by so many seconds. Processes have mapped the file."""
        with open(self.clocks[name], "r+b", buffering=0) as file:
            file.write(struct.pack("q", seconds))

    def options(self, variant, steps=STEPS):
        return ["--dataset", "hdf5", "--data", str(self.folder / "data/small"), "--model", "resnet_small", "--global-batch",
                str(4 * SHARDS), "--shards", str(SHARDS), "--steps", str(steps), "--threads", "1", "--log-every", "1",
                "--summary-every", "0", "--verbose", *VARIANTS[variant]]

    def reference(self, variant):
        """The folder of an undisturbed run."""
        folder = self.folder / f"undisturbed-{variant}"
        if not folder.exists():
            words = [self.build / "train_cifar", *self.options(variant), "--eval-every", "0", "--run", folder]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        return folder

    def hosts(self, count=4):
        self._hosts = self._hosts or Hosts(self.folder, count)
        return self._hosts

    def has_hosts(self):
        why_not = self.hosts().why_not
        if why_not:
            self.skipped["hosts"] = why_not
        return not why_not

    def prefers_hosts(self, chance):
        return self.has_hosts() and chance.random() < 0.15


class Campaign:
    def __init__(self, options, place):
        self.options, self.place, self.began = options, place, time.time()
        self.kinds = [f for f in FAULTS if re.search(options.kinds, f.name) and f.name not in place.skipped]
        if not place.has_hosts():
            self.kinds = [f for f in self.kinds if f.place != "hosts"]
        random.Random(options.seed).shuffle(self.kinds)
        self.rows = {f.name: collections.Counter() for f in self.kinds}
        self.failures = 0

    def faults_of(self, number):
        """The faults of a try. Each kind comes first in turn; others that the run can have follow."""
        chance = random.Random(f"{self.options.seed} faults {number}")
        first = self.kinds[number % len(self.kinds)]
        places = ("plain",) if first.place == "plain" else ("both", first.place)
        others = [f for f in self.kinds if f.place in places]
        return [first, *chance.choices(others, k=chance.randint(0, 9))]

    def carry_out(self, number):
        run = Run(self.place, self.options.seed, number, self.faults_of(number))
        failed = ""
        try:
            run.carry_out()
        except Failure as failure:
            failed = str(failure)
        except Exception:  # of the campaign
            failed = traceback.format_exc()
        limit = self.options.slow * load()
        for name, seconds in run.slowest.items():
            if seconds > limit and not failed:
                failed = f"a start after \"{name}\" took {seconds:.1f} s"
        self.count(run, failed, number)
        run.close()

    def count(self, run, failed, number):
        for fault in run.fired:
            row = self.rows[fault.name]
            row["tries"] += 1
            row["ended"] += run.ended[fault.name] > 0
            run.ended[fault.name] -= 1
        for name, steps in run.repeated.items():
            self.rows[name]["repeated"] = max(self.rows[name]["repeated"], steps)
        for name, seconds in run.slowest.items():
            if name in self.rows:
                self.rows[name]["slowest"] = max(self.rows[name]["slowest"], seconds)
        if not failed:
            return
        self.failures += 1
        last = run.fired[-1].name if run.fired else ""
        if last in self.rows:
            self.rows[last]["failed"] += 1
            self.rows[last].setdefault("seed", f"{self.options.seed} --only {number}")
        logs = self.options.logs.resolve() / f"seed-{self.options.seed}-try-{number}"
        shutil.copytree(run.folder, logs, dirs_exist_ok=True)
        if run.run_folder.exists():
            shutil.copytree(run.run_folder, logs / "run", dirs_exist_ok=True)
        kinds = f" --kinds '{self.options.kinds}'" if self.options.kinds else ""
        print(f"FAILED: seed {self.options.seed}, try {number}, last fault \"{last}\": {failed}\n"
              f"  logs: {logs}\n"
              f"  repeat: {HERE / 'campaign.py'} {self.options.build} --seed {self.options.seed} --only {number}{kinds}", flush=True)

    def fired(self):
        return sum(row["tries"] for row in self.rows.values())

    def is_over(self):
        late = time.time() - self.began > 60 * self.options.minutes
        return late or self.fired() >= self.options.faults or self.failures >= self.options.most_failures

    def run(self):
        number = self.options.only or 0
        try:
            while not self.is_over():
                self.carry_out(number)
                number += 1
                print(f"{time.time() - self.began:5.0f} s: {number} tries, {self.fired()} faults, {self.failures} failed", flush=True)
                if self.options.only is not None:
                    break
        finally:
            self.print_table()

    def print_table(self):
        print(f"\n{'fault':52} {'tries':>5} {'survived':>8} {'ended':>5} {'failed':>6} {'slowest start/s':>15}"
              f" {'most steps repeated':>19}  first failure")
        for name, row in self.rows.items():
            survived = max(0, row["tries"] - row["ended"] - row["failed"])
            print(f"{name:52} {row['tries']:5} {survived:8} {row['ended']:5} {row['failed']:6} {row['slowest']:15.2f}"
                  f" {row['repeated']:19}  {row.get('seed', '')}")
        for name, why in self.place.skipped.items():
            print(f"skipped: {name}: {why}")
        print(f"{self.fired()} faults, {self.failures} failed tries, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, "
              f"{time.time() - self.began:.0f} s")


def main():
    options = arguments()
    enter_namespaces()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="lockstep-campaign-") as folder:
        place = Place(options.build, pathlib.Path(folder))
        try:
            campaign = Campaign(options, place)
            campaign.run()
        finally:
            subprocess.run(["umount", "-l", place.disk], check=False)
    sys.exit(1 if campaign.failures else 0)


if __name__ == "__main__":
    main()
