"""The methods of paper 002 and their rivals once more, agent by agent, straight from the equations.

An independent check: numpy alone, nothing of tacit. Every function yields, after each tick or round, a dict of what the
agents and the tokens hold.
"""

import numpy as np


class Functions:
    """f_i(x) = scale/B_i sum_n L(x.o_n, t_n) + l2/2 ||x||^2 with the squared or the logistic loss."""

    def __init__(self, parts, loss, scale=1.0, l2=0.0):
        self.parts, self.loss, self.scale, self.l2 = parts, loss, scale, l2

    def gradient(self, i, x):
        X, y = self.parts[i]
        slope = X @ x - y if self.loss == "squared" else -y / (1 + np.exp(y * (X @ x)))
        return self.scale / len(y) * X.T @ slope + self.l2 * x

    def hessian(self, i, x):
        X, y = self.parts[i]
        p = 1 / (1 + np.exp(X @ x))
        curvature = np.ones(len(y)) if self.loss == "squared" else p * (1 - p)
        return self.scale / len(y) * (X.T * curvature) @ X + self.l2 * np.eye(X.shape[1])

    def argmin(self, i, linear, weight, centre):
        """Of f_i(x) + <linear, x> + weight/2 ||x - centre||^2, by Newton's method with halving."""
        x = np.zeros_like(centre)

        def slope(x):
            return self.gradient(i, x) + linear + weight * (x - centre)

        for _ in range(100):
            g = slope(x)
            move = np.linalg.solve(self.hessian(i, x) + weight * np.eye(len(x)), g)
            step = 1.0
            while step > 1e-6 and np.linalg.norm(slope(x - step * move)) > np.linalg.norm(g):
                step /= 2
            x = x - step * move
            if np.linalg.norm(move) <= 1e-15 * (1 + np.linalg.norm(x)):
                break
        return x


def incremental(f, way, x, y, rho, exact=True, gamma=None, omega=None):
    """Algorithms 1 to 4 from the starts x_i, y_i: `way` is i_0, i_1, ...; gamma(i, k) and omega(i, k) are drawn."""
    N = len(x)
    x, y, z = [v.copy() for v in x], [v.copy() for v in y], np.zeros_like(x[0])
    for k, i in enumerate(way):
        r = rho if gamma is None else rho * gamma(i, k)
        x_old, y_old = x[i], y[i]
        if exact:
            x[i] = f.argmin(i, 0.0, r, z + y[i] / r)  # (4a), (12)
        else:
            x[i] = z + y[i] / r - f.gradient(i, x[i]) / r  # (8)
        if omega is not None:
            x[i] = x[i] + omega(i, k)  # (14)
        y[i] = y[i] + r * (z - x[i])  # (4b), (13)
        z = z + ((x[i] - y[i] / rho) - (x_old - y_old / rho)) / N  # (5)
        yield {"x": np.array(x), "y": np.array(y), "z": z}


def parallel(f, way, x, rho, tau, M, exact=True):
    """Token k mod M goes from way[k] to way[k + M], which knows it from then on; seen[i][m] is what agent i knows of
    token m, put[i][m] what it gave to it."""
    N = len(x)
    x = [v.copy() for v in x]
    y = [[rho * x[i] for _ in range(M)] for i in range(N)]
    put = [[x[i] for _ in range(M)] for i in range(N)]
    z = [np.zeros_like(x[0]) for _ in range(M)]
    seen = [[np.zeros_like(x[0]) for _ in range(M)] for _ in range(N)]
    for k, (i, following) in enumerate(zip(way, way[M:], strict=False)):
        m = k % M
        total, point = M * rho + tau, tau * x[i]
        for token, dual in zip(seen[i], y[i], strict=True):
            point = point + rho * token + dual
        x[i] = f.argmin(i, 0.0, total, point / total) if exact else (point - f.gradient(i, x[i])) / total
        new = y[i][m] + rho * (z[m] - x[i])
        z[m] = z[m] + ((x[i] - new / rho) - (put[i][m] - y[i][m] / rho)) / N
        y[i][m], put[i][m] = new, x[i]
        seen[i][m] = seen[following][m] = z[m]
        yield {"x": np.array(x), "y": np.array(y), "z": np.array(z)}


def censored(f, neighbours, x, c, alpha, ratio, exact=True):
    """COCA; "spoke" has the agents that speak."""
    N, k = len(x), 0
    x, said, dual = [v.copy() for v in x], [v.copy() for v in x], [np.zeros_like(v) for v in x]
    while True:
        k += 1
        for i in range(N):
            d = len(neighbours[i])
            linear = dual[i] - c * sum(said[i] + said[j] for j in neighbours[i])  # ... + c d ||x||^2
            if exact:
                x[i] = f.argmin(i, linear, 2 * c * d, np.zeros_like(x[i]))
            else:
                x[i] = -(linear + f.gradient(i, x[i])) / (2 * c * d)
        spoke = [np.linalg.norm(said[i] - x[i]) >= alpha * ratio**k for i in range(N)]
        said = [x[i] if spoke[i] else said[i] for i in range(N)]
        for i in range(N):
            dual[i] = dual[i] + c * sum(said[i] - said[j] for j in neighbours[i])
        yield {"x": np.array(x), "spoke": spoke}


def weights(neighbours, mixing):
    """W of DGD and EXTRA."""
    N = len(neighbours)
    W = np.eye(N)
    for i in range(N):
        for j in neighbours[i]:
            W[i, j] += mixing
            W[i, i] -= mixing
    return W


def gradients(f, x):
    return np.array([f.gradient(i, x[i]) for i in range(len(x))])


def dgd(f, W, x, step):
    """step(k) at k = 0, 1, ..."""
    k = 0
    while True:
        x = W @ x - step(k) * gradients(f, x)
        k += 1
        yield {"x": x}


def extra(f, W, x, step):
    N = len(x)
    before, x = x, W @ x - step * gradients(f, x)
    yield {"x": x}
    while True:
        after = (np.eye(N) + W) @ x - (np.eye(N) + W) / 2 @ before - step * (gradients(f, x) - gradients(f, before))
        before, x = x, after
        yield {"x": x}


def walk_proximal_gradient(f, way, start, step, prox=lambda v: v):
    """The token is the mean of all y_i, from scratch at every tick."""
    N = len(f.parts)
    y = [start.copy() for _ in range(N)]
    for i in way:
        z = prox(np.mean(y, axis=0))
        y[i] = z - step * f.gradient(i, z)
        yield {"z": prox(np.mean(y, axis=0)), "holder": i}
