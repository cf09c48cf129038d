"""Runs the command blocks of a page: python3 commands.py PAGE.md CLONE. A block is indented by four spaces. The first word
of each line of the ```text block after it must begin a line of its output. Exits with 1 after the first fault."""
import pathlib
import re
import subprocess
import sys

# Each change makes a documented command short enough for a test, or independent of the machine.
CHANGES = [
    (r"^git clone URL lockstep && cd lockstep$", ":"),
    (r"--steps \d+", "--steps 12"),
    (r"-np 16|-np N", "-np 2"),
    (r"btl_tcp_if_include eth0", "btl_tcp_if_include lo"),
    (r"^LOCKSTEP_RANKS=4 ", "LOCKSTEP_RANKS=2 "),
]


def runnable(command):
    command = command.split("  #")[0].rstrip()
    for pattern, replacement in CHANGES:
        command = re.sub(pattern, replacement, command)
    trains = re.search(r"scripts/train\.sh|mpirun .*build/train_", command)
    if trains and "--steps" not in command and "--help" not in command:
        command += " --steps 12"
    return command


def blocks(text):
    """Yields ("command" or "text", lines) in the order of the page."""
    pieces = re.findall(r"^```(\w*)\n(.*?)^```$|((?:^    [^\n]*\n?)+)", text, re.S | re.M)
    for language, fenced, indented in pieces:
        if indented:
            yield "command", [line[4:] for line in indented.splitlines()]
        elif language == "text":
            yield "text", fenced.splitlines()


def run(lines, folder):
    script = "\n".join(runnable(line) for line in lines)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(script, f"-> exit code {done.returncode}")
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed: {script}")
    return done.stdout


def main():
    page, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    output, commands = "", 0
    for kind, lines in blocks(page.read_text()):
        if kind == "command":
            output = run(lines, folder)
            commands += len(lines)
        else:
            begun = {line.split()[0] for line in output.splitlines() if line.split()}
            wrong = [line for line in lines if line.split() and line.split()[0] not in begun | {"..."}]
            if wrong:
                sys.exit(f"{output}\n{page}: no line of the output begins like: {wrong[0]}")
    if not commands:
        sys.exit(f"{page}: no command was found")
    print(f"{page.name}: {commands} lines of commands work")


main()
