"""Naive twins of the methods for networks: plain PyTorch, one client after the other.

Local steps are those of torch.optim.SGD, on the loss of a batch and whatever the method adds to
its gradient. Equations and line numbers are those of the paper.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

Batch = Callable[[int, int], tuple[Tensor, Tensor]]
More = Callable[[Tensor], Tensor]


@dataclass
class Network:
    """A model and its clients: batch(i, step) is what client i sees in its step, from 0."""

    model: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    batch: Batch
    m: int
    weight_decay: float = 0.0

    @property
    def x0(self) -> Tensor:
        return parameters_to_vector(self.model.parameters()).detach().clone()

    def steps(
        self, i: int, start: Tensor, rate: float, first: int, count: int, more: More
    ) -> list[Tensor]:
        """The iterates of SGD from ``start``, where ``more(x)`` is added to the gradient."""
        model = copy.deepcopy(self.model)
        vector_to_parameters(start.clone(), model.parameters())
        optimiser = torch.optim.SGD(model.parameters(), lr=rate, weight_decay=self.weight_decay)
        iterates = []
        for k in range(first, first + count):
            X, y = self.batch(i, k)
            optimiser.zero_grad()
            torch.autograd.backward(self.loss(model(X), y))
            x = parameters_to_vector(model.parameters()).detach()
            added = copy.deepcopy(model)
            vector_to_parameters(more(x).clone(), added.parameters())
            for p, q in zip(model.parameters(), added.parameters(), strict=True):
                assert p.grad is not None
                p.grad += q.detach()
            optimiser.step()
            iterates.append(parameters_to_vector(model.parameters()).detach().clone())
        return iterates


def mean(vectors: list[Tensor]) -> Tensor:
    return torch.stack(vectors).mean(0)


def _towards(x: Tensor, weight: float, point: Tensor, more: Tensor) -> Tensor:
    """The gradient of weight/2 ‖x - point‖² + more·x."""
    return weight * (x - point) + more


def fedavg(net: Network, rounds: int, eta: float, K: int) -> Tensor:
    x_s = net.x0
    for r in range(rounds):
        x_s = mean([net.steps(i, x_s, eta, r * K, K, lambda x: 0 * x)[-1] for i in range(net.m)])
    return x_s


def gradient_descent(net: Network, rounds: int, eta: float, K: int) -> Tensor:
    x_s = net.x0
    for r in range(rounds):  # a step of length 1 tells the gradient
        gradients = [x_s - net.steps(i, x_s, 1.0, r, 1, lambda x: 0 * x)[0] for i in range(net.m)]
        x_s = x_s - eta * mean(gradients)
    return x_s


def scaffold(net: Network, rounds: int, eta: float, K: int) -> Tensor:
    x_s = net.x0
    c = 0 * x_s
    own = [0 * x_s for _ in range(net.m)]
    for r in range(rounds):
        dx, dc = [], []
        for i in range(net.m):
            shift = c - own[i]
            x = net.steps(
                i, x_s, eta, r * K, K, partial(_towards, weight=0, point=x_s, more=shift)
            )[-1]
            new = own[i] - c + (x_s - x) / (K * eta)
            dx.append(x - x_s)
            dc.append(new - own[i])
            own[i] = new
        x_s = x_s + mean(dx)
        c = c + mean(dc)
    return x_s


def gpdmm(net: Network, rounds: int, eta: float, K: int, last: bool = False) -> Tensor:
    return _primal_dual(net, rounds, eta, K, own_start=True, last=last)


def gpdmm_last(net: Network, rounds: int, eta: float, K: int) -> Tensor:
    return gpdmm(net, rounds, eta, K, last=True)


def agpdmm(net: Network, rounds: int, eta: float, K: int) -> Tensor:
    return _primal_dual(net, rounds, eta, K, own_start=False, last=True)


def _primal_dual(
    net: Network, rounds: int, eta: float, K: int, own_start: bool, last: bool
) -> Tensor:
    """Alg. 1 (own start; mean or last iterate) and Alg. 2 (start at x_s, last iterate)."""
    rho = 1 / (K * eta)
    x_s = net.x0
    lam_s = [0 * x_s for _ in range(net.m)]
    x_own = [x_s for _ in range(net.m)]
    for r in range(rounds):
        x_i, lam_i = [], []
        for i in range(net.m):
            start = x_own[i] if own_start else x_s  # line 5
            pull = partial(_towards, weight=rho, point=x_s, more=lam_s[i])
            iterates = net.steps(i, start, 1 / (1 / eta + rho), r * K, K, pull)  # line 7
            x_own[i] = iterates[-1]
            x_i.append(iterates[-1] if last else mean(iterates))  # line 9, Remark 1
            lam_i.append(rho * (x_s - x_i[i]) - lam_s[i])
        x_s = mean([x - lam / rho for x, lam in zip(x_i, lam_i, strict=True)])
        lam_s = [rho * (x - x_s) - lam for x, lam in zip(x_i, lam_i, strict=True)]
    return x_s


def inexact_fedsplit(net: Network, rounds: int, eta: float, K: int) -> Tensor:
    """Eq. gradient_xi_fedsplit from x_s (Remark 2), with gamma = K eta."""
    gamma = K * eta
    x_s = net.x0
    z_s = [x_s for _ in range(net.m)]
    for r in range(rounds):
        z_i = []
        for i in range(net.m):
            near = partial(_towards, weight=1 / gamma, point=z_s[i], more=0 * x_s)
            x = net.steps(i, x_s, eta, r * K, K, near)[-1]
            z_i.append(2 * x - z_s[i])
        x_s = mean(z_i)
        z_s = [2 * x_s - z for z in z_i]
    return x_s
