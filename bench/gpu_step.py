#!/usr/bin/env python3
"""Estimates the training step of two networks on an H200: kernels, bytes and FLOP of each layer, beside the GPU's limits.

usage: bench/gpu_step.py [--markdown] [--separate]

--separate counts GELU behind batch norm as kernels of its own.

A kernel takes the longer of its bytes at 85 % of the memory's bandwidth and its FLOP at 60 % of the tensor cores' (fp32
accumulation, dense), at least 2 us, plus 1 us between kernels of a graph. Caches are not counted. Weights are converted to
bf16 in each pass. Nothing here is measured.
"""
import sys

BANDWIDTH, TENSOR = 4.8e12, 989e12  # bytes/s and FLOP/s of an H200, from its data sheet
MEMORY_SHARE, TENSOR_SHARE, SHORTEST, GAP = 0.85, 0.60, 2e-6, 1e-6


class Step:
    def __init__(self, batch, shape):
        self.batch, self.shape, self.rows, self.first = batch, shape, {}, True

    def kernel(self, part, moved, flop=0, count=1):
        kernels, total, flops, time = self.rows.get(part, (0, 0, 0, 0))
        each = max(moved / count / (BANDWIDTH * MEMORY_SHARE), flop / count / (TENSOR * TENSOR_SHARE), SHORTEST) + GAP
        self.rows[part] = kernels + count, total + moved, flops + flop, time + count * each

    def elements(self):
        height, width, channels = self.shape
        return self.batch * height * width * channels

    def affine(self, filters, window, same=True, bias=True, frozen=False):
        height, width, channels = self.shape
        x = self.elements()
        if not same:
            height, width = height - window + 1, width - window + 1
        weights = window * window * channels * filters
        self.shape = height, width, filters
        y = self.elements()
        flop = 2 * weights * self.batch * height * width
        self.kernel("convolutions and dense layers", 2 * (x + y + weights), flop)
        self.kernel("converted weights", 6 * weights)
        if not self.first:
            self.kernel("convolutions and dense layers", 2 * (x + y + weights), flop)
            self.kernel("converted weights", 6 * weights)
        if not frozen:
            self.kernel("convolutions and dense layers", 2 * (x + y + weights), flop)
            self.kernel("converted weights", 6 * weights)
        if bias:
            self.kernel("sums of biases", 2 * y, count=2)
        self.first = False

    def pool(self, window, stride, same=False):
        x = self.elements()
        height, width, channels = self.shape
        out = (lambda n: -(-n // stride)) if same else (lambda n: (n - window) // stride + 1)
        self.shape = out(height), out(width), channels
        self.kernel("pools", 2 * (x + self.elements()))
        self.kernel("pools", 2 * (2 * x + self.elements()))

    def batch_norm(self, activation):
        """Two passes over x forward, and two over x and dy backward. The activation is a part of the second passes."""
        if activation and "--separate" in sys.argv:
            self.batch_norm(activation=False)
            return self.elementwise("GELU")
        x = 2 * self.elements()
        self.kernel("batch norm", x, count=2)
        self.kernel("batch norm", 2 * x + (x if activation else 0))
        self.kernel("batch norm", (3 if activation else 2) * x, count=2)
        self.kernel("batch norm", (4 if activation else 3) * x)

    def elementwise(self, part):
        x = 2 * self.elements()
        self.kernel(part, 2 * x)
        self.kernel(part, 3 * x)

    def muon(self, filters, iterations):
        """Groups of filters with one shape: normalisation, three products per iteration, and the step."""
        for count, rows, columns in filters:
            weights = count * rows * columns
            self.kernel("optimizer", 4 * 6 * weights, count=4)
            for _ in range(iterations):
                self.kernel("optimizer", 4 * (weights + count * rows * rows), 2 * weights * rows)
                self.kernel("optimizer", 4 * 3 * count * rows * rows, 2 * count * rows**3)
                self.kernel("optimizer", 4 * (2 * weights + count * rows * rows), 2 * weights * rows)

    def update(self, parameters, kernels, arenas):
        self.kernel("optimizer", 4 * arenas * parameters, count=kernels)

    def ends(self, classes, pixels):
        self.kernel("samples, loss and step header", self.batch * pixels * 3)
        self.kernel("samples, loss and step header", self.batch * classes * 4)
        self.kernel("samples, loss and step header", 1000, count=4)


def airbench94():
    step = Step(2000, (32, 32, 3))
    step.affine(24, 2, same=False, frozen=True)
    step.elementwise("GELU")
    for filters in 64, 256, 256:
        step.affine(filters, 3, bias=False)
        step.pool(2, 2)
        step.batch_norm(activation=True)
        step.affine(filters, 3, bias=False)
        step.batch_norm(activation=True)
    step.pool(3, 3)
    step.affine(10, 1, bias=False)
    step.elementwise("scaled logits")
    step.muon([(1, 64, 216), (1, 64, 576), (1, 256, 576), (3, 256, 2304)], 3)
    step.update(10_000, 8, 4)
    step.ends(10, 32 * 32 * 3)
    return step


def tutorial():
    step = Step(128, (24, 24, 3))
    step.affine(64, 5)
    step.pool(3, 2, same=True)
    step.elementwise("response norm")
    step.affine(64, 5)
    step.elementwise("response norm")
    step.pool(3, 2, same=True)
    step.shape = 1, 1, 6 * 6 * 64
    for features in 384, 192, 10:
        step.affine(features, 1)
    step.update(1_068_298, 7, 5)
    step.ends(10, 24 * 24 * 3)
    return step


for name, step in ("airbench94, batch 2000, bf16", airbench94()), ("tutorial, batch 128, bf16", tutorial()):
    print(f"**{name}**\n" if "--markdown" in sys.argv else name)
    lines = [("part", "kernels", "MB", "GFLOP", "limit ms", "estimate ms"), ("---",) * 6]
    rows = list(step.rows.items())
    rows.append(("all", tuple(sum(row[i] for _, row in rows) for i in range(4))))
    for part, (kernels, moved, flop, time) in rows:
        limit = sum(max(m / BANDWIDTH, f / TENSOR) for p, (_, m, f, _) in step.rows.items() if part in (p, "all"))
        lines.append((part, str(kernels), f"{moved / 1e6:.0f}", f"{flop / 1e9:.1f}", f"{1e3 * limit:.3f}", f"{1e3 * time:.3f}"))
    if "--markdown" in sys.argv:
        print("\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n")
    else:
        print("\n".join(f"{a:32}{b:>8}{c:>8}{d:>9}{e:>10}{f:>13}" for a, b, c, d, e, f in lines if a != "---") + "\n")
