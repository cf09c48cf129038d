#!/usr/bin/env python3
"""Images per second of processor time of torchvision's DataLoader on a folder of photos, for comparison with
bench_loader: random resized crop, horizontal flip, normalisation, without worker processes.

usage: torchvision_loader.py PHOTOS [--edge 224] [--seconds 5] [--make N]   (with torch, torchvision, pillow, numpy)

--make N writes N photos into PHOTOS/train and PHOTOS/val first: 500x375 pixels, noise with the spectrum of natural images
(amplitude 1/f), JPEG quality 90, 4:2:0, about 100 KB each."""

import argparse
import io
import pathlib
import time

import numpy
import torch
import torchvision
from PIL import Image
from torchvision import transforms


def photo(random, height=375, width=500):
    frequency = numpy.hypot(numpy.fft.fftfreq(height)[:, None], numpy.fft.rfftfreq(width)[None, :])
    frequency[0, 0] = 1
    planes = []
    for _ in range(3):
        noise = random.normal(size=frequency.shape) + 1j * random.normal(size=frequency.shape)
        plane = numpy.fft.irfft2(noise / frequency, s=(height, width))
        planes.append((plane - plane.mean()) / plane.std())
    grey, *colours = planes
    rgb = [128 + 50 * grey + 12 * c for c in (colours[0], -colours[1], colours[1] - colours[0])]
    return numpy.clip(numpy.stack(rgb, -1), 0, 255).astype("uint8")


def make(folder, count):
    random = numpy.random.default_rng(1)
    for i in range(count):
        part = "val" if i % 10 == 0 else "train"
        name = pathlib.Path(folder, part, "ab"[i % 2 if part == "train" else i // 10 % 2], f"{i}.jpg")
        name.parent.mkdir(parents=True, exist_ok=True)
        file = io.BytesIO()
        Image.fromarray(photo(random)).save(file, "JPEG", quality=90, subsampling=2)
        name.write_bytes(file.getvalue())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("photos")
    parser.add_argument("--edge", type=int, default=224)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--make", type=int, default=0)
    options = parser.parse_args()
    if options.make:
        make(options.photos, options.make)
    torch.set_num_threads(1)
    steps = [transforms.RandomResizedCrop(options.edge), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
             transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    images = torchvision.datasets.ImageFolder(pathlib.Path(options.photos, "train"), transforms.Compose(steps))
    loader = torch.utils.data.DataLoader(images, batch_size=64, shuffle=True, num_workers=0, drop_last=True)
    next(iter(loader))
    seen, start = 0, time.process_time()
    while time.process_time() - start < options.seconds:
        for batch, _ in loader:
            seen += len(batch)
            if time.process_time() - start >= options.seconds:
                break
    rate = seen / (time.process_time() - start)
    print(f"torchvision {torchvision.__version__}: {rate:.0f} images/s of a core")


if __name__ == "__main__":
    main()
