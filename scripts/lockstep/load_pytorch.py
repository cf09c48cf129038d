"""Loads a Lockstep checkpoint into PyTorch and compares its logits with those of Lockstep. Also converts a state_dict to a
checkpoint:

  build/evaluate RUN --logits logits.h5
  scripts/load_pytorch.py RUN --check logits.h5 --save network.pt                 # torch.jit.load("network.pt")
  scripts/load_pytorch.py RUN --save-state weights.pt
  scripts/load_pytorch.py weights.pt --model resnet20 --to-checkpoint start.h5    # for --init

Needs torch and h5py:  pip install torch h5py
"""
import argparse
import io
import json
import os
import warnings

from lockstep import networks

# Networks that only torchvision builds, with these names.
TORCHVISION = ("mobilenet_v3_large", "convnext_tiny", "vit_b_16")
PARTS = {"weights": "weight", "biases": "bias", "gamma": "weight", "beta": "bias", "mean": "running_mean",
         "variance": "running_var", "vectors": "weight"}


def to_torch(arrays):
    """Returns a state_dict: NAME.weight, ... with convolution filters as out, in, height, width."""
    import numpy
    import torch
    state = {}
    for name, array in arrays.items():
        layer, part = name.rsplit("/", 1)
        if part == "weights" and array.ndim > 2:
            array = numpy.moveaxis(array, -1, 1)
        key = layer.replace("/", ".") + (f".{PARTS[part]}" if part in PARTS else "")
        key = key.replace(".in_proj.", ".in_proj_")  # nn.MultiheadAttention has no layer for its inputs
        if key in state:
            raise SystemExit(f"two layers of the checkpoint have the array {key} in PyTorch. Rename one, and train again.")
        state[key] = torch.from_numpy(numpy.ascontiguousarray(array))
    return state


def torchvision_network(name, side, state):
    """Returns torchvision's network for images of side x side pixels. It fails unless `state` has exactly its arrays."""
    import torchvision
    if name not in torchvision.models.list_models():
        raise SystemExit(f"torchvision has no network {name}. Omit --torchvision.")
    last = next(layer for layer in ("fc", "classifier.3", "classifier.2", "heads.head") if f"{layer}.weight" in state)
    options = {"image_size": side} if name == "vit_b_16" else {}
    model = torchvision.models.get_model(name, weights=None, num_classes=len(state[f"{last}.weight"]), **options)
    counts = {key: value for key, value in model.state_dict().items() if key.endswith("num_batches_tracked")}
    model.load_state_dict({**state, **counts})
    return model.eval()


def own_network(layers, state):
    """Returns a module that computes `layers`. Its state_dict is `state`."""
    import torch

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for key, value in state.items():
                *path, last = key.split(".")
                module = self
                for part in path:
                    if part not in module._modules:
                        module.add_module(part, torch.nn.Module())
                    module = module._modules[part]
                if last.startswith("running_"):
                    module.register_buffer(last, value)
                else:
                    module.register_parameter(last, torch.nn.Parameter(value))

        def forward(self, x):
            return run(layers, x, {**dict(self.named_parameters()), **dict(self.named_buffers())})

    return Network().eval()


def with_preprocessing(network, form, normalisation):
    """Returns a module for pixels from 0 to 1 that computes what `network` computes for samples of the checkpoint."""
    import torch

    class Preprocessing(torch.nn.Module):
        def forward(self, x):
            if form["kind"] == "crops":  # the middle 24 of 32 pixels, standardised by their own mean and deviation
                x = 255 * x[:, :, 4:28, 4:28]
                mean, count = x.mean((1, 2, 3), keepdim=True), 24 * 24 * 3
                return (x - mean) / (x - mean).square().mean((1, 2, 3), keepdim=True).sqrt().clamp_min(count**-0.5)
            if normalisation:
                mean, deviation = (torch.tensor(normalisation[key]).view(-1, 1, 1) for key in ("mean", "deviation"))
                x = (255 * x - mean) / deviation
            return x

    return torch.nn.Sequential(Preprocessing(), network).eval() if form["kind"] != "words" else network


def save_module(file, module, form, exports):
    """Writes a program that PyTorch loads without this script, by torch.export or as TorchScript."""
    import torch
    words = form["kind"] == "words"
    x = (torch.zeros(2, form["width"], dtype=torch.long) if words
         else torch.rand(2, form["channels"], form["height"], form["width"]))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and sizes of images become constants
        if exports:
            batch = torch.export.Dim("batch", min=1)
            torch.export.save(torch.export.export(module, (x,), dynamic_shapes=({0: batch},)), file)
        else:
            torch.jit.save(torch.jit.trace(module, x), file)


def plain_state(state):
    """Returns a state_dict without the names that trainers, torch.compile() and DistributedDataParallel put around it."""
    for name in ("state_dict", "model_state_dict", "model"):
        if isinstance(state.get(name), dict):
            state = state[name]
    plain = {}
    for key, array in state.items():
        name = key.replace("_orig_mod.", "").removeprefix("module.")
        if name in plain:
            raise SystemExit(f"the state_dict has {name} twice, also as {key}. Remove one of them.")
        plain[name] = array
    return plain


def from_torch(state, layers):
    """Returns the arrays of a checkpoint, in its order and with its names."""
    import numpy
    state, arrays = plain_state(state), {}

    def take(name, parts):
        for part in parts:
            key = f"{name.replace('/', '.')}.{PARTS[part]}"
            if key not in state:
                if part in ("biases", "gamma"):
                    continue  # absent next to a normalisation
                raise SystemExit(f"the state_dict has no {key}. Pass the --model that it was saved from.")
            array = state[key].detach().cpu().float().numpy()
            arrays[f"{name}/{part}"] = numpy.moveaxis(array, 1, -1) if part == "weights" and array.ndim > 2 else array

    def walk(some):
        for kind, name, keys in some:
            if kind in ("convolution", "dense"):
                take(name, ("weights", "biases"))
            elif kind == "batch_norm":
                take(name, ("gamma", "beta", "mean", "variance"))
            elif kind == "embedding":
                take(name, ("vectors",))
            elif kind == "residual":
                walk(keys["branch"])
                walk(keys["shortcut"])

    walk(layers)
    return arrays


def features(x):
    """Returns all features of each sample in Lockstep's order: channels last."""
    return x.movedim(1, -1).flatten(1)


def run(layers, x, state):
    """Returns the logits. Images are N, C, H, W here, and sequences are N, C, L."""
    import torch
    import torch.nn.functional as F

    for kind, name, keys in layers:
        flat = x.ndim == 3

        def get(part):
            return state.get(f"{name.replace('/', '.')}.{part}")

        if kind == "convolution":
            padding = 0 if keys["padding"] == "valid" else keys["kernel"] // 2
            x = (F.conv1d if flat else F.conv2d)(x, get("weight"), get("bias"), keys["stride"], padding)
        elif kind == "dense":
            x = F.linear(features(x) if x.ndim > 2 else x, get("weight"), get("bias"))
        elif kind == "batch_norm":
            x = F.batch_norm(x, get("running_mean"), get("running_var"), get("weight"), get("bias"), eps=keys["epsilon"])
        elif kind == "embedding":
            x = F.embedding(x, get("weight")).transpose(1, 2)
        elif kind == "max_pool":
            size, stride = keys["kernel"], keys["stride"]
            if keys["padding"] == "same":  # short windows at the ends
                ends = []
                for extent in reversed(x.shape[2:]):
                    missing = max((-(-extent // stride) - 1) * stride + size - extent, 0)
                    ends += [missing // 2, missing - missing // 2]
                x = F.pad(x, ends, value=float("-inf"))
            x = (F.max_pool1d if flat else F.max_pool2d)(x, size, stride, size // 2 if keys["padding"] == "centred" else 0)
        elif kind == "response_norm":
            size = 2 * keys["radius"] + 1
            x = F.local_response_norm(x, size, keys["alpha"] * size, keys["beta"], keys["bias"])
        elif kind == "rescale":
            x = x * keys["factor"] + keys["offset"]
        elif kind == "relu":
            x = F.relu(x)
        elif kind == "gelu":
            x = F.gelu(x)
        elif kind == "flatten":
            x = features(x)
        elif kind == "global_average_pool":
            x = x.mean((2, 3))
        elif kind == "global_max_pool":
            x = x.amax(tuple(range(2, x.ndim)))
        elif kind == "softmax":
            x = torch.softmax(x, -1)
        elif kind == "subsample":
            x = F.pad(x[:, :, ::keys["stride"], ::keys["stride"]], [0, 0, 0, 0, 0, keys["channels"] - x.shape[1]])
        elif kind == "residual":
            x = run(keys["branch"], x, state) + (run(keys["shortcut"], x, state) if keys["shortcut"] else x)
        x = F.relu(x) if keys.get("relu") else x
    return x


def write_checkpoint(path, model, arrays):
    """Writes a checkpoint of step 0, with checksums."""
    import h5py
    import numpy
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset("parameters/" + name, data=array.astype("<f4"), chunks=array.shape, fletcher32=True)
        for name in ("step", "samples", "epoch"):
            file.attrs[name] = numpy.int64(0)
        file.attrs["seed"] = numpy.uint64(0)
        file.attrs["facts"] = json.dumps({"model": model})


def write(path, save):
    """Writes the file that save(FILE) makes. It is complete or absent."""
    made = io.BytesIO()
    save(made)
    beside = os.path.join(os.path.dirname(path), f"tmp-{os.getpid()}-{os.path.basename(path)}")
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError("it is not a regular file")
        with open(beside, "xb") as file:
            file.write(made.getbuffer())
        os.replace(beside, path)
    except OSError as error:
        raise SystemExit(f"cannot write {path}: {networks.reason(error)}. Pass another file.") from None
    finally:
        if os.path.exists(beside):
            os.remove(beside)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="RUN", help="a run or a checkpoint; with --to-checkpoint the file of a state_dict")
    networks.add_weights_option(parser)
    parser.add_argument("--check", metavar="LOGITS", help="file that evaluate --logits wrote")
    parser.add_argument("--torchvision", action="store_true", help="compute the logits by torchvision's network of that name")
    parser.add_argument("--save", metavar="FILE", help="file for a module with preprocessing: TorchScript, or FILE.pt2 of torch.export")
    parser.add_argument("--save-state", metavar="FILE", help="file for the state_dict")
    parser.add_argument("--model", help="name of the model, with --to-checkpoint")
    parser.add_argument("--to-checkpoint", metavar="FILE", help="file for a checkpoint with the weights of a state_dict")
    arguments = parser.parse_args()
    networks.need("torch", "h5py")
    import torch
    if arguments.to_checkpoint:
        if not arguments.model:
            parser.error("--to-checkpoint needs --model. Pass the name of the model.")
        state = torch.load(arguments.file, map_location="cpu", weights_only=True)
        arrays = from_torch(state, networks.layers_of(arguments.model))
        write(arguments.to_checkpoint, lambda file: write_checkpoint(file, arguments.model, arrays))
        return
    file = networks.find_checkpoint(arguments.file, arguments.which)
    name, arrays = networks.read_checkpoint(file, arguments.weights)
    by_torchvision = arguments.torchvision or name in TORCHVISION
    if by_torchvision:
        networks.need("torchvision")
    computes = arguments.check or arguments.save
    layers, state = networks.layers_of(name) if computes and not by_torchvision else None, to_torch(arrays)

    def network(side):
        return torchvision_network(name, side, state) if by_torchvision else own_network(layers, state)

    def answer(samples):
        x = torch.from_numpy(samples)
        x = x.long() if layers and layers[0][0] == "embedding" else x.movedim(-1, 1)
        with torch.no_grad():
            return network(x.shape[-1])(x).numpy()

    if arguments.check:
        networks.compare(arguments.check, answer, 1e-4 if by_torchvision else 1e-5)
    if arguments.save:
        form, normalisation = networks.read_preprocessing(file)
        module = with_preprocessing(network(form["width"]), form, normalisation)
        write(arguments.save, lambda file: save_module(file, module, form, arguments.save.endswith(".pt2")))
    if arguments.save_state:
        write(arguments.save_state, lambda file: torch.save(state, file))


if __name__ == "__main__":
    main()
