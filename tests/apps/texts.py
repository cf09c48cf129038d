"""Texts for texts.sh, and its checks: texts.py WHAT FILE...

  make                            writes texts.csv, folder/, hard.csv and lines.txt
  answers CSV JSON                compares two outputs of classify
  page RUN                        checks that the page contains the texts as data
  example ONNX LINES TEXTS        runs the example of docs/texts.md and compares with classify. Without onnxruntime a stand-in
                                  computes the network from the .safetensors file beside it."""
import contextlib
import csv
import io
import json
import pathlib
import random
import sys
import types

import numpy
from exported_network import ExportedNetwork, example_of

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "texts.md"
WORDS = {"great": "great wonderful GOOD 好 любимый", "bad": "bad terrible \u0130ll 坏 ПЛОХО", "plain, so-so": "film sat café naïve e\u0301"}
LINES = ["Great film, a WONDERFUL one", "坏坏ПЛОХО terrible!", "café \"naïve\" sat <b>there</b>", "unknown things", "!"]


def make():
    chance = random.Random(1)
    rows = {"train": [], "test": []}
    for part, count in (("train", 100), ("test", 20)):
        for label in sorted(WORDS):
            for i in range(count):
                words = [chance.choice(WORDS[label].split() if chance.random() < 0.6 else ["the", "a", "Film\r\n", "of,", "\"it\""])
                         for _ in range(chance.randrange(6, 20))]
                rows[part].append((label, f"{i}.txt", " ".join(words)))
    # Files come in the order of their names.
    for part in rows:
        rows[part].sort()
    with open("texts.csv", "w", newline="", encoding="utf-8-sig") as out:
        writer = csv.writer(out)
        writer.writerow(["id", "label", "review", "split"])
        for part, texts in rows.items():
            for label, name, text in texts:
                writer.writerow([name, label, text, part])
                file = pathlib.Path("folder", part, label, name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(text.encode())
    with open("hard.csv", "w", newline="") as out:
        writer = csv.writer(out, delimiter=";")
        writer.writerow(["text", "class", "part"])
        for i in range(60):
            writer.writerow([f"</script><b>{i} {chance.choice(WORDS['great'].split())}; and so on {'x' * 300}", chance.choice("ab"),
                             "test" if i % 3 == 0 else "train"])
    pathlib.Path("lines.txt").write_text("\n".join(LINES) + "\n")


def answers(rows, lines):
    with open(rows, newline="") as file:
        head, *rows = csv.reader(file)
    objects = [json.loads(line) for line in pathlib.Path(lines).read_text().splitlines()]
    assert head == ["text", "predicted"] + [f"p({name})" for name in sorted(WORDS)], head
    assert len(rows) == len(objects) == len(LINES)
    for row, found, line in zip(rows, objects, LINES):
        assert row[0] == found["text"] == line, (row, found)
        assert row[1] == found["classes"][0]["name"]
        assert abs(max(map(float, row[2:])) - found["classes"][0]["probability"]) < 1e-5


def page(run):
    text = pathlib.Path(run, "report.html").read_text()
    worst = json.loads(pathlib.Path(run, "evaluation.json").read_text())["mistakes"]
    assert worst and all(mistake["text"].startswith("</script><b>") and len(mistake["text"]) == 203 for mistake in worst), worst
    assert "</script><b>" not in text and "<b>1" not in text, "a text is part of the page's code"


class StandIn(ExportedNetwork):
    """The network of one embedding, a mean and a dense layer as onnxruntime computes it."""

    def run(self, _, inputs):
        ids = inputs["input"]
        assert ids.dtype == "int64"
        vectors, = (array for array in self.arrays.values() if array.shape[0] > 1000)
        return [vectors[ids].mean(1) @ self.arrays["out.weight"].T + self.arrays["out.bias"]]


def example(onnx, lines, texts):
    code = example_of(PAGE)
    text = '"A film that I will see again."'
    assert '"films.onnx"' in code and text in code
    sessions = [StandIn]
    with contextlib.suppress(ImportError):
        import onnxruntime
        sessions.append(onnxruntime.InferenceSession)
    good = True
    rows = [json.loads(line) for line in pathlib.Path(lines).read_text().splitlines()]
    for session in sessions:
        sys.modules["onnxruntime"] = types.SimpleNamespace(InferenceSession=session)
        for row, line in zip(rows, pathlib.Path(texts).read_text().splitlines(), strict=True):
            printed, seen = io.StringIO(), {}
            with contextlib.redirect_stdout(printed):
                exec(code.replace('"films.onnx"', repr(onnx)).replace(text, repr(line)), seen)
            logits = seen["logits"][0].astype("f8")
            shares = numpy.exp(logits - logits.max())
            shares /= shares.sum()
            wanted = {entry["name"]: entry["probability"] for entry in row["classes"]}
            names = json.loads(seen["facts"]["class_names"])
            difference = max(abs(share - wanted[name]) for share, name in zip(shares, names))
            if difference > 1e-4 or printed.getvalue().strip() != row["classes"][0]["name"]:
                print(f"{line}: {printed.getvalue().strip()}, not {row['classes'][0]['name']}; differs by {difference}")
                good = False
    return good


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](*sys.argv[2:]) is False)
