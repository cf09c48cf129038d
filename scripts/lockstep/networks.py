"""The networks of apps/networks, layer by layer, for load_pytorch.py and load_keras.py.

A network is a list of layers, each (kind, name, ...):
  conv      name, kernel, stride, padding ("same": half a kernel on both ends, or "valid"), relu; 1-d if x is
  dense     name, relu
  max_pool  size, stride, padding ("same": short windows at the ends, "valid", or "centred": size / 2 on both ends), relu
  norm      name, epsilon
  response  radius, bias, alpha, beta (local response normalisation over channels)
  rescale   factor, offset
  residual  branch, shortcut (lists of layers; if shortcut is None, x itself)
  subsample stride, channels (every stride-th pixel, then zeros for the additional channels)
  embedding name
  relu, gelu, flatten, average (global), softmax
Layers that do nothing in evaluation are left out.
Names are those of the arrays in a checkpoint: parameters/NAME/weights, biases, gamma, beta, mean, variance, vectors. Some
layers have no biases, and some have no gamma.
"""

import importlib.util
import json
import os

PIXELS = ("rescale", 78.567490 / 255, 33.318421 / 255)
RESPONSE = ("response", 4, 1.0, 0.001 / 9, 0.75)


def conv(name, kernel, relu=False, stride=1, padding="same"):
    return ("conv", name, kernel, stride, padding, relu)


def tutorial():
    return [conv("conv1", 5), ("max_pool", 3, 2, "same", True), RESPONSE, conv("conv2", 5, True), RESPONSE,
            ("max_pool", 3, 2, "same", False), ("flatten",), ("dense", "local3", True), ("dense", "local4", True),
            ("dense", "softmax_linear", False)]


def deep_mnist():
    return [conv("conv1", 5), ("max_pool", 2, 2, "same", True), conv("conv2", 5), ("max_pool", 2, 2, "same", True),
            ("flatten",), ("dense", "fc1", True), ("dense", "fc2", False)]


def tower():
    return [PIXELS, conv("conv1", 5, True, padding="valid"), ("max_pool", 2, 2, "valid", False),
            conv("conv2", 3, True, padding="valid"), conv("conv3", 3, True, padding="valid"),
            ("max_pool", 2, 2, "valid", False), ("flatten",), ("dense", "fc1", False), ("dense", "fc2", False),
            ("dense", "out", False)]


def keras():
    return [PIXELS, conv("conv1", 3, True, padding="valid"), conv("conv2", 3, True, padding="valid"),
            ("norm", "norm", 1e-3), conv("conv3", 3, True, padding="valid"), ("max_pool", 2, 2, "valid", False),
            ("flatten",), ("dense", "fc1", True), ("dense", "out", False)]


def reuters():
    return [("embedding", "embedding"), conv("conv1d", 5, True, padding="valid"), ("max_pool", 2, 2, "valid", False),
            conv("conv1d_1", 3, True, padding="valid"), ("max_pool", 2, 2, "valid", False), ("flatten",),
            ("dense", "dense", False)]


def reuters_as_published():
    return reuters() + [("softmax",)]


def resnet_small():
    def branch(block):
        return [("norm", f"{block}/norm1", 1e-5), ("relu",), conv(f"{block}/conv1", 3), ("norm", f"{block}/norm2", 1e-5),
                ("relu",), conv(f"{block}/conv2", 3)]
    return [conv("conv", 3), ("residual", branch("block1"), None), ("max_pool", 3, 2, "same", False),
            ("residual", branch("block2"), [conv("block2/shortcut/conv", 1)]), ("norm", "norm", 1e-5), ("relu",),
            ("average",), ("dense", "softmax_linear", False)]


def resnet(stages, blocks, filters, convolved):
    """Returns a function that builds `stages` of `blocks`, as apps/networks/resnet20.toml does."""
    def build():
        layers = [conv("conv", 3), ("norm", "norm", 1e-5), ("relu",)]
        channels, width = filters, filters
        for stage in range(1, stages + 1):
            for number in range(1, blocks + 1):
                block, stride = f"block{stage}_{number}", 1 if channels == width else 2
                branch = [conv(f"{block}/conv1", 3, stride=stride), ("norm", f"{block}/norm1", 1e-5), ("relu",),
                          conv(f"{block}/conv2", 3), ("norm", f"{block}/norm2", 1e-5)]
                shortcut = None
                if stride == 2:
                    shortcut = ([conv(f"{block}/shortcut/conv", 1, stride=2), ("norm", f"{block}/shortcut/norm", 1e-5)]
                                if convolved else [("subsample", 2, width)])
                layers += [("residual", branch, shortcut), ("relu",)]
                channels = width
            width *= 2
        return layers + [("average",), ("dense", "out", False)]
    return build


def resnet_imagenet(blocks, expansion):
    """Returns a function that builds the networks of apps/networks/resnet50.toml. `blocks`: of each stage."""
    def build():
        layers = [conv("conv1", 7, stride=2), ("norm", "bn1", 1e-5), ("relu",), ("max_pool", 3, 2, "centred", False)]
        channels = 64
        for stage, count in enumerate(blocks):
            width = 64 << stage
            for number in range(count):
                block, stride = f"layer{stage + 1}.{number}", 2 if stage > 0 and number == 0 else 1
                shapes = [(3, stride), (3, 1)] if expansion == 1 else [(1, 1), (3, stride), (1, 1)]
                branch = []
                for i, (kernel, step) in enumerate(shapes, 1):
                    branch += [conv(f"{block}/conv{i}", kernel, stride=step), ("norm", f"{block}/bn{i}", 1e-5), ("relu",)]
                shortcut = None
                if channels != width * expansion:
                    shortcut = [conv(f"{block}/downsample/0", 1, stride=stride), ("norm", f"{block}/downsample/1", 1e-5)]
                layers += [("residual", branch[:-1], shortcut), ("relu",)]
                channels = width * expansion
        return layers + [("average",), ("dense", "fc", False)]
    return build


def airbench94():
    layers = [conv("whiten", 2, padding="valid"), ("gelu",)]
    for block in "123":
        for part in "ab":
            layers.append(conv(f"conv{block}{part}", 3))
            if part == "a":
                layers.append(("max_pool", 2, 2, "valid", False))
            layers += [("norm", f"norm{block}{part}", 1e-12), ("gelu",)]
    return layers + [("max_pool", 3, 3, "valid", False), ("flatten",), ("dense", "head", False), ("rescale", 1 / 256, 0)]


NETWORKS = {"tutorial": tutorial, "deep_mnist": deep_mnist, "tower": tower, "keras": keras, "reuters": reuters,
            "reuters_as_published": reuters_as_published, "resnet_small": resnet_small,
            "resnet20": resnet(3, 3, 16, False), "resnet56": resnet(3, 9, 16, False), "resnet18_cifar": resnet(4, 2, 64, True),
            "airbench94": airbench94, "resnet18": resnet_imagenet((2, 2, 2, 2), 1),
            "resnet34": resnet_imagenet((3, 4, 6, 3), 1), "resnet50": resnet_imagenet((3, 4, 6, 3), 4)}


def layers_of(model):
    if model not in NETWORKS:
        raise SystemExit(f"this script does not know the network {model}. It knows {', '.join(NETWORKS)}. "
                         "Use export_model, which writes every network as ONNX.")
    return NETWORKS[model]()


def need(*packages):
    """Ends the program if one of `packages` is not installed."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise SystemExit(f"this Python has no {' and no '.join(missing)}. Install with: pip install {' '.join(missing)}")


SECTIONS = {"ema": "ema", "raw": "parameters"}


def printable(text):
    """Returns `text` with ? for each control character, because a terminal would obey them."""
    return "".join(c if c.isprintable() else "?" for c in text)


def add_weights_option(parser):
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


def read_checkpoint(path, weights="auto"):
    """Returns the model's name and the arrays of `weights` ("auto", "ema", "raw") by name. Prints which weights it read.
    The name of a network that --model FILE.toml described ends in .toml."""
    import h5py
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
