"""Sample shape, optimizer and hyperparameters of each network, for all peers: the recipes of apps/networks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    sample: tuple  # height, width, channels; for texts the number of words
    classes: int
    batch: int  # samples per rank and step
    optimizer: str = "sgd"
    rate: float = 0.1
    momentum: float = 0.0  # of sgd, and of filters with muon
    other_momentum: float = 0.0  # muon: Nesterov momentum of parameters other than filters
    iterations: int = 0  # muon: Newton-Schulz iterations
    smoothing: float = 0.0  # label smoothing
    decay: float = 0.0  # L2 of all filters and matrices, unless the network sets its own
    vocabulary: int = 0  # of texts; 0 for images


_MNIST = dict(sample=(28, 28, 1), classes=10)
_PHOTOS = dict(sample=(224, 224, 3), classes=10, batch=8)
_RESIDUAL = dict(sample=(32, 32, 3), classes=10, batch=64, momentum=0.9, decay=0.0001)

RECIPES = {
    "tutorial": Recipe(sample=(24, 24, 3), classes=10, batch=64),
    "deep_mnist": Recipe(**_MNIST, batch=64),
    "tower": Recipe(**_MNIST, batch=1024, optimizer="adam", rate=0.001),
    "keras": Recipe(**_MNIST, batch=128, optimizer="rmsprop", rate=0.001),
    "reuters": Recipe(sample=(300,), classes=46, batch=16, optimizer="nadam", rate=0.001, vocabulary=30982),
    "resnet20": Recipe(**_RESIDUAL),
    "resnet18_cifar": Recipe(**_RESIDUAL),
    "airbench94": Recipe(sample=(32, 32, 3), classes=10, batch=1000, optimizer="muon", rate=0.24, momentum=0.6,
                         other_momentum=0.85, iterations=3, smoothing=0.2),
    "resnet18": Recipe(**_PHOTOS, momentum=0.9, decay=0.0001),
    "resnet50": Recipe(**_PHOTOS, momentum=0.9, decay=0.0001),
    "mobilenet_v3_large": Recipe(**_PHOTOS, momentum=0.9, decay=0.00001),
    "convnext_tiny": Recipe(**_PHOTOS, optimizer="adamw", rate=0.001, decay=0.05, smoothing=0.1),
    "vit_b_16": Recipe(**_PHOTOS, optimizer="adamw", rate=0.003, decay=0.3, smoothing=0.11),
}
