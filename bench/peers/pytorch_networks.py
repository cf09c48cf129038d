"""The networks of apps/networks in PyTorch, layer by layer.

They use channels_last, so flattening is a view. Convolutions over a text are those of images with height 1. ReLU follows
a max pool: the result is the same, and there are fewer elements. A parameter's `decay` is its L2.
"""

import math

import torch
from torch import nn
from torch.nn import functional


class Flatten(nn.Module):
    def forward(self, x):
        return x.permute(0, 2, 3, 1).flatten(1)


class ResponseNorm(nn.Module):
    """Computes x / (1 + alpha * sum of squares of 9 neighbouring channels)^0.75 with alpha = 0.001 / 9, as TensorFlow.
    It uses a pool over the channels and two reciprocal square roots, because torch's own layer is several times slower."""

    def forward(self, x):
        pixels = x.permute(0, 2, 3, 1).flatten(1, 2)  # a view in channels_last
        mean = functional.avg_pool1d(pixels.square(), kernel_size=9, stride=1, padding=4)
        root = torch.add(1.0, mean, alpha=0.001).rsqrt()
        return (pixels * (root * root.sqrt())).view(x.shape[0], x.shape[2], x.shape[3], -1).permute(0, 3, 1, 2)


class Words(nn.Module):
    """An embedding. Texts become images of height 1 with one channel per component."""

    def __init__(self, vocabulary, size):
        super().__init__()
        self.table = nn.Embedding(vocabulary, size)

    def forward(self, words):
        return self.table(words).unsqueeze(1).permute(0, 3, 1, 2)


class Block(nn.Module):
    """Two convolutions, plus the input. If the shape changes, the input passes a convolution (`project`), or its
    pixels get zeros as additional channels."""

    def __init__(self, channels, filters, stride, project, decay):
        super().__init__()
        self.branch = nn.Sequential(
            *normalised(channels, filters, 3, stride, decay), nn.ReLU(inplace=True),
            *normalised(filters, filters, 3, 1, decay))
        self.stride, self.more = stride, filters - channels
        self.shortcut = (nn.Sequential(*normalised(channels, filters, 1, stride, decay))
                         if project and self.more else None)

    def forward(self, x):
        if self.shortcut is not None:
            shortcut = self.shortcut(x)
        elif self.more:
            pixels = x.permute(0, 2, 3, 1)[:, ::self.stride, ::self.stride]
            shortcut = functional.pad(pixels, (self.more // 2, self.more // 2)).permute(0, 3, 1, 2)
        else:
            shortcut = x
        return functional.relu_(self.branch(x).add_(shortcut))


class Shift(nn.BatchNorm2d):
    """Batch norm without a scale."""

    def __init__(self, channels):
        super().__init__(channels, eps=1e-12, momentum=0.4)
        del self.weight
        self.register_buffer("weight", torch.ones(channels))


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


def weighted(layer, deviation=None, bias=0.0, decay=0.0):
    """Returns `layer` with weights of the given deviation, or with Glorot's if it is None."""
    if deviation is None:
        nn.init.xavier_uniform_(layer.weight)
    else:
        nn.init.trunc_normal_(layer.weight, std=deviation)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias)
    layer.weight.decay = decay
    return layer


def conv(channels, filters, kernel, deviation=None, bias=0.0, pad=0):
    return weighted(nn.Conv2d(channels, filters, kernel, padding=pad), deviation, bias)


def dense(inputs, outputs, deviation=None, bias=0.0, decay=0.0):
    return weighted(nn.Linear(inputs, outputs), deviation, bias, decay)


def normalised(channels, filters, kernel, stride, decay):
    layer = nn.Conv2d(channels, filters, kernel, stride=stride, padding=kernel // 2, bias=False)
    return weighted(layer, math.sqrt(2 / (kernel * kernel * channels)), decay=decay), nn.BatchNorm2d(filters)


def relu():
    return nn.ReLU(inplace=True)


def tutorial(recipe):
    def pool():  # pads only the far edges, as SAME of TensorFlow: 24 -> 12 -> 6
        return nn.MaxPool2d(3, stride=2, ceil_mode=True)

    return nn.Sequential(
        conv(3, 64, 5, 0.05, pad=2), pool(), relu(), ResponseNorm(),
        conv(64, 64, 5, 0.05, 0.1, pad=2), relu(), ResponseNorm(), pool(),
        Flatten(),
        dense(2304, 384, 0.04, 0.1, decay=0.004), relu(),
        dense(384, 192, 0.04, 0.1, decay=0.004), relu(),
        dense(192, recipe.classes, 1 / 192))


def deep_mnist(recipe):
    return nn.Sequential(
        conv(1, 32, 5, 0.28, 0.1, pad=2), nn.MaxPool2d(2), relu(),
        conv(32, 64, 5, 0.05, 0.1, pad=2), nn.MaxPool2d(2), relu(),
        Flatten(),
        dense(3136, 1024, 0.025, 0.1), relu(), nn.Dropout(0.5),
        dense(1024, recipe.classes, 0.03, 0.1))


def tower(recipe):
    return nn.Sequential(
        conv(1, 64, 5), nn.MaxPool2d(2), relu(),
        conv(64, 256, 3), relu(),
        conv(256, 512, 3), nn.MaxPool2d(2), relu(),
        Flatten(),
        dense(8192, 2048), nn.Dropout(0.75), dense(2048, 1024), nn.Dropout(0.75), dense(1024, recipe.classes))


def keras(recipe):
    return nn.Sequential(
        conv(1, 32, 3), relu(),
        conv(32, 256, 3), relu(), nn.BatchNorm2d(256, eps=1e-3, momentum=0.01),
        conv(256, 128, 3), nn.MaxPool2d(2), relu(),
        nn.Dropout(0.25),
        Flatten(),
        dense(15488, 128), relu(), nn.Dropout(0.5), dense(128, recipe.classes))


def reuters(recipe):
    return nn.Sequential(
        Words(recipe.vocabulary, 7),
        conv(7, 64, (1, 5)), nn.MaxPool2d((1, 2)), relu(),
        conv(64, 32, (1, 3)), nn.MaxPool2d((1, 2)), relu(),
        Flatten(),
        dense(2336, recipe.classes))


def residual(stages, blocks, filters, project):
    def build(recipe):
        layers = [*normalised(recipe.sample[2], filters, 3, 1, recipe.decay), relu()]
        channels = filters
        for stage in range(stages):
            for number in range(blocks):
                wide, stride = filters << stage, 2 if stage and not number else 1
                layers.append(Block(channels, wide, stride, project, recipe.decay))
                channels = wide
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), Flatten(),
                             dense(channels, recipe.classes, decay=recipe.decay))

    return build


def airbench94(recipe):
    def through(channels, filters):
        layer = nn.Conv2d(channels, filters, 3, padding=1, bias=False)
        with torch.no_grad():
            nn.init.dirac_(layer.weight[:channels])
        return layer

    channels = 2 * 2 * 2 * recipe.sample[2]
    whiten = nn.Conv2d(recipe.sample[2], channels, 2)
    whiten.weight.requires_grad_(False)
    layers = [whiten, nn.GELU()]
    for filters in (64, 256, 256):
        layers += [through(channels, filters), nn.MaxPool2d(2), Shift(filters), nn.GELU(),
                   through(filters, filters), Shift(filters), nn.GELU()]
        channels = filters
    head = nn.Linear(channels, recipe.classes, bias=False)
    nn.init.uniform_(head.weight, -math.sqrt(3), math.sqrt(3))
    return nn.Sequential(*layers, nn.MaxPool2d(3), Flatten(), head, Scale(1 / channels))


def of_torchvision(name):
    """Returns a function that builds torchvision's network of that name, where all weights decay alike."""
    def build(recipe):
        import torchvision

        model = torchvision.models.get_model(name, weights=None, num_classes=recipe.classes)
        for parameter in model.parameters():
            parameter.decay = recipe.decay if parameter.ndim > 1 else 0.0
        return model

    return build


NETWORKS = {
    "tutorial": tutorial, "deep_mnist": deep_mnist, "tower": tower, "keras": keras, "reuters": reuters,
    "resnet20": residual(3, 3, 16, project=False), "resnet18_cifar": residual(4, 2, 64, project=True),
    "airbench94": airbench94,
} | {name: of_torchvision(name) for name in ("resnet18", "resnet50", "mobilenet_v3_large", "convnext_tiny", "vit_b_16")}
