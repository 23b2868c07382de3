"""The library's problems as functions of numbers of 80 digits: value, gradient and Hessian."""

from typing import Any

from fuzz.truth import Local, Number, Point, Smooth, dot, exact, mp


def quadratic(H: list[Point], g: Point, constant: Number) -> Smooth:
    """1/2 x'Hx - g·x + constant."""

    def local(x: Point) -> Local:
        Hx = [dot(row, x) for row in H]
        gradient = [a - b for a, b in zip(Hx, g, strict=True)]
        return Local(dot(x, Hx) / 2 - dot(g, x) + constant, gradient, H)

    return local


def least_squares(A: Any, b: Any, weights: Any) -> Smooth:
    """The sum of w_i/2 ‖A_i x - b_i‖²."""
    clients = list(zip(exact(weights), map(exact, A), map(exact, b), strict=True))
    d = len(A[0][0])

    def moment(j: int, k: int) -> Number:
        return mp.fsum(w * row[j] * row[k] for w, rows, _ in clients for row in rows)

    H = [[moment(j, k) for k in range(d)] for j in range(d)]
    pairs = [(w, row, v) for w, rows, right in clients for row, v in zip(rows, right, strict=True)]
    g = [mp.fsum(w * row[j] * v for w, row, v in pairs) for j in range(d)]
    return quadratic(H, g, mp.fsum(w * v * v for w, _, v in pairs) / 2)


def quadratics(H: Any, c: Any, weights: Any) -> Smooth:
    """The sum of w_i (1/2 x'H_i x - c_i·x)."""
    w = exact(weights)
    Hs, cs = exact(H), exact(c)
    d = len(cs[0])
    total = [[dot(w, [part[j][k] for part in Hs]) for k in range(d)] for j in range(d)]
    return quadratic(total, [dot(w, [part[j] for part in cs]) for j in range(d)], mp.zero)


def bowls(q: Any, s: Any, c: Any, weights: Any) -> Smooth:
    """The sum of w_i q_ij (cosh(s_ij (x_j - c_ij)) - 1): entry by entry, steep, with mu = q s²."""
    w, cs = exact(weights), exact(c)
    qs, ss = exact(q), exact(s)
    clients, d = range(len(w)), len(cs[0])

    def local(x: Point) -> Local:
        parts = [[ss[i][j] * (x[j] - cs[i][j]) for j in range(d)] for i in clients]
        heavy = [[w[i] * qs[i][j] for j in range(d)] for i in clients]
        value = mp.fsum(heavy[i][j] * (mp.cosh(parts[i][j]) - 1) for i in clients for j in range(d))
        slope = [
            mp.fsum(heavy[i][j] * ss[i][j] * mp.sinh(parts[i][j]) for i in clients)
            for j in range(d)
        ]
        bend = [
            mp.fsum(heavy[i][j] * ss[i][j] ** 2 * mp.cosh(parts[i][j]) for i in clients)
            for j in range(d)
        ]
        return Local(
            value, slope, [[bend[j] if j == k else mp.zero for k in range(d)] for j in range(d)]
        )

    return local


def softmax(X: Any, y: Any, classes: int, l2: float, weights: Any) -> Smooth:
    """The weighted sum of the clients' mean cross-entropies, each with l2/2 ‖x‖²."""
    clients = [
        (w, [[*row, mp.one] for row in rows], [int(label) for label in labels])
        for w, rows, labels in zip(exact(weights), map(exact, X), y, strict=True)
    ]
    ridge = exact(l2) * mp.fsum(w for w, _, _ in clients)
    width = len(clients[0][1][0])
    d = width * classes

    def local(x: Point) -> Local:
        value = ridge / 2 * dot(x, x)
        slope = [ridge * entry for entry in x]
        bend = [[ridge if j == k else mp.zero for k in range(d)] for j in range(d)]
        for w, rows, labels in clients:
            share = w / len(rows)
            for row, label in zip(rows, labels, strict=True):
                logits = [
                    mp.fsum(row[f] * x[f * classes + k] for f in range(width))
                    for k in range(classes)
                ]
                powers = [mp.exp(logit) for logit in logits]
                total = mp.fsum(powers)
                p = [power / total for power in powers]
                value += share * (mp.log(total) - logits[label])
                for j in range(d):
                    f, k = divmod(j, classes)
                    slope[j] += share * row[f] * (p[k] - (k == label))
                    for j2 in range(d):
                        f2, k2 = divmod(j2, classes)
                        bend[j][j2] += share * row[f] * row[f2] * p[k] * ((k == k2) - p[k2])
        return Local(value, slope, bend)

    return local
