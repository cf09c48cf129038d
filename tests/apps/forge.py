"""Forges a run: forge.py RUN FOLDER makes a copy for each forgery, FOLDER/NUMBER, and prints their names. forge.py RUN NAME
JSON gives the option NAME this value in every file of the run."""
import json
import os
import shutil
import sys

import h5py
import numpy

# No replay can repeat these. verify_run names them.
MEASURED = {"time", "seconds", "images_per_s", "seconds_per_batch", "exposed_communication", "loader_wait", "forward",
            "backward", "optimizer", "straggler", "straggler_seconds"}
UNCHECKED = {"summary.json/run", "summary.json/times", "summary.json/changes"}

run = sys.argv[1]
forgeries = {}


def changed(value):
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1 if isinstance(value, int) else value * 0.5 + 0.125
    if isinstance(value, list):
        return [changed(value[0])] + value[1:] if value else [1]
    if isinstance(value, dict):
        name = sorted(value)[0] if value else "forged"
        return {**value, name: changed(value.get(name))}
    return "forged" if value is None else str(value) + " "


def rewrite(name, change):
    """Replaces a text file of the run."""
    path = os.path.join(run, name)
    with open(path) as file:
        text = file.read()
    os.remove(path)  # it may be a link to that of another copy
    with open(path, "w") as file:
        file.write(change(text))


def in_json(name, path):
    """Changes the member of a JSON file."""
    def change(text):
        whole = json.loads(text)
        place = whole
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = changed(place[path[-1]])
        return json.dumps(whole, indent=2) + "\n"
    rewrite(name, change)


def in_line(number, field, value=None):
    """Changes a field of a line of metrics.jsonl."""
    def change(text):
        lines = text.splitlines()
        line = json.loads(lines[number])
        line[field] = changed(line[field]) if value is None else value
        lines[number] = json.dumps(line)
        return "\n".join(lines) + "\n"
    rewrite("metrics.jsonl", change)


def in_lines(change):
    """Changes the list of lines of metrics.jsonl."""
    rewrite("metrics.jsonl", lambda text: "\n".join(change(text.splitlines())) + "\n")


def in_checkpoint(name, change):
    with h5py.File(os.path.join(run, "checkpoints", name), "r+") as file:
        change(file)


def fresh(name):
    """A hard link would be changed with its file."""
    path = os.path.join(run, "checkpoints", name)
    shutil.copy(path, path + ".copy")
    os.replace(path + ".copy", path)


def collect_log():
    """The last line of each kind, and each of its fields."""
    with open(os.path.join(run, "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    last = {line["kind"]: number for number, line in enumerate(lines)}
    for kind, number in last.items():
        if kind in ("host", "shares", "change"):
            continue
        for field in lines[number]:
            if field not in MEASURED | {"kind"}:
                forgeries["metrics.jsonl/%s/%s" % (kind, field)] = lambda n=number, f=field: in_line(n, f)
        if kind != "run":
            forgeries["metrics.jsonl/%s/unknown" % kind] = lambda n=number: in_line(n, "accuracy_of_a_friend", 0.999)

    def invent(text):
        line = json.loads(text.splitlines()[last["evaluation"]])
        return text + json.dumps({**line, "step": line["step"] + 1000, "top1": 0.999}) + "\n"

    def hide(text):
        lines = text.splitlines()
        del lines[last["evaluation"]]
        return "\n".join(lines) + "\n"
    forgeries["metrics.jsonl/invented evaluation"] = lambda: rewrite("metrics.jsonl", invent)
    forgeries["metrics.jsonl/hidden evaluation"] = lambda: rewrite("metrics.jsonl", hide)
    for kind in sorted({"train", "evaluation", "epoch", "test"} & set(last)):
        forgeries["metrics.jsonl/repeated %s" % kind] = lambda n=last[kind]: in_lines(lambda lines: lines + [lines[n]])
    for kind in sorted({"train", "epoch"} & set(last)):
        number = [line["kind"] for line in lines].index(kind)
        forgeries["metrics.jsonl/hidden %s" % kind] = lambda n=number: in_lines(lambda lines: lines[:n] + lines[n + 1:])
    for kind in ("host", "shares", "change"):
        forgeries["metrics.jsonl/%s/unknown" % kind] = lambda k=kind: in_lines(
            lambda lines: lines + ['{"kind": "%s", "time": 1, "step": 4, "accuracy": 1}' % k])
    forgeries["metrics.jsonl/a name twice"] = lambda: in_lines(
        lambda lines: lines[:-1] + [lines[-1].replace("{", '{"kind": "train", ', 1)])


def collect_json(name, skipped=()):
    with open(os.path.join(run, name)) as file:
        whole = json.load(file)
    for field, value in whole.items():
        if "%s/%s" % (name, field) in UNCHECKED or field in skipped:
            continue
        paths = [(field,)]
        if field in ("result", "best", "test", "measures") and isinstance(value, dict):
            paths = [(field, inner) for inner in value]
        for path in paths:
            forgeries["%s/%s" % (name, "/".join(path))] = lambda p=path: in_json(name, p)
    forgeries["%s/a name twice" % name] = lambda: rewrite(name, lambda text: text.replace("{", '{"step": 1,', 1))


def collect_checkpoint(name):
    def array(section):
        def change(file):
            names = []
            file[section].visititems(lambda path, item: names.append(path) if isinstance(item, h5py.Dataset) else None)
            values = file[section][names[-1]][...]
            values.flat[0] += 0.5
            file[section][names[-1]][...] = values
        return change

    def zeros(section):
        def change(file):
            file[section].visititems(
                lambda path, item: item.__setitem__(..., 0) if isinstance(item, h5py.Dataset) else None)
        return change

    def attribute(field):
        def change(file):
            value = file.attrs[field]
            value = value.decode() if isinstance(value, bytes) else value
            if isinstance(value, str):
                file.attrs[field] = value + "1"
            else:
                file.attrs.modify(field, value + numpy.ones_like(value))
        return change

    def member(text, field):
        """Of an attribute in JSON."""
        def change(file):
            members = json.loads(file.attrs[text])
            members[field] = changed(members[field])
            file.attrs[text] = json.dumps(members)
        return change

    def remove(section):
        def change(file):
            del file[section]
        return change

    def in_another_type(file):
        values = file["parameters/softmax_linear/biases"][...]
        del file["parameters/softmax_linear/biases"]
        file["parameters/softmax_linear/biases"] = values.astype("f8")

    def fact_twice(file):
        file.attrs["facts"] = json.dumps(json.loads(file.attrs["facts"])).replace("{", '{"seed": 7, ', 1)
    foreign_parts = {"attribute of a group": lambda file: file["parameters"].attrs.create("top1", 0.999),
                     "attribute of an array": lambda file: file["parameters/softmax_linear/biases"].attrs.create("top1", 1),
                     "list as an attribute": lambda file: file.attrs.create("top1", [1, 2]),
                     "empty group": lambda file: file.create_group("top1 0.999"),
                     "another type": in_another_type, "fact twice": fact_twice}
    with h5py.File(os.path.join(run, "checkpoints", name), "r") as file:
        sections = [path for group in file for path in (
            ["optimizer/" + slot for slot in file[group]] if group == "optimizer" else [group])]
        changes = {"%s" % section: array(section) for section in sections}
        if name == "best.h5":
            changes.update(foreign_parts)
            changes.update({section + " zero": zeros(section) for section in sections})
        else:
            changes.update({section + " gone": remove(section) for section in sections if section != "parameters"})
            changes.update({"attribute " + field: attribute(field) for field in file.attrs if field != "facts"})
            # A checkpoint whose evaluation is due is one before its evaluation, and its progress is not compared.
            members = json.loads(file.attrs["progress"])
            changes.update({"progress " + field: member("progress", field) for field in members if field != "evaluation_due"})
            facts = json.loads(file.attrs["facts"])
            changes.update({"fact " + field: member("facts", field) for field in facts})
    for what, change in changes.items():
        forgeries["%s/%s" % (name, what)] = lambda c=change: (fresh(name), in_checkpoint(name, c))


def forge_samples():
    path = os.path.join(run, "samples.bin")
    with open(path, "rb") as file:
        data = file.read()
    os.remove(path)
    with open(path, "wb") as file:
        file.write(data[8:])


def collect_unknown():
    """Fields of objects in summary.json that Lockstep does not write."""
    for part in ("result", "times"):
        forgeries["summary.json/%s/unknown" % part] = lambda p=part: rewrite("summary.json", lambda text: text.replace(
            '"%s": {' % p, '"%s": {"accuracy_of_a_friend": 0.999,' % p, 1))


def collect_config():
    forgeries["config.toml/lr"] = lambda: rewrite("config.toml", lambda text: text.replace("\nlr=", "\nlr=1", 1))
    forgeries["config.toml/lr gone"] = lambda: rewrite("config.toml", lambda text: "".join(
        line for line in text.splitlines(True) if not line.startswith("lr=")))
    forgeries["config.toml/quoted key"] = lambda: rewrite("config.toml", lambda text: text + '"lr" = 5\n')
    forgeries["config.toml/key with a space"] = lambda: rewrite("config.toml", lambda text: text + 'trace = "t.json"\n')


def set_option(name, value):
    def of_facts(text):
        facts = json.loads(text)
        if "options" in facts:
            facts["options"][name] = value
        return json.dumps(facts)

    def of_file(file):
        file.attrs["facts"] = of_facts(file.attrs["facts"])
    rewrite("summary.json", of_facts)
    rewrite("metrics.jsonl", lambda text: "".join(of_facts(line) + "\n" for line in text.splitlines()))
    rewrite("config.toml", lambda text: "\n".join(
        [line for line in text.splitlines() if not line.startswith(name + "=")] + [name + "=" + json.dumps(value), ""]))
    for file in os.listdir(os.path.join(run, "checkpoints")):
        fresh(file)
        in_checkpoint(file, of_file)


def another_best():
    """best.h5 is the last checkpoint."""
    folder = os.path.join(run, "checkpoints")
    last = sorted(name for name in os.listdir(folder) if name.startswith("step"))[-1]
    os.remove(os.path.join(folder, "best.h5"))
    shutil.copy(os.path.join(folder, last), os.path.join(folder, "best.h5"))


collect_log()
collect_json("summary.json", skipped=("commands", "changed_options", "recipe_options"))
collect_json("evaluation.json")
for file_name in sorted(os.listdir(os.path.join(run, "checkpoints"))):
    collect_checkpoint(file_name)
collect_config()
collect_unknown()
forgeries["samples.bin/fewer"] = forge_samples
forgeries["best.h5/another one"] = another_best
if len(sys.argv) > 3:
    set_option(sys.argv[2], json.loads(sys.argv[3]))
else:
    original = run
    for index, (forgery, forge) in enumerate(forgeries.items()):
        run = os.path.join(sys.argv[2], str(index))
        shutil.copytree(original, run, copy_function=os.link)
        forge()
        print(forgery)
