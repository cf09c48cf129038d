"""Runs the example that a program has for each option: python3 examples.py BUILD PROGRAM...

The current folder contains the files that examples name. The launcher with -np 4 is omitted, and options that make a run short are added.
Prints each example that fails, or that sets an option without an effect, and exits with 1."""
import os
import pathlib
import re
import shlex
import subprocess
import sys

TRAINING = ["--check", "--threads", "1"]
# A network with few weights, unless the example names another.
SMALL = {"train_cifar": ["--model", "resnet_small"], "train_mnist": ["--model", "resnet_small"], "bench_step": ["--model", "resnet_small"]}
# The last value of an option counts, so these override those of the example.
SHORT = {
    "bench_step": ["--steps", "1", "--warmup", "0", "--no-bare", "--threads", "1"],
    "bench_allreduce": ["--max", "1K", "--iters", "1", "--warmup", "0"],
    "bench_loader": ["--seconds", "0.01"],
    "evaluate": ["--data", "tested"],
    "verify_run": ["--data", "tested"],
    "cost_model": ["--hosts", "4"],  # all numbers of ranks take 10 s
}
ENDLESS = {"--follow", "--interval"}
# Options in these groups, and these, work in the same way with any data and model. So do examples that name both. If
# train_cifar has such an example too, the other programs that share its code do not repeat it. unit.help_text parses all.
COMMON_GROUPS = {"Training", "Learning rate", "Optimizer", "Ranks", "Reports", "Run", "Checkpoints", "Instead of training", "Help"}
COMMON_OPTIONS = {"--fold", "--split-seed", "--config", "--precision"}
SHARING = {"train_mnist", "train_reuters", "train_images", "train_texts", "bench_step"}
# Programs whose last word is a new file.
WRITERS = {"export_model", "pack_images"}


def examples_of(build, program):
    """The group, the option and the words of each example in the man page."""
    page = subprocess.run([str(build / program), "--print-man"], text=True, check=True, stdout=subprocess.PIPE).stdout
    page = page.replace("\\-", "-").replace("\\(aq", "'")
    group, examples = "", []
    for heading, option, text in re.findall(r'^\.SS "([^"\n]*)"$|^\.B (\S+)[^\n]*\n(.*?)(?=^\.(?:TP|SS|SH))', page, re.S | re.M):
        group = heading or group
        found = re.findall(r"^Example:\n\.br\n(.*)$", text, re.M)
        if option and len(found) != 1:
            sys.exit(f"{program}: no example of {option}")
        if option:
            examples.append((group, option, shlex.split(found[0])))
    if len(examples) < 4:
        sys.exit(f"{program}: only {len(examples)} examples")
    return examples


def own_examples(build, program):
    """Without those that train_cifar has too."""
    examples = examples_of(build, program)
    if program in SHARING:
        known = {" ".join(words).replace("train_cifar", program) for _, _, words in examples_of(build, "train_cifar")}
        examples = [(group, option, words) for group, option, words in examples
                    if re.sub("(train_images --data photos|train_texts --data reviews.csv)", program, " ".join(words)) not in known
                    or group not in COMMON_GROUPS and option not in COMMON_OPTIONS and not group.startswith("With --optimizer")
                    and not {"--dataset", "--model"} <= set(words)]
    return [(option, words) for _, option, words in examples]


def fault(build, program, option, words):
    """The fault of this example, or an empty text."""
    printed = " ".join(words)
    command = words[3:] if words[1:3] == ["-np", "4"] else words
    more = TRAINING if program.startswith("train_") or program == "lockstep_run" else SHORT.get(program, [])
    if option in {"--help", "--help-all", "--version", "--list"}:
        more = []
    on_photos = program in {"evaluate", "verify_run"} and option in {"--data", "--labels"}
    if on_photos:
        more = []
    if program in WRITERS:
        pathlib.Path(words[-1]).unlink(missing_ok=True)
    try:
        place = "../photo_runs" if on_photos else "."
        done = subprocess.run([str(build / program), *SMALL.get(program, []), *command[1:], *more], cwd=place, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=4 if option in ENDLESS else 300)
    except subprocess.TimeoutExpired:
        return "" if option in ENDLESS else f"{printed}: does not end"
    if os.environ.get("LOCKSTEP_TEST_WITHOUT") in words and "does not compute in" in done.stdout:
        return ""  # as it should on this processor
    idle = re.findall(r".*\bdoes nothing\b(?! with one rank).*", done.stdout)
    if done.returncode or idle or option in ENDLESS:
        return f"{printed}: exit code {done.returncode}\n{idle[0] if idle else done.stdout[-500:]}"
    return ""


def main():
    build, programs = pathlib.Path(sys.argv[1]), sys.argv[2:]
    tried = [(build, program, *example) for program in programs for example in own_examples(build, program)]
    faults = [text for text in (fault(*names) for names in tried) if text]
    print("\n".join(faults))
    print(f"{len(tried)} examples of {len(programs)} programs, {len(faults)} fail")
    sys.exit(bool(faults))


main()
