"""The recipes of net/models/*.cc, for both peers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    sample: tuple  # height, width, channels; or words of a text
    classes: int
    batch: int  # samples per rank and step
    optimizer: str = "sgd"
    rate: float = 0.1
    momentum: float = 0.0  # of sgd, and of muon's filters
    other_momentum: float = 0.0  # muon: Nesterov momentum of parameters other than filters
    iterations: int = 0  # muon: of Newton-Schulz
    smoothing: float = 0.0  # of labels
    decay: float = 0.0  # default L2 of filters and matrices
    vocabulary: int = 0  # of texts

    @property
    def unit(self):
        return "sequences" if self.vocabulary else "images"


_MNIST = dict(sample=(28, 28, 1), classes=10)
_RESIDUAL = dict(sample=(32, 32, 3), classes=10, batch=64, momentum=0.9, decay=0.0001)

RECIPES = {
    "tutorial": Recipe(sample=(24, 24, 3), classes=10, batch=64),
    "deep_mnist": Recipe(**_MNIST, batch=64),
    "tower": Recipe(**_MNIST, batch=1024, optimizer="adam", rate=0.001),
    "keras": Recipe(**_MNIST, batch=128, optimizer="rmsprop", rate=0.001),
    "reuters": Recipe(sample=(300,), classes=46, batch=16, optimizer="nadam", rate=0.001, vocabulary=30982),
    "resnet20": Recipe(**_RESIDUAL),
    "resnet18": Recipe(**_RESIDUAL),
    "airbench94": Recipe(sample=(32, 32, 3), classes=10, batch=1000, optimizer="muon", rate=0.24, momentum=0.6,
                         other_momentum=0.85, iterations=3, smoothing=0.2),
}
