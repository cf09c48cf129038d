"""Test hosts from network namespaces (tests/apps/lib_hosts.sh), and the faults of their links."""
import os
import pathlib
import signal
import subprocess

LIBRARY = pathlib.Path(__file__).resolve().parent.parent / "apps" / "lib_hosts.sh"

# mpirun and the supervisor reach a host by this agent: only over the network, and not while it is frozen.
AGENT = """#!/usr/bin/env bash
while [[ $1 == -* ]]; do shift; done
while [[ -e '{folder}/frozen-'${{1##*.}} ]]; do sleep 0.1; done
timeout 1 bash -c "exec 3<>/dev/tcp/$1/9" 2>&1 | grep -q refused || exit 255
exec '{folder}/agent' "$@"
"""


class Hosts:
    """`count` hosts with the addresses 192.0.2.1 and so on. They vanish with the namespaces of this process."""

    def __init__(self, folder, count):
        self.folder, self.numbers = folder, list(range(1, count + 1))
        script = 'folder=$1; . "$2"; own=campaign; make_hosts $3'
        done = subprocess.run(["bash", "-c", script, "-", folder, LIBRARY, str(count)], cwd=folder, text=True,
                              stderr=subprocess.PIPE, check=False)
        self.why_not = done.stderr.strip() if done.returncode else ""
        agent = folder / "network_agent"
        agent.write_text(AGENT.format(folder=folder))
        agent.chmod(0o755)
        self.environment = {
            "OMPI_MCA_plm": "rsh", "OMPI_MCA_plm_rsh_agent": str(agent), "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            "OMPI_MCA_oob_tcp_if_include": "eth0", "OMPI_MCA_btl_tcp_if_include": "eth0",
            "OMPI_MCA_btl": "tcp,vader,self", "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_orte_tmpdir_base": str(folder)}

    def command_on(self, number, words):
        """`words` as a command on this host."""
        become = '. "$0/become" $1 "$0/shm-$1"; shift; exec "$@"'
        return ["ip", "netns", "exec", f"campaign-{number}", "unshare", "--uts", "bash", "-c", become, str(self.folder),
                str(number), *words]

    @staticmethod
    def name(number):
        return f"test-host-{number}"

    def processes(self, number):
        done = subprocess.run(["ip", "netns", "pids", f"campaign-{number}"], capture_output=True, text=True, check=False)
        return [int(pid) for pid in done.stdout.split()]

    def link(self, number, state):
        """`state`: up or down."""
        subprocess.run(["ip", "-n", f"campaign-{number}", "link", "set", "eth0", state], check=True)

    def freeze(self, number):
        """Stops all processes of the host. New ones do not start."""
        (self.folder / f"frozen-{number}").touch()
        self.signal(number, signal.SIGSTOP)

    def thaw(self, number):
        (self.folder / f"frozen-{number}").unlink(missing_ok=True)
        self.signal(number, signal.SIGCONT)

    def signal(self, number, which):
        for pid in self.processes(number):
            try:
                os.kill(pid, which)
            except ProcessLookupError:
                pass

    def limit(self, number, *discipline):
        """The queueing discipline of what the host sends; none: as before. Returns why it is not possible."""
        words = ["replace", "dev", "eth0", "root", *discipline] if discipline else ["del", "dev", "eth0", "root"]
        done = subprocess.run(["tc", "-n", f"campaign-{number}", "qdisc", *words], capture_output=True, text=True, check=False)
        return done.stderr.strip()

    def heal(self):
        for number in self.numbers:
            self.link(number, "up")
            self.limit(number)
            self.thaw(number)
