#!/usr/bin/env python3
"""Fine-tunes torchvision's resnet18 on a folder of class folders under PyTorch's DistributedDataParallel, for comparison
with the same task in Lockstep: a tenth of the images validates, random resized crop, horizontal flip, SGD with momentum
and a cosine schedule, an evaluation after each epoch. Prints seconds and accuracy.

usage: finetune.py PHOTOS [--init FILE.safetensors] [--edge 64] [--epochs 6] [--batch 64] [--lr 0.01] [--ranks 2]
(with torch, torchvision, safetensors, pillow)"""

import argparse
import os
import tempfile
import time


def loaders(options, rank):
    import torch
    from PIL import Image
    from torchvision import datasets, transforms

    scale = transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    train = transforms.Compose([transforms.RandomResizedCrop(options.edge), transforms.RandomHorizontalFlip(),
                                transforms.ToTensor(), scale])
    test = transforms.Compose([transforms.Resize(options.edge * 8 // 7), transforms.CenterCrop(options.edge),
                               transforms.ToTensor(), scale])

    def whole(name):
        try:
            Image.open(name).verify()
            return True
        except Exception:
            return False

    sets = [datasets.ImageFolder(options.photos, transform, is_valid_file=whole) for transform in (train, test)]
    order = torch.randperm(len(sets[0]), generator=torch.Generator().manual_seed(1)).tolist()
    cut = len(order) // 10
    parts = [torch.utils.data.Subset(sets[0], order[cut:]), torch.utils.data.Subset(sets[1], order[:cut])]
    sampler = torch.utils.data.DistributedSampler(parts[0], options.ranks, rank, drop_last=True)
    workers = {"num_workers": 1, "persistent_workers": True}
    return (torch.utils.data.DataLoader(parts[0], options.batch, sampler=sampler, drop_last=True, **workers),
            torch.utils.data.DataLoader(parts[1], options.batch, **workers), len(sets[0].classes))


def run(rank, options, rendezvous, started):
    import torch
    from torch import nn
    from torchvision import models

    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank,
                                         world_size=options.ranks)
    train, test, classes = loaders(options, rank)
    model = models.resnet18(num_classes=classes)
    if options.init:
        from safetensors.torch import load_file

        weights = {name: value for name, value in load_file(options.init).items() if not name.startswith("fc.")}
        model.load_state_dict(weights, strict=False)
    model = nn.parallel.DistributedDataParallel(model.to(memory_format=torch.channels_last))
    optimizer = torch.optim.SGD(model.parameters(), options.lr, momentum=0.9, weight_decay=1e-4, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(train))
    for epoch in range(options.epochs):
        train.sampler.set_epoch(epoch)
        model.train()
        for images, labels in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images.to(memory_format=torch.channels_last)), labels)
            loss.backward()
            optimizer.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            right = [(model.module(x.to(memory_format=torch.channels_last)).argmax(1) == y).float().sum()
                     for x, y in test] if rank == 0 else []
        if rank == 0:
            print(f"epoch {epoch + 1}: {time.time() - started:.1f} s, accuracy {sum(right) / len(test.dataset):.4f}",
                  flush=True)
        torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("--init")
    for name, value in (("edge", 64), ("epochs", 6), ("batch", 64), ("ranks", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lr", type=float, default=0.01)
    options = parser.parse_args()
    started = time.time()
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    import torch.multiprocessing

    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run, args=(options, os.path.join(folder, "rendezvous"), started),
                                    nprocs=options.ranks)


if __name__ == "__main__":
    main()
