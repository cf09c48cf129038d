#!/usr/bin/env python3
"""Writes optimizers.json beside this file: what PyTorch and Keras make of the same start and gradients in fp32, step by
step, and for LARS, LAMB with decay and Muon, which neither has so, what a few lines of PyTorch make of the papers'
algorithms.

usage: KERAS_BACKEND=torch python3 optimizers.py (with torch, keras and numpy; tests/unit/optimizers.cc reads it)
"""

import json
import os
import pathlib

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy
import torch

keras.config.set_floatx("float64")
STEPS = 8
random = numpy.random.default_rng(9)
# A matrix of weights, which decays, and a bias, which does not.
START = [random.normal(size=(4, 3)).astype("float32"), random.normal(size=3).astype("float32")]
GRADIENTS = [[random.normal(size=p.shape).astype("float32") for p in START] for _ in range(STEPS)]


def rate_of(step, base):
    """Changes from step to step, as a schedule's does."""
    return float(numpy.float32(base / (1 + step / 4)))


def of_torch(make, base, decay):
    parameters = [torch.nn.Parameter(torch.tensor(p)) for p in START]
    optimizer = make([{"params": parameters[:1], "weight_decay": decay}, {"params": parameters[1:], "weight_decay": 0}])
    for step, gradients in enumerate(GRADIENTS):
        for group in optimizer.param_groups:
            group["lr"] = rate_of(step, base)
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = torch.tensor(gradient)
        optimizer.step()
        yield [p.detach().numpy() for p in parameters]


def of_keras(make, base):
    """In double: in fp32 Keras has 1 - 0.999^t to 1e-5 only."""
    variables = [keras.Variable(p, dtype="float64") for p in START]
    optimizer = make()
    optimizer.build(variables)
    for step, gradients in enumerate(GRADIENTS):
        optimizer.learning_rate = rate_of(step, base)
        optimizer.apply([keras.ops.convert_to_tensor(g, dtype="float64") for g in gradients])
        yield [keras.ops.convert_to_numpy(v) for v in variables]


def lars(base, decay, momentum, trust):
    """You et al. 2017, algorithm 1, with the rate outside of the momentum."""
    p, m = [torch.tensor(x) for x in START], [torch.zeros(x.shape) for x in START]
    for step, gradients in enumerate(GRADIENTS):
        for i, gradient in enumerate(map(torch.tensor, gradients)):
            ratio = 1.0
            if p[i].ndim > 1:
                length = p[i].norm()
                ratio = trust * length / (gradient.norm() + decay * length)
                gradient = gradient + decay * p[i]
            m[i] = momentum * m[i] + ratio * gradient
            p[i] = p[i] - rate_of(step, base) * m[i]
        yield [x.numpy() for x in p]


def lamb(base, decay, beta1, beta2, epsilon):
    """You et al. 2019, algorithm 2, with phi(x) = x."""
    p = [torch.tensor(x) for x in START]
    m, v = [torch.zeros(x.shape) for x in START], [torch.zeros(x.shape) for x in START]
    for step, gradients in enumerate(GRADIENTS):
        for i, gradient in enumerate(map(torch.tensor, gradients)):
            m[i] = beta1 * m[i] + (1 - beta1) * gradient
            v[i] = beta2 * v[i] + (1 - beta2) * gradient**2
            d = (m[i] / (1 - beta1 ** (step + 1))) / ((v[i] / (1 - beta2 ** (step + 1))).sqrt() + epsilon)
            ratio = 1.0
            if p[i].ndim > 1:
                d = d + decay * p[i]
                ratio = p[i].norm() / d.norm()
            p[i] = p[i] - rate_of(step, base) * ratio * d
        yield [x.numpy() for x in p]


def muon(base, decay, shape, momentum, other, iterations, unit):
    """airbench94_muon.py (Jordan, 2024) in double, for filters of `shape`, one a row, and a bias."""
    p = [torch.tensor(x).double() for x in START]
    m = [torch.zeros_like(x) for x in p]
    for step, gradients in enumerate(GRADIENTS):
        for i, gradient in enumerate(map(torch.tensor, gradients)):
            keep = other if i else momentum
            gradient = gradient + (0 if i else decay) * p[i]
            m[i] = keep * m[i] + gradient
            d = gradient + keep * m[i]
            if not i:
                x = d.reshape(shape[0], -1)
                x = x / x.norm()
                for _ in range(iterations):
                    square = x @ x.T
                    x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
                d = x.reshape(p[i].shape)
                if unit:
                    p[i] = p[i] * shape[0] ** 0.5 / p[i].norm()
            p[i] = p[i] - rate_of(step, base) * d
        yield [x.numpy() for x in p]


sgd, adam, adamw = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
pytorch, keras_ = "PyTorch " + torch.__version__.split("+")[0], f"Keras {keras.__version__}"
moments = {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-6}
plain = {"momentum": 0.75, "other-momentum": 0.5, "newton-schulz": 5}
unit = {"momentum": 0.6, "other-momentum": 0.85, "newton-schulz": 3, "unit-filters": 1}
CASES = [
    # optimizer, its options, rate, decay, whose figures, the figures
    ("sgd", {}, 0.1, 0.01, pytorch, of_torch(sgd, 0.1, 0.01)),
    ("sgd", {"momentum": 0.9}, 0.1, 0.01, pytorch, of_torch(lambda p: sgd(p, momentum=0.9), 0.1, 0.01)),
    ("sgd", {"momentum": 0.9, "nesterov": 1}, 0.1, 0.01, pytorch,
     of_torch(lambda p: sgd(p, momentum=0.9, nesterov=True, lr=0.1), 0.1, 0.01)),
    ("adam", {}, 0.01, 0, pytorch, of_torch(adam, 0.01, 0)),
    ("adam", {"beta1": 0.8, "beta2": 0.9, "epsilon": 1e-4}, 0.01, 0.1, pytorch,
     of_torch(lambda p: adam(p, betas=(0.8, 0.9), eps=1e-4), 0.01, 0.1)),
    ("adamw", {}, 0.01, 0.1, pytorch, of_torch(adamw, 0.01, 0.1)),
    ("rmsprop", {}, 0.01, 0, keras_, of_keras(keras.optimizers.RMSprop, 0.01)),
    ("rmsprop", {"rho": 0.5, "epsilon": 0.01}, 0.01, 0, keras_,
     of_keras(lambda: keras.optimizers.RMSprop(rho=0.5, epsilon=0.01), 0.01)),
    ("nadam", {}, 0.01, 0, keras_, of_keras(keras.optimizers.Nadam, 0.01)),
    ("nadam", {"beta1": 0.8, "beta2": 0.9, "epsilon": 1e-4}, 0.01, 0, keras_,
     of_keras(lambda: keras.optimizers.Nadam(beta_1=0.8, beta_2=0.9, epsilon=1e-4), 0.01)),
    # (It adapts biases, too: the weights alone.)
    ("lamb", moments, 0.01, 0, keras_,
     ([w] for w, _ in of_keras(lambda: keras.optimizers.Lamb(beta_1=0.9, beta_2=0.95, epsilon=1e-6), 0.01))),
    ("lars", {"momentum": 0.9, "trust": 0.02}, 1, 0.01, "the paper", lars(1, 0.01, 0.9, 0.02)),
    ("lamb", moments, 0.01, 0.1, "the paper", lamb(0.01, 0.1, 0.9, 0.95, 1e-6)),
]
WIDE, TALL = (2, 2, 3), (4, 1, 3)
FILTERS = [  # the same, where the weights are filters of a shape
    ("muon", plain, 0.1, 0.01, "its author", muon(0.1, 0.01, WIDE, 0.75, 0.5, 5, False), WIDE),
    ("muon", unit, 0.24, 0, "its author", muon(0.24, 0, TALL, 0.6, 0.85, 3, True), TALL),
]


def numbers(array):
    return [float(f"{x:.9g}") for x in array.ravel()]


figures = {
    "start": [numbers(p) for p in START],
    "gradients": [[numbers(g) for g in step] for step in GRADIENTS],
    "cases": [
        {"optimizer": optimizer, "options": options, "by": by, "decay": decay, "shape": shape,
         "rates": [rate_of(step, rate) for step in range(STEPS)],
         "parameters": [[numbers(p) for p in step] for step in figures]}
        for optimizer, options, rate, decay, by, figures, shape in [(*case, START[0].shape) for case in CASES] + FILTERS
    ],
}
text = json.dumps(figures).replace('{"optimizer"', '\n{"optimizer"').replace(', "gradients"', ',\n"gradients"')
pathlib.Path(__file__).with_suffix(".json").write_text(text.replace(', "cases"', ',\n"cases"') + "\n")
