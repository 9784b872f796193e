"""A slow, dense ECSIM in plain numpy, written apart from the package, to compare every backend and method with.

Everything is a dense matrix: W of all particles on all nodes, the curls, the mass matrix; the solve is direct.
"""

from __future__ import annotations

import itertools

import numpy as np


def shape_1d(x, n, width, shape):
    """W (P, n) of positions on the periodic nodes of one dimension."""
    out = np.zeros((len(x), n))
    for image in range(-6, 7):
        r = np.abs(np.asarray(x)[:, None] / width - np.arange(n)[None, :] + image * n)
        if shape == "cic":
            out += np.where(r < 1, 1 - r, 0.0)
        else:
            out += np.where(r <= 0.5, 0.75 - r**2, np.where(r < 1.5, 0.5 * (1.5 - r) ** 2, 0.0))
    return out


def shape_matrix(x, cells, width, shape):
    """W (P, N) with N = Π cells flat nodes in C order."""
    w = np.ones((len(x), 1))
    for k, n in enumerate(cells):
        wk = shape_1d(x[:, k], n, width[k], shape)
        w = (w[:, :, None] * wk[:, None, :]).reshape(len(x), w.shape[1] * n)
    return w


def difference(n, width, forward):
    eye = np.eye(n)
    return (np.roll(eye, 1, axis=1) - eye if forward else eye - np.roll(eye, -1, axis=1)) / width


def mean(n, forward):
    eye = np.eye(n)
    return 0.5 * (eye + np.roll(eye, 1 if forward else -1, axis=1))


def kron_all(mats):
    out = np.eye(1)
    for m in mats:
        out = np.kron(out, m)
    return out


def curl_matrix(cells, width, forward):
    """∇× as a (3N, 3N) matrix; forward: nodes to centres, else centres to nodes."""
    n = int(np.prod(cells))
    partial = []
    for mu in range(3):
        if mu >= len(cells):
            partial.append(np.zeros((n, n)))
            continue
        partial.append(kron_all([difference(c, width[k], forward) if k == mu else mean(c, forward)
                                 for k, c in enumerate(cells)]))
    z = np.zeros((n, n))
    dx, dy, dz = partial
    return np.block([[z, -dz, dy], [dz, z, -dx], [-dy, dx, z]])


class SlowEcsim:
    """State and one cycle; species are dicts of charge_to_mass, x (P, d), v (P, 3), q (P,)."""

    def __init__(self, cells, size, dt, theta, shape, species, E, B):
        self.cells, self.size, self.dt, self.theta, self.shape = tuple(cells), tuple(size), dt, theta, shape
        self.width = [s / n for s, n in zip(size, cells, strict=True)]
        self.volume, self.n = np.prod(self.width), int(np.prod(cells))
        self.species = [{**s, "x": np.array(s["x"]), "v": np.array(s["v"])} for s in species]
        self.E, self.B = np.array(E).reshape(-1), np.array(B).reshape(-1)
        self.to_centres = curl_matrix(self.cells, self.width, True)
        self.to_nodes = curl_matrix(self.cells, self.width, False)
        self.B_mean = kron_all([mean(c, False) for c in self.cells])
        self.first = True

    def alpha(self, s, w):
        b = 0.5 * s["charge_to_mass"] * self.dt * (w @ self.B_mean @ self.B.reshape(3, -1).T)
        a = np.einsum("pi,pj->pij", b, b) + np.eye(3)
        for i, j, k in itertools.permutations(range(3)):
            sign = np.linalg.det(np.eye(3)[[i, j, k]])
            a[:, i, j] += sign * b[:, k]
        return a / (1 + (b**2).sum(1))[:, None, None]

    def cycle(self):
        dt, theta, n = self.dt, self.theta, self.n
        mass = np.zeros((3 * n, 3 * n))
        J, rho = np.zeros((3, n)), np.zeros(n)
        kept = []
        for s in self.species:
            s["x"] = np.mod(s["x"] + (0.5 if self.first else 1.0) * dt * s["v"][:, : len(self.cells)], self.size)
            w = shape_matrix(s["x"], self.cells, self.width, self.shape)
            a = self.alpha(s, w)
            kept.append((w, a))
            beta = 0.5 * s["charge_to_mass"] * dt
            rho += s["q"] @ w / self.volume
            J += np.einsum("p,pij,pj,pg->ig", s["q"], a, s["v"], w) / self.volume
            for i in range(3):
                for j in range(3):
                    mass[i * n:(i + 1) * n, j * n:(j + 1) * n] += (
                        w.T @ ((beta * s["q"] * a[:, i, j])[:, None] * w) / self.volume)
        self.first = False
        matrix = np.eye(3 * n) + (theta * dt) ** 2 * self.to_nodes @ self.to_centres + theta * dt * mass
        E_theta = np.linalg.solve(matrix, self.E + theta * dt * (self.to_nodes @ self.B - J.reshape(-1)))
        for s, (w, a) in zip(self.species, kept, strict=True):
            beta = 0.5 * s["charge_to_mass"] * dt
            s["v"] = 2 * np.einsum("pij,pj->pi", a, s["v"] + beta * (w @ E_theta.reshape(3, -1).T)) - s["v"]
        self.E = (E_theta - (1 - theta) * self.E) / theta
        self.B = self.B - dt * self.to_centres @ E_theta
        self.mass, self.J_hat, self.rho, self.E_theta = mass, J, rho, E_theta
        return self

    def energies(self):
        kinetic = sum(0.5 * (s["q"] / s["charge_to_mass"]) @ (s["v"] ** 2).sum(1) for s in self.species)
        return 0.5 * self.volume * self.E @ self.E, 0.5 * self.volume * self.B @ self.B, kinetic
