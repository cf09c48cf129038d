"""Compares exported ONNX files with Lockstep by onnxruntime: export.py WHAT FILE...

  perturb CHECKPOINT         replaces trivial weights by random ones, so that every layer shows in the logits
  logits ONNX LOGITS         against the file of evaluate --logits
  classes ONNX IMAGE JSON    against a line of classify --json, for a BMP file of the network's size
  layers FOLDER              every NAME.onnx against NAME.x and NAME.y of fp32

A difference is the largest one of all logits over the largest logit."""
import json
import pathlib
import sys

import numpy

TOLERANCE = 1e-5


def session_of(path):
    import onnx
    import onnxruntime
    onnx.checker.check_model(path, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    return session, session.get_modelmeta().custom_metadata_map


def compare(name, found, wanted):
    difference = abs(found - wanted).max() / abs(wanted).max()
    print(f"{name}: {len(wanted)} samples, difference {difference:.2g}")
    return bool(difference <= TOLERANCE)


def perturb(path):
    import h5py
    random = numpy.random.RandomState(1)
    with h5py.File(path, "r+") as file:
        def change(name, item):
            if not isinstance(item, h5py.Dataset):
                return
            part = name.rsplit("/", 1)[-1]
            if part in ("gamma", "variance"):
                item[...] = random.uniform(0.5, 1.5, item.shape)
            elif part in ("beta", "mean", "biases"):
                item[...] = random.normal(0, 0.1, item.shape)
            elif part == "values":
                item[...] = random.uniform(0.1, 0.3, item.shape)
        file["parameters"].visititems(change)


def logits(path, answers):
    import h5py
    session, metadata = session_of(path)
    with h5py.File(answers, "r", locking=False) as file:
        samples, wanted = file["samples"][()], file["logits"][()]
    if "mean" in metadata:  # from what the network sees back to pixels
        mean, deviation = (numpy.array(json.loads(metadata[key])) for key in ("mean", "std"))
        pixels = numpy.rint(255 * (samples * deviation + mean))
        assert pixels.min() >= 0 and pixels.max() <= 255
        x = numpy.moveaxis(pixels / 255, -1, 1).astype("f4")
        assert list(x.shape[2:]) == json.loads(metadata["image_size"])
    else:
        x = samples.astype("i8")
    assert len(json.loads(metadata["class_names"])) == wanted.shape[1]
    one = session.run(None, {"input": x[:1]})[0]
    whole = session.run(None, {"input": x})[0]
    return compare(path, whole, wanted) and compare(f"{path}, one sample", one, wanted[:1])


def classes(path, image, line):
    session, metadata = session_of(path)
    height, width = json.loads(metadata["image_size"])
    pixels = numpy.frombuffer(pathlib.Path(image).read_bytes()[54:], "u1").reshape(height, width, 3)[::-1, :, ::-1]
    x = numpy.moveaxis(pixels / 255, -1, 0)[None].astype("f4")
    found = session.run(None, {"input": x})[0][0].astype("f8")
    found = numpy.exp(found - found.max())
    found /= found.sum()
    wanted = {entry["name"]: entry["probability"] for entry in json.loads(line)["classes"]}
    return compare(path, found[None], numpy.array([[wanted[name] for name in json.loads(metadata["class_names"])]]))


def layers(folder):
    good, count = True, 0
    for path in sorted(pathlib.Path(folder).glob("*.onnx")):
        session, _ = session_of(str(path))
        x = numpy.fromfile(path.with_suffix(".x"), "f4").reshape(-1, *session.get_inputs()[0].shape[1:])
        y = numpy.fromfile(path.with_suffix(".y"), "f4").reshape(len(x), -1)
        good &= compare(path.stem, session.run(None, {"input": x})[0], y)
        count += 1
    return good and count > 30


sys.exit(globals()[sys.argv[1]](*sys.argv[2:]) is False)
