"""The kinds of faults. Each acts on a Run (run.py) at a random moment of a random phase."""
import dataclasses
import signal
import subprocess
import time
import typing

KILLED = -signal.SIGKILL


class Missed(Exception):
    """The moment has passed: there is nothing to harm."""


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    act: typing.Callable
    place: str  # "one host", "hosts" or "both": the runs that can have it
    ends: dict  # exit codes of lockstep_run that may follow, each with words of its reason
    last: bool  # the command gets no other fault after it


FAULTS = []
# Three failures in a row without another step may end any run.
ALWAYS = "failures without another finished step"
NONE_LEFT = {67: "--min-np"}


def fault(name, place="both", ends=None, last=False):
    def add(act):
        FAULTS.append(Fault(name, act, place, ends or {}, last))
        return act
    return add


@fault("rank: SIGKILL")
def _(run):
    run.signal(run.a_rank(), signal.SIGKILL)


@fault("rank: SIGSTOP, SIGCONT")
def _(run):
    run.pause([run.a_rank()])


@fault("rank: SIGSTOP for good")
def _(run):
    run.signal(run.a_rank(), signal.SIGSTOP)


@fault("rank: SIGTERM", ends={75: "stopped"}, last=True)
def _(run):
    run.signal(run.a_rank(), signal.SIGTERM)


@fault("mpirun: SIGKILL")
def _(run):
    run.signal(run.mpirun(), signal.SIGKILL)


@fault("mpirun: SIGSTOP, SIGCONT")
def _(run):
    run.pause([run.mpirun()])


@fault("mpirun: SIGTERM", ends={1: "before the first step"}, last=True)
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


@fault("/dev/shm full", place="one host")
def _(run):
    with run.full("/dev/shm"):
        time.sleep(run.random.uniform(0.2, 1.5))


@fault("disk full", place="one host", ends={74: "No space left"}, last=True)
def _(run):
    with run.full(run.disk):
        run.wait(run.random.choice((0.2, 30)))


@fault("disk: EIO", place="one host", ends={74: "Input/output error"}, last=True)
def _(run):
    with run.failing_disk():
        run.wait(run.random.choice((0.1, 30)))


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
