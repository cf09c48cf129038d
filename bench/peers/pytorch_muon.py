"""Muon as in airbench94: orthogonal steps for filters with a fixed norm, and SGD for all other parameters."""

import torch


class Muon:
    """The methods that the driver calls. `kind`: the type of matrix products."""

    def __init__(self, parameters, recipe, kind):
        trained = [p for p in parameters if p.requires_grad]
        self.filters = [p for p in trained if p.ndim == 4]
        self.momenta = [torch.zeros_like(p) for p in self.filters]
        self.rate, self.momentum, self.iterations, self.kind = recipe.rate, recipe.momentum, recipe.iterations, kind
        self.others = torch.optim.SGD([p for p in trained if p.ndim < 4], lr=recipe.rate,
                                      momentum=recipe.other_momentum, nesterov=True, fused=True)

    def zero_grad(self, set_to_none):
        for parameter in self.filters:
            if parameter.grad is not None:
                parameter.grad.zero_()
        self.others.zero_grad(set_to_none=set_to_none)

    def orthogonal(self, direction):
        x = direction.reshape(len(direction), -1)
        x = (x / x.norm()).to(self.kind)
        for _ in range(self.iterations):
            square = x @ x.T
            x = torch.addmm(x, torch.addmm(square, square, square, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
        return x.to(direction.dtype).view(direction.shape)

    @torch.no_grad()
    def step(self):
        for parameter, kept in zip(self.filters, self.momenta):
            kept.mul_(self.momentum).add_(parameter.grad)
            direction = self.orthogonal(parameter.grad.add(kept, alpha=self.momentum))
            parameter.mul_(len(parameter) ** 0.5 / parameter.norm()).sub_(direction, alpha=self.rate)
        self.others.step()
