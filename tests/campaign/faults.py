"""The kinds of faults. Each acts on a Run (run.py) at a random moment of a random phase."""
import contextlib
import dataclasses
import signal
import subprocess
import time
import typing

from watch import processes

KILLED = -signal.SIGKILL


class Missed(Exception):
    """The moment has passed: there is nothing to harm."""


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    act: typing.Callable
    place: str  # the runs that can have it: "one host", "hosts", "both", or "plain": mpirun without lockstep_run
    ends: dict  # exit codes of the command that may follow, each with words of its reason
    last: bool  # the command gets no other fault after it


class AnyEnd(dict):
    """Every exit code. mpirun passes on what it likes if a part of it is killed."""

    def __contains__(self, code):
        return True

    def __getitem__(self, code):
        return ""


FAULTS = []
PLAIN = "mpirun alone, "  # begins the names of faults of runs without lockstep_run
ANY = AnyEnd({1: ""})
# Three failures in a row without another step may end any run.
ALWAYS = "failures without another finished step"
NONE_LEFT = {67: "--min-np"}
STOPPED = {75: "stop requested"}
PLAIN_STOPPED = {75: "", 1: "resumes"}  # mpirun that gets the signal too returns 1


def fault(name, place="both", ends=None, last=False, plain=None):
    """Registers a kind of fault, and the same kind for runs of mpirun alone if `plain` has the codes that may follow there."""
    def add(act):
        FAULTS.append(Fault(name, act, place, ends or {}, last))
        if plain is not None:
            FAULTS.append(Fault(PLAIN + name, act, "plain", plain, last or bool(plain)))
        return act
    return add


@fault("rank: SIGKILL", plain=ANY)
def _(run):
    run.signal(run.a_rank(), signal.SIGKILL)


@fault("rank: SIGSTOP, SIGCONT", plain={68: ""})
def _(run):
    run.pause([run.a_rank()])


@fault("rank: SIGSTOP for good", plain=ANY)
def _(run):
    run.signal(run.a_rank(), signal.SIGSTOP)


@fault("rank: SIGTERM", ends={75: "stopped"}, last=True, plain=PLAIN_STOPPED)
def _(run):
    run.signal(run.a_rank(), signal.SIGTERM)


@fault("mpirun: SIGKILL", plain=ANY)
def _(run):
    run.signal(run.mpirun(), signal.SIGKILL)


@fault("mpirun: SIGSTOP, SIGCONT")
def _(run):
    run.pause([run.mpirun()])


@fault("mpirun: SIGTERM", ends={1: "before the first step"}, last=True, plain=PLAIN_STOPPED)
def _(run):
    run.signal(run.mpirun(), signal.SIGTERM)


@fault("supervisor: SIGKILL", ends={KILLED: ""}, last=True)
def _(run):
    run.signal(run.supervisor(), signal.SIGKILL)


@fault("supervisor: SIGSTOP, SIGCONT")
def _(run):
    run.pause([run.supervisor()])


@fault("supervisor: SIGTERM", ends={75: "stop requested"}, last=True)
def _(run):
    run.signal(run.supervisor(), signal.SIGTERM)


@fault("supervisor: SIGTERM twice", ends={75: "stop requested", 143: "stop requested"}, last=True)
def _(run):
    run.signal(run.supervisor(), signal.SIGTERM)
    time.sleep(run.random.uniform(0, 0.3))
    run.signal(run.supervisor(), signal.SIGTERM)


def signal_all(run, which):
    """As a batch system ends a job: each process of the run gets the signal, in any order."""
    pids = processes()
    run.random.shuffle(pids)
    for pid in pids:
        with contextlib.suppress(Missed):
            run.signal(pid, which)


for _which in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    fault(f"every process: {_which.name}", ends=STOPPED, last=True, plain=PLAIN_STOPPED)(
        lambda run, which=_which: signal_all(run, which))

# The second signal ends the run at once, if it reaches a process that still runs.
for _first, _second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT), (signal.SIGHUP, signal.SIGTERM),
                        (signal.SIGUSR1, signal.SIGTERM)):
    @fault(f"every process: {_first.name}, {_second.name}", ends={**STOPPED, 130: STOPPED[75], 143: STOPPED[75]}, last=True,
           plain=ANY)
    def _(run, first=_first, second=_second):
        signal_all(run, first)
        time.sleep(run.random.uniform(0, 0.3))
        signal_all(run, second)


@fault("every process: SIGKILL", ends={KILLED: ""}, last=True, plain=ANY)
def _(run):
    signal_all(run, signal.SIGKILL)


@fault("two supervisors")
def _(run):
    run.start_second()


@fault("other shares after a stop", place="one host", ends={75: "stop requested"}, last=True)
def _(run):
    run.signal(run.supervisor(), signal.SIGUSR1)
    run.choose_shares()


@fault("busy loop on a core", place="one host")
def _(run):
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as loop:
        try:
            time.sleep(run.random.uniform(0.3, 2))
        finally:
            loop.kill()


# Open MPI too has memory there. Its start fails without it, and a rank that writes into it ends by SIGBUS.
@fault("/dev/shm full", place="one host", ends={1: "failed before the first step"}, plain={1: "", 135: ""})
def _(run):
    with run.full("/dev/shm"):
        time.sleep(run.random.uniform(0.2, 1.5))


@fault("/dev/shm full, every process: SIGTERM", place="one host", ends=STOPPED, last=True, plain=PLAIN_STOPPED)
def _(run):
    with run.full("/dev/shm"):
        signal_all(run, signal.SIGTERM)
        run.wait(30)


@fault("/dev/shm: a stranger's folder", place="one host", ends={KILLED: ""}, last=True, plain=ANY)
def _(run):
    signal_all(run, signal.SIGKILL)
    run.wait(30)
    run.give_memory_to_a_stranger()


@fault("disk full, every process: SIGTERM", place="one host", ends={74: "No space left", **STOPPED}, last=True,
       plain={74: "No space left", 75: "", 1: "No space left"})
def _(run):
    with run.full(run.disk):
        signal_all(run, signal.SIGTERM)
        run.wait(30)


@fault("disk full", place="one host", ends={74: "No space left"}, last=True, plain={74: "No space left"})
def _(run):
    with run.full(run.disk):
        run.wait(run.random.choice((0.2, 30)))


@fault("disk: EIO", place="one host", ends={74: "Input/output error"}, last=True, plain={74: "Input/output error"})
def _(run):
    with run.failing_disk():
        run.wait(run.random.choice((0.1, 30)))


HOUR = 3600


@fault("clock: an hour back", plain={})
def _(run):
    run.step_clock(-HOUR)


@fault("clock: an hour ahead", plain={})
def _(run):
    run.step_clock(HOUR)


@fault("clock: an hour back, host frozen", place="hosts", ends=NONE_LEFT)
def _(run):
    run.step_clock(-HOUR, [run.home])
    run.hosts.freeze(run.lose_host(run.rank_hosts - {run.home}))
    run.expect_new_start()


@fault("host: cut off", place="hosts", ends=NONE_LEFT)
def _(run):
    run.hosts.link(run.lose_host(run.rank_hosts), "down")


@fault("host: cut off, returns", place="hosts", ends=NONE_LEFT)
def _(run):
    number = run.a_host()
    run.hosts.link(number, "down")
    time.sleep(run.random.uniform(0.1, 8))
    run.hosts.link(number, "up")


@fault("host: frozen", place="hosts", ends=NONE_LEFT)
def _(run):
    run.hosts.freeze(run.lose_host(run.rank_hosts - {run.home}))


@fault("host: frozen, returns", place="hosts", ends=NONE_LEFT)
def _(run):
    number = run.a_host()
    run.hosts.freeze(number)
    time.sleep(run.random.uniform(0.1, 8))
    run.hosts.thaw(number)


@fault("link: slow, lossy (tbf)", place="hosts", ends=NONE_LEFT)
def _(run):
    rate, queue = run.random.choice((1, 5, 20)), run.random.choice((6, 20, 200))
    run.limit_link("tbf", "rate", f"{rate}mbit", "burst", "5kb", "limit", f"{queue}kb")


@fault("link: loss and delay (netem)", place="hosts", ends=NONE_LEFT)
def _(run):
    loss, delay = run.random.choice((0, 1, 5, 20)), run.random.choice((0, 1, 20))
    run.limit_link("netem", "loss", f"{loss}%", "delay", f"{delay}ms")
