#!/usr/bin/env python3
"""Images per second of processor time of SPDL and of torchvision's DataLoader on a folder of photos, for comparison with
bench_loader: random resized crop, horizontal flip and normalisation, with one decoding thread.

usage: photo_loaders.py PHOTOS [--edge 224] [--seconds 5] [--rounds 3] [--make N]
(with torch, torchvision, spdl, pillow and numpy; spdl also needs the libraries of FFmpeg)

SPDL decodes, crops and resizes in FFmpeg. Its own examples leave normalisation to the GPU, so both are measured.
--make N writes N photos into PHOTOS/train and PHOTOS/val first: 500x375 pixels, noise with the spectrum of natural images
(amplitude 1/f), JPEG quality 90, 4:2:0, about 100 KB each."""

import argparse
import io
import pathlib
import random
import statistics
import time

import numpy
import torch
import torchvision
from PIL import Image
from torchvision import transforms

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BATCH = 64


def photo(generator, height=375, width=500):
    frequency = numpy.hypot(numpy.fft.fftfreq(height)[:, None], numpy.fft.rfftfreq(width)[None, :])
    frequency[0, 0] = 1
    planes = []
    for _ in range(3):
        noise = generator.normal(size=frequency.shape) + 1j * generator.normal(size=frequency.shape)
        plane = numpy.fft.irfft2(noise / frequency, s=(height, width))
        planes.append((plane - plane.mean()) / plane.std())
    grey, *colours = planes
    rgb = [128 + 50 * grey + 12 * c for c in (colours[0], -colours[1], colours[1] - colours[0])]
    return numpy.clip(numpy.stack(rgb, -1), 0, 255).astype("uint8")


def make(folder, count):
    generator = numpy.random.default_rng(1)
    for i in range(count):
        part = "val" if i % 10 == 0 else "train"
        name = pathlib.Path(folder, part, "ab"[i % 2 if part == "train" else i // 10 % 2], f"{i}.jpg")
        name.parent.mkdir(parents=True, exist_ok=True)
        file = io.BytesIO()
        Image.fromarray(photo(generator)).save(file, "JPEG", quality=90, subsampling=2)
        name.write_bytes(file.getvalue())


def torchvision_batches(photos, edge):
    steps = [transforms.RandomResizedCrop(edge), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
             transforms.Normalize(MEAN, DEVIATION)]
    images = torchvision.datasets.ImageFolder(photos, transforms.Compose(steps))
    loader = torch.utils.data.DataLoader(images, batch_size=BATCH, shuffle=True, num_workers=0, drop_last=True)
    while True:
        yield from loader


def spdl_batches(photos, edge, normalise):
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    files = [str(path) for path in sorted(photos.glob("*/*.jpg"))]
    mean, deviation = (255 * torch.tensor(values).view(3, 1, 1) for values in (MEAN, DEVIATION))

    def endless():
        while True:
            yield from random.sample(files, len(files))

    def decode(path):
        packets = spdl.io.demux_image(path)
        sizes = torch.empty(1, packets.height, packets.width)
        top, left, height, width = transforms.RandomResizedCrop.get_params(sizes, (0.08, 1), (3 / 4, 4 / 3))
        mirror = ",hflip" if random.random() < 0.5 else ""
        return spdl.io.decode_packets(packets, filter_desc=f"crop={width}:{height}:{left}:{top},"
                                      f"scale={edge}:{edge}:flags=bilinear{mirror},format=rgb24")

    def join(frames):
        pixels = spdl.io.to_torch(spdl.io.convert_frames(frames)).permute(0, 3, 1, 2)
        return (pixels.float() - mean) / deviation if normalise else pixels

    pipeline = PipelineBuilder().add_source(endless()).pipe(decode).aggregate(BATCH).pipe(join).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        yield from pipeline


def rate(batches, seconds):
    """Images per second of processor time of all threads of this process."""
    for _ in range(8):  # those that were prepared ahead
        next(batches)
    seen, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        next(batches)
        seen += BATCH
    return seen / (time.process_time() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("photos")
    parser.add_argument("--edge", type=int, default=224)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--make", type=int, default=0)
    options = parser.parse_args()
    if options.make:
        make(options.photos, options.make)
    torch.set_num_threads(1)
    photos = pathlib.Path(options.photos, "train")
    loaders = {"torchvision": lambda: torchvision_batches(photos, options.edge),
               "SPDL, pixels as bytes": lambda: spdl_batches(photos, options.edge, False),
               "SPDL, normalised": lambda: spdl_batches(photos, options.edge, True)}
    rates = {name: [] for name in loaders}
    for _ in range(options.rounds):
        for name, make_batches in loaders.items():
            batches = make_batches()
            rates[name].append(rate(batches, options.seconds))
            batches.close()
    for name, values in rates.items():
        print(f"{name:<24} {statistics.median(values):6.0f} images/s of a core")


if __name__ == "__main__":
    main()
