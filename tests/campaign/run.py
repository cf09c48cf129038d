"""One try: a small run of lockstep_run, or of mpirun alone, with faults at random moments, and what must be true afterwards."""
import collections
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

from faults import ALWAYS, Missed
from watch import Watch, alive, load, processes

HERE = pathlib.Path(__file__).resolve().parent
SHARDS, STEPS, EVERY = 6, 300, 7
STRANGER = 12345  # a user
VARIANTS = (("--momentum", "0.9", "--ema", "0.9"), ("--optimizer", "adam", "--ema", "0"))
PHASES = ("start", "step", "evaluation", "saving")
PATIENCE = 60  # seconds for a moment or an end, on a machine without other work


class Failure(Exception):
    """The product did not keep a promise."""


class Run:
    """Uses `place`: the campaign's folder, build, data, hosts and references."""

    def __init__(self, place, seed, number, faults):
        self.place, self.hosts, self.faults = place, None, faults
        self.random = random.Random(f"{seed} {number}")
        self.folder = place.folder / f"try-{number}"
        self.folder.mkdir()
        self.disk = place.disk
        self.run_folder = self.disk / f"run-{number}"
        self.variant = self.random.randrange(len(VARIANTS))
        self.log = open(self.folder / "faults", "w", buffering=1, encoding="utf-8")
        self.lost, self.rank_hosts, self.home, self.plain = set(), set(), 0, False
        self.last, self.saved, self.repeated = 0, False, {}  # last step before an end; it was saved; by fault: steps repeated
        self.fired, self.process, self.watch, self.killed, self.ender = [], None, None, False, ""
        self.slowest = {}  # by fault: seconds of the slowest start after it
        self.ended = collections.Counter()  # by fault: commands that it ended

    # --- the command ---------------------------------------------------------------------------------------------------
    def choose(self, on_hosts):
        """The options that no weight depends on."""
        self.ranks, self.shares = self.random.choice((2, 2, 3, 4)), []
        if on_hosts:
            self.hosts, self.rank_hosts, self.home = self.place.hosts(), {1, 2, 3}, self.random.randint(1, 4)
            lines = [f"192.0.2.{i} slots={self.random.choice((1, 1, 2))}\n" for i in sorted(self.rank_hosts)]
            (self.folder / "hosts").write_text("".join(lines))
        self.options = ["--checkpoint-every", self.random.choice(("10", "50", "1000")), "--eval-every", str(EVERY),
                        "--reducer", self.random.choice(("auto", "direct"))]
        self.choose_shares()

    def choose_shares(self):
        if self.hosts:
            self.shares = ["--shares", self.random.choice(("equal", "auto"))]
            return
        self.ranks = self.random.choice((2, 2, 3, 4))
        borders = sorted(self.random.sample(range(1, SHARDS), self.ranks - 1))
        counts = [b - a for a, b in zip([0] + borders, borders + [SHARDS])]
        self.shares = ["--shares", self.random.choice(("equal", "auto", ",".join(map(str, counts))))]

    def command(self):
        words = ["mpirun"] if self.plain else [str(self.place.build / "lockstep_run"), "--restarts", "1000"]
        words += ["--hostfile", str(self.folder / "hosts")] if self.hosts else ["-np", str(self.ranks)]
        words += [str(self.place.build / "train_cifar"), *self.place.options(self.variant), *self.options, *self.shares,
                  "--timeout", "3", "--run", str(self.run_folder)]
        return self.hosts.command_on(self.home, words) if self.hosts else words

    def start(self):
        environment = {**os.environ, **self.place.environment, "CAMPAIGN_DISK": str(self.run_folder)}
        if self.hosts:
            environment = {k: v for k, v in environment.items() if k not in ("OMPI_MCA_btl", "OMPI_MCA_pml")}
            environment |= self.hosts.environment
        self.count = getattr(self, "count", 0) + 1
        out, err = self.folder / f"out-{self.count}", self.folder / f"err-{self.count}"
        command = self.command()
        self.log.write(f"{time.time():.2f} {' '.join(command)}\n")
        with open(out, "wb") as to, open(err, "wb") as errors:
            process = subprocess.Popen(command, cwd=self.place.folder, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=to, stderr=errors, start_new_session=True)
        return process, out, err

    def begin(self):
        self.process, out, self.err = self.start()
        self.watch = Watch(self.process, out, EVERY, self.plain)

    def start_second(self):
        """One of two supervisors must end because the other uses the folder."""
        first, first_watch, first_err = self.process, self.watch, self.err
        second, out, err = self.start()
        end = time.time() + PATIENCE * load()
        while first.poll() is None and second.poll() is None and time.time() < end:
            time.sleep(0.02)
        if first.poll() is None:
            loser, loser_err = second, err
        else:
            loser, loser_err = first, first_err
            first_watch.stop()
            self.process, self.watch, self.err = second, Watch(second, out, EVERY), err
        text = loser_err.read_text(errors="replace")
        if loser.returncode == 0 and loser is first:
            raise Missed  # it had trained to the end
        if loser.poll() is None or (loser.returncode, "in use" in text) not in ((69, True), (0, False)):
            raise Failure(f"two supervisors: exit code {loser.poll()}: {text[-300:]}")

    # --- what faults need ----------------------------------------------------------------------------------------------
    def a_rank(self):
        end = time.time() + 2
        while time.time() < end and self.process.poll() is None:
            pids = [pid for pid in processes() if alive(pid, "train_cifar")]
            if pids:
                return self.random.choice(pids)
            time.sleep(0.01)
        raise Missed

    def mpirun(self):
        if not self.watch.mpirun:
            raise Missed
        return self.watch.mpirun

    def supervisor(self):
        return self.process.pid

    def signal(self, pid, which):
        try:
            os.kill(pid, which)
        except ProcessLookupError:
            raise Missed from None
        self.killed |= pid == self.process.pid and which == signal.SIGKILL

    def pause(self, pids):
        for pid in pids:
            self.signal(pid, signal.SIGSTOP)
        time.sleep(self.random.uniform(0.05, 1))
        for pid in pids:
            with contextlib.suppress(Missed):
                self.signal(pid, signal.SIGCONT)

    def wait(self, seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    @contextlib.contextmanager
    def full(self, folder):
        filler = pathlib.Path(folder) / "campaign-filler"
        try:
            with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
            yield
        finally:
            filler.unlink(missing_ok=True)

    def step_clock(self, seconds, hosts=None):
        """The clock of this host, or of `hosts` (default: of one or of all), goes wrong in an instant and stays so."""
        names = [socket.gethostname()]
        if self.hosts:
            hosts = hosts or self.random.choice(([self.a_host()], self.hosts.numbers))
            names = [self.hosts.name(i) for i in hosts]
        for name in names:
            self.place.shift_clock(name, seconds)

    def give_memory_to_a_stranger(self):
        """The states in memory now belong to another user, who has changed them."""
        for path in pathlib.Path("/dev/shm").iterdir():
            if not path.is_dir():
                continue
            shutil.rmtree(path)
            if self.random.random() < 0.3:
                path.write_text("a stranger's file", encoding="utf-8")
            else:
                path.mkdir()
                (path / "step").write_text("000000000999999\n", encoding="utf-8")
                os.chmod(path, self.random.choice((0o700, 0o755, 0o777)))
                os.chown(path / "step", STRANGER, STRANGER)
            os.chown(path, STRANGER, STRANGER)

    @contextlib.contextmanager
    def failing_disk(self):
        mark = pathlib.Path(self.place.environment["CAMPAIGN_DISK_FAILS"])
        mark.touch()
        try:
            yield
        finally:
            mark.unlink()

    def a_host(self):
        return self.random.choice(sorted(self.rank_hosts | {self.home}))

    def lose_host(self, candidates):
        left = sorted(candidates - self.lost)
        if not left or len(self.rank_hosts - self.lost) < 2:
            raise Missed
        number = self.random.choice(left)
        self.lost.add(number)
        return number

    def expect_new_start(self):
        """The supervisor must start the ranks again, or end."""
        end, starts = time.time() + 20 * load(), self.watch.starts
        while self.process.poll() is None and self.watch.starts == starts:
            if time.time() > end:
                raise Failure("the ranks are not started again")
            time.sleep(0.02)

    def limit_link(self, *discipline):
        number = self.a_host()
        if why := self.hosts.limit(number, *discipline):
            self.place.skipped[discipline[0]] = why
            raise Missed
        time.sleep(self.random.uniform(0.5, 4))
        self.hosts.limit(number)

    # --- the try -------------------------------------------------------------------------------------------------------
    def inject(self):
        """Faults until the command ends, or gets no other one."""
        while self.faults and self.process.poll() is None:
            fault, phase = self.faults.pop(0), self.random.choice(PHASES)
            self.watch.await_phase(phase, self.run_folder, self.random, PATIENCE * load())
            if self.process.poll() is not None:
                break
            self.log.write(f"{time.time():.2f} {fault.name}, {phase}, step {self.watch.step}\n")
            self.watch.fault = fault.name
            self.fired.append(fault)
            try:
                fault.act(self)
            except Missed:
                self.fired.remove(fault)
                self.log.write("missed\n")
            else:
                if fault.last:
                    break

    def collect(self, fired):
        """The command must end by itself, with a code that these faults explain. Returns its code."""
        end = time.time() + (PATIENCE + 10 * len(fired)) * load()
        while self.process.poll() is None and time.time() < end:
            time.sleep(0.05)
        self.watch.stop()
        for name, seconds in self.watch.slowest.items():
            self.slowest[name] = max(seconds, self.slowest.get(name, 0))
        code, text = self.process.poll(), self.err.read_text(errors="replace")
        self.log.write(f"{time.time():.2f} ended with {code}\n")
        if code is None:
            raise Failure("it does not end")
        self.expect_no_work_lost()
        if self.watch.step:
            self.last = self.watch.step
            self.saved = "resumes there" in text or (code == 75 and "The same command continues" not in text)
        if self.plain and not self.watch.step and fired:
            return code  # ranks that start cannot save, and nothing is lost
        reasons = [f.ends[code] for f in fired if code in f.ends]
        if code != 0 and not (ALWAYS in text and len(fired) > 2) and not any(reason in text for reason in reasons):
            raise Failure(f"exit code {code}: {text[-600:]}")
        if code != 0 and fired:
            self.ended[next((f.name for f in reversed(fired) if code in f.ends), fired[-1].name)] += 1
        return code

    def expect_no_work_lost(self):
        """After a promise to resume, the same command goes on behind the last step. Counts the steps that others repeat."""
        if not self.watch.first or not self.last:
            return
        repeated = max(0, self.last + 1 - self.watch.first)
        if self.fired:
            name = self.ender
            self.repeated[name] = max(repeated, self.repeated.get(name, 0))
        if repeated and self.saved:
            raise Failure(f"{repeated} steps up to {self.last} are lost, although the command before promised to resume")

    def expect_nothing_left(self):
        end, left = time.time() + 8 * load(), []
        while time.time() < end and (left := processes()):
            time.sleep(0.05)
        if left:
            names = [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")[:80] for pid in left]
            raise Failure(f"processes are left: {names}")

    def carry_out(self):
        first = self.faults[0].place
        self.plain = first == "plain"
        self.choose(first == "hosts" or first == "both" and self.place.prefers_hosts(self.random))
        places = ("plain",) if self.plain else ("both", "hosts" if self.hosts else "one host")
        self.faults = [f for f in self.faults if f.place in places]
        code = None
        while code != 0:
            before, clean = len(self.fired), not self.faults
            self.begin()
            self.inject()
            code = self.collect(self.fired[before:])
            self.ender = self.fired[-1].name if self.fired else ""
            if self.hosts:
                self.hosts.heal()
            self.lost.clear()
            self.expect_nothing_left()
            self.expect_no_memory(code)
            if code != 0 and clean and not self.fired[before:]:
                raise Failure(f"exit code {code} without a fault")
        self.expect_same()

    def expect_no_memory(self, code):
        """A complete run leaves nothing in memory. Another one may leave its states, which the next start reads."""
        own = [path for path in pathlib.Path("/dev/shm").iterdir() if path.lstat().st_uid != STRANGER]
        left = [path.name for path in own if code == 0 or not path.is_dir()]
        if self.plain:  # mpirun leaves memory of MPI
            left = [name for name in left if code == 0 and name.startswith("lockstep")]
        if left and not self.killed:
            raise Failure(f"exit code {code}, and /dev/shm contains {left}")
        self.killed = self.killed and code != 0

    def expect_same(self):
        name = f"checkpoints/step-{STEPS:010d}.h5"
        done = subprocess.run([sys.executable, HERE.parent / "apps/compare_checkpoints.py",
                               self.place.reference(self.variant) / name, self.run_folder / name],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failure(f"other weights: {done.stderr}")
        steps = [line["step"] for line in map(json.loads, open(self.run_folder / "metrics.jsonl", encoding="utf-8"))
                 if line["kind"] == "train"]
        if steps != list(range(1, STEPS + 1)):
            raise Failure(f"metrics.jsonl has {len(steps)} steps, {len(set(steps))} of them different")

    def close(self):
        """Ends everything and removes all files."""
        if self.watch:
            self.watch.stop()
        self.place.set_clocks_right()
        if self.hosts:
            self.hosts.heal()
        for pid in processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for path in pathlib.Path("/dev/shm").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.log.close()
        if self.run_folder.exists():
            shutil.rmtree(self.run_folder)
        shutil.rmtree(self.folder)
