"""The example of docs/models.md and classify: export_example.py WHAT FILE...

  images FOLDER                    makes image files of many shapes and formats in FOLDER/a and FOLDER/b
  weights CHECKPOINT               makes every pixel count in a network of one dense layer
  run ONNX LINES [LOGITS]          runs the example on the files of LINES, those of classify --json, and compares the classes
                                   and probabilities; with LOGITS, of evaluate --logits, also the pixels

Without onnxruntime a stand-in of 20 lines computes the network, with the weights and metadata of the .safetensors file
beside ONNX. The example itself runs unchanged."""
import contextlib
import io
import itertools
import json
import os
import pathlib
import sys
import types

import numpy
from exported_network import ExportedNetwork, example_of

SHAPES = ((240, 96), (96, 240), (33, 47), (200, 200), (1, 50), (50, 1), (641, 479), (30, 500))
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "models.md"


def images(folder):
    from PIL import Image
    random = numpy.random.RandomState(1)

    def picture(width, height):  # smooth noise, and other colours at the sides than in the middle
        noise = Image.fromarray(random.randint(0, 256, (9, 9, 3), "u1")).resize((width, height), Image.BICUBIC)
        pixels = numpy.array(noise)
        pixels[:, : width // 4, 0] //= 3
        pixels[: height // 4, :, 2] //= 3
        return Image.fromarray(pixels)

    def save(image, name, **options):
        image.save(os.path.join(folder, "ab"[next(count) % 2], name), **options)

    count = itertools.count()
    for name in "ab":
        os.makedirs(os.path.join(folder, name))
    for width, height in SHAPES:
        image, size = picture(width, height), f"{width}x{height}"
        alpha = image.copy()
        alpha.putalpha(image.getchannel(1))
        save(image, size + ".jpg", quality=90)
        save(image, size + ".png")
        save(alpha, size + ".rgba.png")
        save(image, size + ".webp", quality=80)
        save(alpha, size + ".alpha.webp", lossless=True)
        save(image, size + ".bmp")
        save(image.convert("P"), size + ".gif")
    image = picture(150, 110)
    save(image, "fine.jpg", quality=95, subsampling=0)
    save(image, "progressive.JPEG", quality=70, progressive=True)
    save(image.convert("L"), "grey.jpg")
    save(image.convert("L"), "grey.png")
    save(image.convert("LA"), "grey.alpha.png")
    save(image.convert("P"), "palette.png")
    save(image.convert("P"), "clear.png", transparency=3)
    save(image.convert("1"), "bits.png")
    deep = Image.frombytes("I;16", image.size, b"".join(bytes([v * 7 % 256, v]) for v in image.convert("L").tobytes()))
    save(deep, "deep.png")
    save(deep, "deep.tif")
    for turn in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = turn
        save(image, f"turned{turn}.jpg", exif=exif)
    save(image, "turned.webp", exif=exif)
    save(image, "turned.png", exif=exif)


def weights(path):
    import h5py
    random = numpy.random.RandomState(2)
    with h5py.File(path, "r+") as file:
        values = file["parameters/out/weights"]
        values[...] = random.normal(0, 3 / numpy.sqrt(values.shape[1]), values.shape)


class StandIn(ExportedNetwork):
    """The network as onnxruntime computes it."""

    def run(self, outputs, inputs):
        facts, pixels = self.header["__metadata__"], inputs["input"]
        assert outputs is None and pixels.dtype == "f4" and list(pixels.shape[2:]) == json.loads(facts["image_size"])
        mean, deviation = (numpy.array(json.loads(facts[key]))[:, None, None] for key in ("mean", "std"))
        x = ((pixels - mean) / deviation).transpose(0, 2, 3, 1).reshape(len(pixels), -1)
        return [x @ self.arrays["out.weight"].T + self.arrays["out.bias"]]


def answers_of(session, onnx, path, code):
    """Returns the text that the example prints for a file, its pixels and logits."""
    seen = {}

    class Session:
        def __init__(self, name):
            assert name == onnx
            self.get_modelmeta = session.get_modelmeta

        def run(self, outputs, inputs):
            seen["pixels"], seen["logits"] = inputs["input"], session.run(outputs, inputs)
            return seen["logits"]

    sys.modules["onnxruntime"] = types.SimpleNamespace(InferenceSession=Session)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.replace('"runs/first.onnx"', repr(onnx)).replace('"new.jpg"', repr(path)), {})
    return printed.getvalue().strip(), seen["pixels"], seen["logits"][0][0].astype("f8")


def sessions_of(onnx):
    sessions = {"the stand-in": StandIn(onnx)}
    with contextlib.suppress(ImportError):
        import onnxruntime
        sessions["onnxruntime"] = onnxruntime.InferenceSession(onnx)
    return sessions


def run(onnx, lines, answers=None):
    code, good, worst = example_of(PAGE), True, [0, 0]
    assert '"runs/first.onnx"' in code and '"new.jpg"' in code
    rows = [json.loads(line) for line in pathlib.Path(lines).read_text().splitlines()]
    samples = {}
    if answers:
        import h5py
        with h5py.File(answers, "r", locking=False) as file:
            samples = dict(zip((row["file"] for row in rows), file["samples"][()]))
    for name, session in sessions_of(onnx).items():
        facts = session.get_modelmeta().custom_metadata_map
        mean, deviation = (numpy.array(json.loads(facts[key])) for key in ("mean", "std"))
        for row in rows:
            printed, pixels, logits = answers_of(session, onnx, row["file"], code)
            found = numpy.exp(logits - logits.max())
            wanted = {entry["name"]: entry["probability"] for entry in row["classes"]}
            wanted = numpy.array([wanted[one] for one in json.loads(facts["class_names"])])
            difference = abs(found / found.sum() - wanted).max()
            tie = numpy.ptp(numpy.sort(wanted)[-2:]) < 0.04
            apart = 0
            if row["file"] in samples:
                apart = 255 * abs(pixels[0].transpose(1, 2, 0) - (samples[row["file"]] * deviation + mean)).max()
            worst = [max(worst[0], difference), max(worst[1], apart)]
            if difference > 0.02 or apart > 1.01 or (printed != row["classes"][0]["name"] and not tie):
                print(f"{name}: {row['file']}: probabilities differ by {difference:.3f}, pixels by {apart:.1f}; "
                      f"{printed}, not {row['classes'][0]['name']}")
                good = False
        print(f"{name}: {len(rows)} files, {len(samples)} with pixels: probabilities differ by at most {worst[0]:.2g}, "
              f"pixels by {worst[1]:.2g}")
    return good and len(rows) > 40


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](*sys.argv[2:]) is False)
