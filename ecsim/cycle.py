"""One ECSIM cycle on one page.

Equation numbers are those of docs/theory. Between cycles the particle stores hold x^{n+1/2} and v^n, sorted by
support cell, and the fields are E^n and B^n (before the first cycle the stores hold x^0). All arrays stay on the device
of the backend.
"""

from __future__ import annotations

from collections.abc import Callable

from ecsim.plasma import Plasma


def advance(p: Plasma, inspect: Callable[[Plasma], None] | None = None) -> None:
    """Advance fields and particles by Δt; energy is conserved exactly at θ = ½ (Lapenta 2017, J. Comput. Phys. 334).

    ``inspect`` is called once x^{n+1/2}, v^n and E^{n+θ} are all in hand, before the particles move on.
    Raises SolverError if the field solve fails and FloatingPointError if a particle is no longer finite.
    """
    dt, theta, halo, ops, phase = p.dt, p.theta, p.halo, p.operators, p.backend.timer.phase

    if p.step == 0:
        with phase("mover"):
            for s in p.species:
                s.store.push(0.5 * dt)                                        # x^{1/2} = x^0 + ½Δt v^0      (1)

    with phase("assembly"):
        p.average_B()                                                         # B^n at nodes
        p.backend.assemble(p.stores, p.betas, method=p.method,                # ρ, Ĵ, M at x^{n+1/2}       (4–6)
                           precision=p.precision, B_nodes=p.B_nodes,
                           stencil=p.mass_matrix.values, moments=p.moments)
    with phase("moments"):
        p.mass_matrix.complete(p.moments)
        J_hat = p.moments[1:][p.owned]

    with phase("solve"):
        E = p.E[p.owned]
        source = E + theta * dt * (ops.curl_to_nodes(p.B) - J_hat)                                     #   (8)
        p.solution = p.gmres.solve(p.field_operator, source, p.guess(E), p.tolerance, p.spread_E)
        p.accept()                                                            # E^{n+θ}

    if inspect is not None:
        inspect(p)

    with phase("mover"):
        p.sums = p.backend.move(p.stores, p.betas, dt,      # v^{n+1} = 2α(v + βE) − v, x^{n+3/2} = x + Δt v  (2, 1)
                                p.E_theta, p.B_nodes)

    with phase("fields"):
        p.E[p.owned] = (p.E_theta[p.owned] - (1.0 - theta) * E) / theta       # E^{n+1}                       (9)
        p.B[p.owned] -= dt * ops.curl_to_centres(p.E_theta)                   # B^{n+1} = B^n − Δt ∇×E^{n+θ}  (10)
        halo.fill(p.E, p.B)
        p.step += 1
        p.take_stock()
