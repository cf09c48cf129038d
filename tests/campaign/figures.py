#!/usr/bin/env python3
"""Measures lockstep_run on four test hosts: the walk of a new user, and the speed while a rank or a host dies again and again.

walk: a host is cut off, it returns after 20 s, then the host of rank 0 is cut off. goodput: every --every seconds a rank or
a host is killed; the host returns after 5 s. Both compare the weights with an undisturbed run.
"""
import argparse
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from campaign import HERE, Place, enter_namespaces
from watch import Watch, alive, processes

HEAD = 5  # the host of the supervisor has no ranks


class Measured:
    def __init__(self, place, name, slots, options):
        self.place, self.hosts, self.folder = place, place.hosts(5), place.folder / name
        (place.folder / "four").write_text("".join(f"192.0.2.{i} slots={slots}\n" for i in range(1, 5)))
        self.words = [*place.options(0, steps=1000000), "--checkpoint-every", "100", *options]
        self.err = place.folder / f"{name}.err"
        command = [place.build / "lockstep_run", "--restarts", "1000", "--hostfile", place.folder / "four",
                   place.build / "train_cifar", *self.words, "--run", self.folder]
        environment = {k: v for k, v in os.environ.items() if k not in ("OMPI_MCA_btl", "OMPI_MCA_pml")}
        out = place.folder / f"{name}.out"
        with open(out, "wb") as to, open(self.err, "wb") as errors:
            self.process = subprocess.Popen(self.hosts.command_on(HEAD, list(map(str, command))), stdout=to, stderr=errors,
                                            cwd=place.folder, env=environment | self.hosts.environment)
        self.watch = Watch(self.process, out, 7)

    def await_line(self, pattern, seconds=60):
        """Returns the seconds until a line of the supervisor matches. It ends the measurement if none does."""
        began = time.time()
        while time.time() < began + seconds and self.process.poll() is None:
            if re.search(pattern, self.err.read_text(errors="replace")):
                return time.time() - began
            time.sleep(0.02)
        sys.exit(f"no line matches {pattern}:\n{self.err.read_text(errors='replace')}")

    def await_step(self, step):
        while self.watch.step < step and self.process.poll() is None:
            time.sleep(0.02)

    def finish(self):
        """Stops the run and compares its weights with those of an undisturbed run on one rank."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait()
        last = max((self.folder / "checkpoints").glob("step-*.h5"))
        step = int(last.stem.removeprefix("step-"))
        whole = self.place.folder / f"whole-{self.folder.name}"
        subprocess.run([self.place.build / "train_cifar", *self.place.options(0, steps=step), *self.words[self.words.index("--checkpoint-every") + 2:],
                        "--run", whole], check=True, stdout=subprocess.DEVNULL)
        same = subprocess.run([sys.executable, HERE.parent / "apps/compare_checkpoints.py", last,
                               whole / "checkpoints" / last.name], check=False).returncode == 0
        print(self.err.read_text(errors="replace"))
        print(f"exit code {code} after step {step}; weights {'bitwise equal' if same else 'DIFFER'}")


def walk(place, _):
    run = Measured(place, "walk", 1, [])
    run.await_step(30)
    run.hosts.link(3, "down")
    print(f"lost host 3: trains again after {run.await_line('lost host 192.0.2.3 .*go on from'):.1f} s")
    time.sleep(20)
    run.hosts.link(3, "up")
    print(f"host 3 returns: used after {run.await_line('192.0.2.3 joins .*go on from'):.1f} s")
    run.await_step(run.watch.step + 50)
    run.hosts.link(1, "down")
    print(f"lost the host of rank 0: trains again after {run.await_line('lost host 192.0.2.1 .*go on from'):.1f} s")
    run.await_step(run.watch.step + 50)
    run.finish()


def kill_something(run, chance):
    if chance.random() < 0.5:
        os.kill(chance.choice([pid for pid in processes() if alive(pid, "train_cifar")]), signal.SIGKILL)
        return "rank"
    number = chance.randint(1, 4)
    run.hosts.link(number, "down")
    run.hosts.signal(number, signal.SIGKILL)
    time.sleep(5)
    run.hosts.link(number, "up")
    return "host"


def goodput(place, options):
    """Undisturbed is the median speed in the last ten seconds before each fault."""
    chance, run = random.Random(options.seed), Measured(place, "goodput", 2, ["--shares", "auto"])
    run.await_step(30)
    time.sleep(10)
    began, first, speeds, kinds = time.time(), run.watch.step, [], []
    while time.time() < began + options.seconds:
        before = run.watch.step
        time.sleep(10)
        speeds.append((run.watch.step - before) / 10)
        fault_at = time.time()
        kinds.append(kill_something(run, chance))
        time.sleep(max(0.0, options.every - 10 - (time.time() - fault_at)))
    seconds, steps, speed = time.time() - began, run.watch.step - first, statistics.median(speeds)
    lost = (1 - steps / (speed * seconds)) * seconds / len(kinds)
    print(f"{steps} steps in {seconds:.0f} s with {kinds.count('rank')} ranks and {kinds.count('host')} hosts killed: "
          f"{100 * steps / (speed * seconds):.1f} % of {speed:.1f} steps/s, {lost:.2f} s per fault, load {os.getloadavg()[0]:.1f}")
    run.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path, help="build folder")
    parser.add_argument("what", choices=("walk", "goodput"))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--every", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    enter_namespaces()
    with tempfile.TemporaryDirectory(prefix="lockstep-figures-") as folder:
        place = Place(options.build, pathlib.Path(folder))
        try:
            {"walk": walk, "goodput": goodput}[options.what](place, options)
        finally:
            subprocess.run(["umount", "-l", place.disk], check=False)


if __name__ == "__main__":
    main()
