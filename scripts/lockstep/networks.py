"""The networks of apps/networks, layer by layer, and the checkpoints of runs, for load_pytorch.py and load_keras.py.

A network is a list of layers, each (type, name, keys). `name` is that of its arrays in a checkpoint: parameters/NAME/weights,
biases, gamma, beta, mean, variance, vectors. Some layers have no biases, and some have no gamma. Layers that do nothing in
evaluation are left out.
"""

import importlib.util
import json
import os
import pathlib
import re
import sys

if sys.version_info < (3, 11):
    sys.exit("lockstep: Python 3.11 or later is needed, because it reads TOML.")
import tomllib

MODELS = pathlib.Path(__file__).parent / "models"  # a link to apps/networks, and a copy in the Python package

# The layers that the loaders compute, and the keys that they read, with the defaults of net/description/layer_kinds.cc. None
# stands for a key without a default. docs/models.md describes the keys.
TYPES = {
    "convolution": {"kernel": None, "stride": 1, "padding": "same", "relu": False},
    "dense": {"relu": False},
    "max_pool": {"kernel": None, "stride": 0, "padding": "same", "relu": False},
    "batch_norm": {"epsilon": 1e-5},
    "response_norm": {"radius": 4, "bias": 1.0, "alpha": 0.001, "beta": 0.75},
    "rescale": {"factor": None, "offset": 0},
    "residual": {"branch": None, "shortcut": []},
    "subsample": {"stride": None, "channels": None},
    "embedding": {}, "relu": {}, "gelu": {}, "flatten": {}, "global_average_pool": {}, "global_max_pool": {},
    "softmax": {}}
IDLE = {"dropout", "stochastic_depth"}  # in evaluation
# Keys that the arrays of a checkpoint show, or that only training reads.
OF_TRAINING = {"filters", "features", "vocabulary", "biases", "gamma", "init", "scale", "dirac", "bias", "l2", "frozen", "follow"}
OF_ROWS = {"type", "name", "repeat", "defaults"}


def value_of(node, variables):
    """Returns a value of the file with its variables replaced. "$name" alone keeps the type of its value."""
    if not isinstance(node, str):
        return node
    if re.fullmatch(r"\$\w+", node, re.ASCII):
        return variables[node[1:]]
    return re.sub(r"\$(\w+)", lambda found: str(variables[found[1]]), node, flags=re.ASCII)


def joined(path, name):
    return f"{path}/{name}" if path and name else path + name


class Network:
    """Expands the blocks, repeats and variables of a network file, as net/description does. The build has checked the file."""

    def __init__(self, tables):
        self.blocks, self.names = tables.get("block", {}), set()
        classes = {"classes": None}  # the arrays of a checkpoint show it
        self.constants = classes | {key: value_of(node, classes) for key, node in tables.get("variables", {}).items()}
        self.layers = self.rows(tables["layers"], "", self.constants)

    def rows(self, rows, path, variables):
        """Returns the layers of a list within the layer `path`."""
        layers = []
        for row in rows:
            repeat = row.get("repeat", 1)
            first, last = repeat if isinstance(repeat, list) else (0, value_of(repeat, variables) - 1)
            for i in range(value_of(first, variables), value_of(last, variables) + 1):
                scope = variables | {"i": i} if "repeat" in row else variables
                layers += self.row(row, self.named(row, path, scope), scope)
        return layers

    def named(self, row, path, variables):
        """Returns the full name of a layer. Without a name it is the type, with a number from the second on."""
        kind = value_of(row["type"], variables)
        name, number = joined(path, value_of(row.get("name", kind), variables)), 2
        while name in self.names and "name" not in row:
            name, number = joined(path, f"{kind}_{number}"), number + 1
        self.names.add(name)
        return name

    def row(self, row, path, variables):
        """Returns the layers of one row, which is that of a block or of a layer."""
        kind = value_of(row["type"], variables)
        if kind in self.blocks:
            block = self.blocks[kind]
            defaults = {key: value_of(node, self.constants) for key, node in block.get("defaults", {}).items()}
            passed = {key: value_of(node, variables) for key, node in row.items() if key not in OF_ROWS}
            return self.row(block, path, self.constants | defaults | passed)
        if kind == "chain":
            return self.rows(row["layers"], path, variables)
        if kind in IDLE:
            return []
        keys = {key: value_of(node, variables) for key, node in row.items() if key not in OF_ROWS}
        activation = keys.pop("activation", "none")
        if kind == "residual":
            shortcut = joined(path, keys.pop("shortcut_name", "shortcut"))
            keys["shortcut"] = self.rows(keys.get("shortcut", []), shortcut, variables)
            keys["branch"] = self.rows(keys["branch"], path, variables)
            activation = "relu" if keys.pop("relu", False) else "none"
        known = TYPES.get(kind, {})
        unknown = [kind] if kind not in TYPES else [key for key in keys if key not in known and key not in OF_TRAINING]
        if unknown:
            raise SystemExit(f"this script does not know {unknown[0]} of the layer {path}. Use export_model, which writes every "
                             "network as ONNX.")
        keys = known | {key: value for key, value in keys.items() if key in known}
        if kind == "max_pool":
            keys["stride"] = keys["stride"] or keys["kernel"]
        return [(kind, path, keys)] + ([] if activation == "none" else [(activation, "", {})])


def layers_of(model):
    files = {file.stem: file for file in sorted(MODELS.glob("*.toml"))}
    if model not in files:
        raise SystemExit(f"this script does not know the network {model}. It knows {', '.join(files)}. "
                         "Use export_model, which writes every network as ONNX.")
    return Network(tomllib.loads(files[model].read_text(encoding="utf-8"))).layers


def need(*packages):
    """Ends the program if one of `packages` is not installed."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise SystemExit(f"this Python has no {' and no '.join(missing)}. Install with: pip install {' '.join(missing)}")


SECTIONS = {"ema": "ema", "raw": "parameters"}


def printable(text):
    """Returns `text` with ? for each control character, because a terminal would obey them."""
    return "".join(c if c.isprintable() else "?" for c in text)


def path_of_run(name):
    """Returns the path that a name of a run stands for: runs/NAME if that is a run, else NAME itself. As src/report/stored_run.h."""
    def is_run(folder):
        return any(os.path.exists(os.path.join(folder, part)) for part in ("summary.json", "config.toml", "metrics.jsonl", "checkpoints"))

    name = os.fspath(name)
    inside = os.path.join("runs", name)
    if name.startswith(("/", ".")):
        return name
    if not is_run(inside):
        return inside if os.path.isdir(inside) and not os.path.exists(name) else name
    if is_run(name) and not os.path.samefile(name, inside):
        raise SystemExit(f"{printable(name)} is a run here and in runs/. Pass ./{printable(name)} or runs/{printable(name)}.")
    return inside


def folder_of_run(name):
    """Returns the folder of the run that a user names, also by a checkpoint of it; else the path that the name stands for."""
    path = path_of_run(name)
    place = os.path.abspath(path if os.path.isdir(path) else os.path.dirname(path))
    return os.path.relpath(os.path.dirname(place)) if os.path.basename(place) == "checkpoints" else path


def is_whole(path):
    """Returns whether all arrays of a checkpoint can be read."""
    import h5py
    try:
        with open_hdf5(path) as file:
            arrays = []
            file.visititems(lambda name, item: arrays.append(item) if isinstance(item, h5py.Dataset) else None)
            for array in arrays:
                array[()]
            return "step" in file.attrs
    except (OSError, RuntimeError):
        return False


def find_checkpoint(run, which="best"):
    """Returns the checkpoint of a run, by its name in runs/, its folder or a file: best.h5 if there is one, the newest whole one
    ("last"), or that of a step. Prints the choice in a folder. As apps/record/checkpoint_use.h."""
    path = path_of_run(run)
    if not re.fullmatch(r"best|last|\d+", which, re.ASCII):
        raise SystemExit(f"--which {printable(which)} is no checkpoint. Pass best, last or a step.")
    if not os.path.isdir(path):
        if which != "best":
            raise SystemExit(f"--which {which} needs a run, and {path} is a file. Omit it.")
        if not os.path.exists(path) and not os.path.splitext(path)[1]:
            raise SystemExit(f"there is no run {printable(run)}, and no folder runs/{printable(run)}. Pass the name or the folder of a run.")
        return path
    inner = os.path.join(path, "checkpoints")
    folder = inner if os.path.isdir(inner) else path
    best = os.path.join(folder, "best.h5")
    names = os.listdir(folder) if os.access(folder, os.R_OK) else []
    files = {int(name[5:-3]): os.path.join(folder, name) for name in names if re.fullmatch(r"step-\d{10,18}\.h5", name, re.ASCII)}
    best_step, best_text = step_of_best(best) if os.path.exists(best) else (-1, "")
    if which == "best" and best_step >= 0:
        file, reason = best, best_text
    elif which in ("best", "last"):
        step = next((step for step in sorted(files, reverse=True) if is_whole(files[step])), None)
        if step is None:
            raise SystemExit(f"{path} contains no whole checkpoint (step-NNNNNNNNNN.h5). Use another folder.")
        file, reason = files[step], f"newest, step {step}" + (", no best.h5" if which == "best" else "")
    elif int(which) in files:
        file, reason = files[int(which)], f"step {int(which)}"
    elif os.path.exists(os.path.join(folder, f"best-{int(which):010}.h5")):
        file, reason = os.path.join(folder, f"best-{int(which):010}.h5"), f"among the best, step {int(which)}"
    elif int(which) == best_step:
        file, reason = best, f"best, step {best_step}"
    else:
        steps = ", ".join(str(step) for step in sorted(files, reverse=True))
        raise SystemExit(f"{folder} has no checkpoint of step {which}, but {'of ' + steps if steps else 'none of any'}. Pass another --which.")
    print(f"{'model':12} {printable(file)} ({reason})")
    return file


def step_of_best(path):
    """Returns the step of best.h5, and why it is the best."""
    with open_file(path) as file:
        step, text = int(file.attrs.get("step", 0)), as_text(file.attrs.get("progress", "{}"))
    try:
        best = json.loads(text)["best"][0]
        if int(best["step"]) == step:
            measure = f"{best['by']} {float(best['value']):.4f}," if best["by"] != "accuracy" else "accuracy"
            return step, f"best {printable(measure)} {100 * float(best['top1']):.2f} % at step {step}"
    except (ValueError, LookupError, TypeError):
        pass  # a file of another program
    return step, f"best, step {step}"


def add_which_option(parser):
    parser.add_argument("--which", default="best", metavar="WHICH", help="checkpoint of a run: best (default), last or a step")


def add_weights_option(parser):
    add_which_option(parser)
    parser.add_argument("--weights", default="auto", choices=("auto", *SECTIONS),
                        help="ema: the moving average; raw: the weights; auto (default): ema if the file contains it")


def reason(error):
    """Returns the reason of an OSError on one line."""
    return printable(os.strerror(error.errno) if error.errno else str(error).splitlines()[0])


def open_hdf5(path):
    """Opens an HDF5 file for reading. Raises OSError if that fails."""
    import h5py
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError("it is not a regular file")  # opening a named pipe would wait for a writer
    return h5py.File(path, "r", locking=False)


def open_file(path):
    """Does the same, but ends the program if that fails."""
    try:
        return open_hdf5(path)
    except OSError as error:
        raise SystemExit(f"cannot read {path}: {reason(error)}. Pass a file, such as best.h5.") from None


def read_checkpoint(run, weights="auto", which="best"):
    """Returns the model's name and the arrays of `weights` ("auto", "ema", "raw") by name, of find_checkpoint(). Prints which
    weights it read. The name of a network that --model FILE.toml described ends in .toml."""
    import h5py
    path = find_checkpoint(run, which)
    with open_file(path) as file:
        if weights == "auto":
            weights = "ema" if "ema" in file else "raw"
        if SECTIONS[weights] not in file:
            raise SystemExit(f"{path} contains no moving average of the weights. Pass --weights raw."
                             if weights == "ema" else f"{path} contains no weights. Pass another file.")
        print(f"{'moving average' if weights == 'ema' else 'raw weights'} of {path}")
        facts = facts_of(file, path)
        if facts.get("normalisation"):
            print("images: (pixel - mean) / deviation, pixels from 0 to 255, " + printable(json.dumps(facts["normalisation"])))
        arrays = {}
        file[SECTIONS[weights]].visititems(
            lambda name, item: arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
        return printable(str(facts.get("model"))) + (".toml" if facts.get("network") else ""), arrays


def facts_of(file, path):
    """Returns the facts of the run that wrote an open checkpoint. summary.json of the run's folder contains the same."""
    try:
        facts = json.loads(as_text(file.attrs["facts"]))
    except KeyError:
        raise SystemExit(f"{path} does not contain the facts of a run. Pass a checkpoint of Lockstep.") from None
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise SystemExit(f"{path} is damaged: its facts are no JSON. Use another checkpoint.")
    return facts


def read_preprocessing(path):
    """Returns the form of the samples (kind, height, width, channels) and the normalisation (mean, deviation), or None."""
    with open_file(path) as file:
        facts = facts_of(file, path)
        if "sample_format" not in facts:
            raise SystemExit(f"{path} does not contain the form of its samples. Pass a checkpoint of a run.")
        return facts["sample_format"], facts.get("normalisation")


def as_text(attribute):
    return attribute.decode(errors="replace") if isinstance(attribute, bytes) else str(attribute)


def compare(path, answer, tolerance=1e-5):
    """Compares `answer`(samples) with the logits in `path`, which evaluate --logits wrote, in units of the largest logit."""
    with open_file(path) as file:
        samples, logits = file["samples"][()], file["logits"][()]
    difference = abs(answer(samples) - logits).max() / max(1.0, abs(logits).max())
    print(f"{len(samples)} samples: logits differ by at most {difference:.2g} of the largest logit")
    if not difference <= tolerance:
        raise SystemExit(f"this is more than {tolerance:g}, so the networks differ. Pass the logits of this checkpoint.")
