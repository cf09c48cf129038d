"""What tests of the examples of ONNX files share: an exported network in the place of onnxruntime, and the code of a page."""
import itertools
import json
import pathlib
import types

import numpy


class ExportedNetwork:
    """The .safetensors file beside an ONNX file, with the calls of an InferenceSession that read metadata."""

    def __init__(self, path):
        data = pathlib.Path(path).with_suffix(".safetensors").read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        self.header = json.loads(data[8:end])
        self.arrays = {name: numpy.frombuffer(data[end:][slice(*entry["data_offsets"])], "f4").reshape(entry["shape"])
                       for name, entry in self.header.items() if name != "__metadata__"}

    def get_modelmeta(self):
        return types.SimpleNamespace(custom_metadata_map=self.header["__metadata__"])


def example_of(page):
    """Returns the code of a page from the import of onnxruntime on."""
    text = page.read_text()
    lines = text[text.index("    import json, numpy, onnxruntime"):].splitlines()
    return "\n".join(line[4:] for line in itertools.takewhile(lambda line: not line or line.startswith("    "), lines))
