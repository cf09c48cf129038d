#!/usr/bin/env python3
"""Writes photo_edits.json beside this file: what torchvision's functions for uint8 tensors make of the same picture.

usage: photo_edits.py (with torch and torchvision; tests/unit/photo_edits.cc reads the file)
"""

import json
import pathlib

import torch
from torchvision.transforms import InterpolationMode, TrivialAugmentWide
from torchvision.transforms import functional as F
from torchvision.transforms.autoaugment import _apply_op

HEIGHT, WIDTH = 11, 13
torch.manual_seed(3)
# A slope with noise, so that no operation is idle.
SLOPE = torch.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) * 200 / (HEIGHT * WIDTH)
IMAGE = torch.stack([SLOPE, SLOPE.flip(0), SLOPE.flip(1)]) + 40 * torch.rand(3, HEIGHT, WIDTH)
IMAGE = IMAGE.clamp(0, 255).to(torch.uint8)


def text(image):
    return bytes(image.permute(1, 2, 0).contiguous().flatten().tolist()).hex()


def colours():
    for name in ("brightness", "contrast", "saturation", "hue"):
        for factor in (-0.4, -0.1, 0.27, 0.5) if name == "hue" else (0.0, 0.3, 1.0, 1.7):
            yield {"name": name, "factor": factor, "image": text(getattr(F, "adjust_" + name)(IMAGE, factor))}


def operations():
    table = TrivialAugmentWide()._augmentation_space(31)
    for number, (name, (strengths, signed)) in enumerate(table.items()):
        for bin_, sign in ((4, 1), (17, -1), (30, 1)):
            strength = float(strengths[bin_]) if strengths.ndim > 0 else 0.0
            edited = _apply_op(IMAGE, name, strength * (sign if signed else 1), InterpolationMode.NEAREST, None)
            yield {"number": number, "name": name, "bin": bin_, "negative": sign < 0, "image": text(edited)}


def parts():
    for top, left, height, width, edge in ((0, 0, 11, 13, 5), (2, 3, 9, 8, 6), (1, 5, 5, 4, 12), (3, 0, 8, 13, 7)):
        edited = F.resized_crop(IMAGE, top, left, height, width, [edge, edge], InterpolationMode.BILINEAR, antialias=True)
        yield {"box": [top, left, height, width], "edge": edge, "image": text(edited)}


def main():
    lines = [f'"height": {HEIGHT}, "width": {WIDTH}, "image": "{text(IMAGE)}"']
    for name, cases in (("colours", colours()), ("operations", operations()), ("parts", parts())):
        lines.append(f'"{name}": [\n' + ",\n".join(json.dumps(case) for case in cases) + "]")
    pathlib.Path(__file__).with_suffix(".json").write_text("{" + ",\n".join(lines) + "}\n")


main()
