"""Runs the blocks of a page: python3 commands.py PAGE.md CLONE. A block of commands is indented by four spaces. The first
word of each line of the ```text block after it must begin a line of its output. Networks and other TOML files are saved and
checked, Python is run. A line that does none of this is in NOT_RUN. Exits with 1 after the first fault.

python3 commands.py --unused PAGE.md...: which rows of NOT_RUN match no line of these pages."""
import pathlib
import re
import subprocess
import sys
import tomllib

# Lines that this test does not run: page, pattern, reason. A block ends with the last line that is not indented.
NOT_RUN = [
    ("architecture.md", r".", "a drawing"),
    ("CONTRIBUTING.md", r"^#include|^namespace|^template|^struct|^class|^ |^\}|^std::|^$", "the file of a C++ layer"),
    ("CONTRIBUTING.md", r"^\{\"|^double|^rows\.", "parts of C++ files"),
    ("CONTRIBUTING.md", r"scripts/test\.sh|^\.ci/run|^ctest|build/tests/layers", "it builds and runs the tests"),
    ("allreduce.md", r"bench/simulate\.sh", "apps.simulate runs it"),
    ("allreduce.md", r"^tree: ", "a schedule in words"),
    ("audit.md", r"^import hashlib", "apps.verify_run runs it"),
    ("data.md", r"^photos/", "names of files"),
    ("data.md", r"mnist\.npz|--data arrays$", "it needs a download; apps.own_data converts such a file"),
    ("getting-started.md", r"dependencies\.sh$|cpack|apt install|--preset package|^lockstep_run -np 2 train_cifar|/usr/share", "apps.package makes it"),
    ("getting-started.md", r"pip install|import lockstep", "apps.python_package installs it"),
    ("gpu.md", r".", "it needs CUDA, or a download"),
    ("hosts.md", r"^node\d slots", "a file of hosts"),
    ("hosts.md", r"^lockstep_run: ", "its output"),
    ("hosts.md", r"^mpirun .*-np 32 |--device cuda --data data/cifar10$", "it needs GPUs"),
    ("library.md", r".", "apps.install builds and runs the programs of this page"),
    ("models.md", r"load_pytorch\.py", "it needs PyTorch; apps.load_elsewhere runs it"),
    ("models.md", r"onnxruntime", "it needs onnxruntime; apps.export runs such a program"),
    ("models.md", r"torch|^logits = network", "it needs PyTorch"),
    ("models.md", r"scripts/train\.sh --model small", "it builds with one more network"),
    ("photos.md", r"^photos/", "names of files"),
    ("photos.md", r"get_weights|--run tuned|--init data/weights", "it needs published weights; apps.torchvision reads such files"),
    ("performance.md", r"bench/peers", "it needs PyTorch and TensorFlow"),
    ("predictions.md", r"predictions\.jsonl", "it takes 20 s"),
    ("results.md", r"airbench94_fast", "it takes minutes; apps.airbench trains by this recipe"),
    ("runs.md", r"sweep_runs\.py rates\.toml$|runs/rates/", "apps.sweep trains sweeps"),
    ("runs.md", r"^search =|^\[slurm\]", "parts of a file for sweep_runs.py"),
    ("slurm.md", r"^podman|^apptainer", "it needs a network and containers"),
    ("texts.md", r"^text,label|,delivery$|,account$", "a table"),
    ("texts.md", r"onnxruntime", "it needs onnxruntime; apps.texts runs such a program"),
    ("training.md", r"get_weights|--init data/weights", "it needs published weights; apps.torchvision reads such files"),
    ("troubleshooting.md", r"^train_cifar: |^mpirun|^<", "an error"),
]

# Each change makes a documented command short enough for a test, or independent of the machine.
CHANGES = [
    (r"^git clone URL lockstep && cd lockstep$", ":"),
    (r"--steps \d+", "--steps 4"),
    (r"--epochs \d+", "--steps 4"),
    (r"--find-lr 100", "--find-lr 20"),
    (r"-np (16|N|4)\b", "-np 2"),
    (r"ppr:1:node", "ppr:2:node"),
    (r"--model tower", "--model deep_mnist"),
    (r"--threads 16", "--threads 1"),
    (r"--ranks '16 64 256'", "--ranks 16"),
    (r"btl_tcp_if_include (eth0|ib0)", "btl_tcp_if_include lo"),
    (r"^LOCKSTEP_RANKS=4 ", "LOCKSTEP_RANKS=2 "),
    (r"(build/bench_allreduce --(check|json))", r"\1 --max 1K --iters 1"),
    # No later command names these runs, and another run of the page is evaluated.
    (r"^(LOCKSTEP_\w+=\w+ scripts/train\.sh.*)(?<!\\)$", r"\1 --eval-every 0"),
]
# Pages whose runs are evaluated as printed.
EVALUATED = {"README.md", "getting-started.md"}


def runnable(command, page):
    command = command.split("  #")[0].rstrip()
    for pattern, replacement in CHANGES:
        command = re.sub(pattern, replacement, command)
    trains = re.search(r"scripts/train\.sh|^((mpirun|.*lockstep_run) .*)?build/(train_|bench_step)", command)
    trains = trains and not re.search("--(help|print-|summary|find-lr)", command)
    more = " --steps 4" if trains and "--steps" not in command else ""
    if trains and page not in EVALUATED and "--eval-every" not in command:
        more += " --eval-every 0"
    return command[:-1] + more + " \\" if command.endswith("\\") and more else command + more


def reason(line, page):
    """Why this line is not run; None if it is run."""
    return next((why for name, pattern, why in NOT_RUN if name == page and re.search(pattern, line)), None)


def blocks(text):
    """Yields the language and the lines of each block in the order of the page; "" is an indented one."""
    pieces = re.findall(r"^```(\w*)\n(.*?)^```$|((?:^    [^\n]*\n?(?:\n+(?=    ))?)+)", text, re.S | re.M)
    for language, fenced, indented in pieces:
        if indented:
            yield "", [line[4:] for line in indented.rstrip().splitlines()]
        else:
            yield language or "drawing", fenced.splitlines()


def run(script, folder, program=("bash", "-euo", "pipefail", "-c")):
    done = subprocess.run([*program, script], cwd=folder, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    print(script, f"-> exit code {done.returncode}", flush=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed: {script}")
    return done.stdout


def save(lines, folder):
    """Saves a TOML file under the name of its first line, or small.toml. Networks must have valid shapes."""
    text = "\n".join(lines) + "\n"
    tomllib.loads(text)
    name = re.match(r"# (\S+\.toml)$", lines[0])
    (folder / (name[1] if name else "small.toml")).write_text(re.sub(r"steps = \d+", "steps = 4", text))
    if "layers = [" in text:
        run("build/train_cifar --model small.toml --dataset cifar10_32 --summary", folder)


def first_word(line):
    """Any number stands for all numbers."""
    return re.sub(r"^\d[\d.]*(e[+-]?\d+)?$", "0", (line.split() or [""])[0])


def compare(lines, output, page):
    begun = {first_word(line) for line in output.splitlines()}
    wrong = [line for line in lines if first_word(line) not in begun | {"", "..."}]
    if wrong:
        sys.exit(f"{output}\n{page}: no line of the output begins like: {wrong[0]}")


def check(page, folder):
    output, count = "", 0
    for language, lines in blocks(page.read_text()):
        if language in {"", "bash"} and not re.match(r"import ", lines[0]):
            lines = [line for line in lines if reason(line, page.name) is None]
            script = "\n".join(runnable(line, page.name) for line in lines)
            if language == "" and lines:
                output = run(script, folder)
            elif lines:
                run(script, folder, ("bash", "-n", "-c"))
        elif all(reason(line, page.name) for line in lines[:1]):
            continue
        elif language == "text":
            compare(lines, output, page)
        elif language == "toml":
            save(lines, folder)
        elif re.match(r"import ", lines[0]):
            output = run("\n".join(lines), folder, ("python3", "-c"))
        else:
            sys.exit(f"{page}: no test runs this block, and NOT_RUN does not name it: {lines[0]}")
        count += len(lines)
    print(f"{page.name}: {count} lines work")


def unused(pages):
    lines = [(page.name, line) for page in pages for _, block in blocks(page.read_text()) for line in block]
    rows = [row for row in NOT_RUN if not any(name == row[0] and re.search(row[1], line) for name, line in lines)]
    sys.exit("\n".join(f"NOT_RUN: no line of {name} matches {pattern}" for name, pattern, _ in rows) or 0)


if sys.argv[1] == "--unused":
    unused([pathlib.Path(name) for name in sys.argv[2:]])
check(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
