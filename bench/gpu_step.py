#!/usr/bin/env python3
"""Estimates training steps on an H200: kernels, bytes and FLOP of each kind of layer, beside the GPU's limits.

usage: bench/gpu_step.py [--markdown] [BUILD_FOLDER [MODEL BATCH OPTIMIZER]]     (default: build, and five networks)

BUILD_FOLDER/count_kernels names the layers and counts the kernels. This script knows the bytes that each kind of layer moves
in bf16, once per kernel. Caches are not counted. A kernel takes the longer of its bytes at 85 % of the memory's bandwidth and
its FLOP at 60 % of the tensor cores' (fp32 accumulation, dense), at least 2 us, plus 1 us between kernels of a graph. "other"
are counted kernels of no rule, at the least time. Nothing here is measured.
"""
import json
import math
import subprocess
import sys

BANDWIDTH, TENSOR = 4.8e12, 989e12  # bytes/s and FLOP/s of an H200, from its data sheet
MEMORY_SHARE, TENSOR_SHARE, SHORTEST, GAP = 0.85, 0.60, 2e-6, 1e-6
NETWORKS = [("airbench94", 2000, "muon,newton-schulz=3"), ("tutorial", 128, "sgd"), ("vit_b_16", 128, "adamw"),
            ("mobilenet_v3_large", 128, "rmsprop"), ("convnext_tiny", 128, "adamw")]
AFFINE = "convolutions and dense layers"
HEAD = 64  # features of a head of attention
# Kind: part, then bytes of each kernel forward and backward, in arrays as large as (x, y).
ARRAYS = {
    "layer_norm": ("layer norm", [(1, 1)], [(1, 1), (0, 0), (2, 1)]),
    "layer_scale": ("layer scale", [(1, 1)], [(1, 1), (0, 0), (1, 1)]),
    "scale": ("squeeze and excitation", [(1, 0), (0, 0), (1, 1)], [(1, 1), (0, 0), (1, 1)]),
    "sum": ("sums of branches", [(2, 1)], [(2, 1)]),
    "class_token": ("tokens", [(1, 1)], [(0, 0), (1, 1)]),
    "position_embedding": ("tokens", [(1, 1)], [(0, 1), (1, 1)]),
    "first_token": ("tokens", [(0, 2)], [(1, 1)]),
    "max_pool": ("pools", [(1, 1)], [(2, 1)]),
    "average_pool": ("pools", [(1, 1)], [(1, 1)]),
    "global_average_pool": ("pools", [(1, 0)], [(1, 0)]),
    "response_norm": ("response norm", [(1, 1)], [(2, 1), (0, 0)]),
    "rescale": ("scaled logits", [(1, 1)], [(1, 1)]),
    "dropout": ("dropout", [(1, 1)], [(1, 1)]),
    "stochastic_depth": ("dropout", [(1, 1)], [(1, 1)]),
    "flatten": ("", [], []),
}
UNITS = "relu", "gelu", "silu", "hard_swish", "hard_sigmoid"


def extents(text):
    return [int(extent) for extent in text.split("x")]


class Step:
    def __init__(self, build, model, batch, optimizer):
        command = [f"{build}/count_kernels", model, str(batch), "bf16", optimizer, "--json"]
        self.counted = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        self.title, self.rows = f"{model}, batch {batch}, bf16", {}
        self.layers = self.counted["layers"]
        for layer in self.layers:
            layer["y"] = extents(layer["output"])
        for layer in self.layers:
            first = layer["inputs"][0]
            layer["x"] = self.layers[first]["y"] if first >= 0 else extents(self.counted["input"])
        affine = [layer for layer in self.layers if layer["kind"] in ("conv1d", "conv2d", "dense")]
        products = sum(layer["kind"] == "attention" for layer in self.layers)
        # Attention's products are passes too: see src/device/cuda/product.cc.
        data = self.passes("LibraryBackwardData") - 2 * products
        weights = self.passes("LibraryBackwardWeights") - 2 * products
        for number, layer in enumerate(affine):  # the first layers may lack passes
            self.affine(layer, 1 + (number >= len(affine) - data) + (number >= len(affine) - weights))
        for layer in self.layers:
            if layer not in affine:
                self.layer(layer)
        before = sum(row[0] for row in self.rows.values())
        counted = self.count("forward") + self.count("backward")
        if counted > before:
            self.kernel("other", 0, count=counted - before)
        elif counted < before:
            print(f"{self.title}: {before} kernels by the rules, {counted} counted", file=sys.stderr)
        self.optimizer(optimizer, affine)
        pixels = math.prod(extents(self.counted["input"])[1:])
        part = "samples, loss and step header"
        self.kernel(part, batch * pixels * 3)
        self.kernel(part, batch * self.layers[-1]["y"][-1] * 4)
        self.kernel(part, 1000, count=4)

    def count(self, part):
        return sum(self.counted["kernels"][part].values())

    def passes(self, body):
        return sum(count for part in ("forward", "backward") for name, count in self.counted["kernels"][part].items()
                   if name.endswith(body))

    def kernel(self, part, moved, flop=0, count=1):
        kernels, total, flops, time = self.rows.get(part, (0, 0, 0, 0))
        each = max(moved / count / (BANDWIDTH * MEMORY_SHARE), flop / count / (TENSOR * TENSOR_SHARE), SHORTEST) + GAP
        self.rows[part] = kernels + count, total + moved, flops + flop, time + count * each

    def affine(self, layer, passes):
        x, y, adds = math.prod(layer["x"]), math.prod(layer["y"]), layer["multiply_adds"]
        weights = adds * layer["y"][-1] / y
        for _ in range(passes):
            self.kernel(AFFINE, 2 * (x + y + weights), 2 * adds)
            self.kernel("converted weights", 6 * weights)
        if layer["parameters"] % weights:
            self.kernel("converted weights", 6 * layer["y"][-1])
            self.kernel("sums of biases", 2 * y)
            self.kernel("sums of biases", 0)

    def layer(self, layer):
        kind, x, y = layer["kind"], 2 * math.prod(layer["x"]), 2 * math.prod(layer["y"])
        if kind == "attention":
            return self.attention(layer)
        if kind == "batch_norm":
            replaces = "gelu" in layer["implementation"]
            for moved in (x, 0, 2 * x, (3 if replaces else 2) * x, 0, 3 * x):
                self.kernel("batch norm", moved)
            return None
        part, forward, backward = ARRAYS.get(kind, (kind, [(1, 1)], [(2, 1)] if kind in UNITS else [(1, 1)]))
        for of_x, of_y in forward + backward:
            self.kernel("units" if kind in UNITS else part, of_x * x + of_y * y)
        return None

    def attention(self, layer):
        batch, length, features = layer["y"]
        padded = -(-length // 8) * 8
        matrix, scores = batch * padded * features, batch * features // HEAD * padded * padded
        for arrays in 6, 2, 6, 2, 6:
            self.kernel("attention: copies", 2 * arrays * matrix)
        for moved in (4 * matrix + 4 * scores, 4 * matrix + 4 * scores, *(4 * [4 * matrix + 2 * scores])):
            self.kernel("attention: products", moved, layer["multiply_adds"])
        self.kernel("attention: softmax", 6 * scores)
        self.kernel("attention: softmax", 8 * scores)

    def optimizer(self, name, affine):
        count, parameters = self.count("optimizer"), self.counted["parameters"]
        arrays = {"sgd": 5, "adamw": 7, "rmsprop": 7}.get(name, 5)
        if not name.startswith("muon"):
            return self.kernel("optimizer", 4 * arrays * parameters, count=count)
        products = self.counted["kernels"]["optimizer"]
        products = sum(number for body, number in products.items() if "Library" in body)
        self.kernel("optimizer", 4 * 6 * parameters, count=count - products)
        flop = moved = 0
        iterations = int(name.partition("=")[2] or 5)
        for layer in affine:  # three products per iteration
            rows = layer["y"][-1]
            weights = layer["multiply_adds"] * rows / math.prod(layer["y"])
            flop += iterations * (4 * weights * rows + 2 * rows**3)
            moved += iterations * 4 * (3 * weights + 5 * rows * rows)
        return self.kernel("optimizer", moved, flop, products)

    def print(self, markdown):
        print(f"{self.title}\n")
        lines = [("part", "kernels", "MB", "GFLOP", "limit ms", "estimate ms"), ("---",) * 6]
        rows = list(self.rows.items())
        rows.append(("all", tuple(sum(row[i] for _, row in rows) for i in range(4))))
        for part, (kernels, moved, flop, time) in rows:
            limit = sum(max(m / BANDWIDTH, f / TENSOR) for p, (_, m, f, _) in self.rows.items() if part in (p, "all"))
            lines.append((part, str(kernels), f"{moved / 1e6:.0f}", f"{flop / 1e9:.1f}", f"{1e3 * limit:.3f}", f"{1e3 * time:.3f}"))
        if markdown:
            print("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n")
        else:
            print("\n".join(f"{a:32}{b:>8}{c:>8}{d:>10}{e:>10}{f:>13}" for a, b, c, d, e, f in lines if a != "---") + "\n")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--markdown"]
    networks = [(words[1], int(words[2]), words[3])] if len(words) == 4 else NETWORKS
    for network in networks:
        Step(words[0] if words else "build", *network).print("--markdown" in sys.argv)
