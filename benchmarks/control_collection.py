"""Problems of optimal control that textbooks and papers pose, written for any arithmetic.

The functions get components one by one and `f`, which has `sin`, `cos` and `tan`: jax.numpy or casadi. casadi's Python
reads this file too, so that it imports nothing but the standard library.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, pi
from typing import Any

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class ControlProblem:
    """From a start to an end, by controls that are held for a step; solvers begin with the start, and zero controls.

    **Fields:** `rates(x, u, f)` of the states, integrated by one step of Runge and Kutta, or by Euler's if `euler`;
    `duration` [s]; `end`, None where it is free; weights of half the squares, `effort` of `u - rest` and `states`;
    `final(x)`, a cost of the last state; `lower` and `upper` bounds of controls, `least` and `most` of states;
    `outside(x, f)`, not positive; `reached(x, f)`, zero at the end; `free`: which states the start leaves open.
    """

    rates: Callable[[list, list, Any], list]
    start: Numbers
    steps: int
    duration: float
    lower: Numbers
    upper: Numbers
    end: tuple[float | None, ...] = ()
    effort: Numbers = ()
    rest: Numbers = ()
    states: Numbers = ()
    final: Callable[[list], Any] | None = None
    least: Numbers = ()
    most: Numbers = ()
    outside: Callable[[list, Any], list] | None = None
    reached: Callable[[list, Any], list] | None = None
    free: tuple[int, ...] = ()
    euler: bool = False

    def bounds(self) -> list[tuple[int, float, float]]:
        """States that are bounded."""
        n = len(self.start)
        rows = zip(range(n), self.least or (-inf,) * n, self.most or (inf,) * n, strict=True)
        return [(i, low, high) for i, low, high in rows if low > -inf or high < inf]

    def ends(self) -> list[tuple[int, float]]:
        """States that are given at the end."""
        return [(i, x) for i, x in enumerate(self.end) if x is not None]

    def step(self, x: list, u: list, f: Any) -> list:
        """The next state."""
        dt = self.duration / self.steps

        def moved(rates: list, dt: float) -> list:
            return [a + dt * b for a, b in zip(x, rates, strict=True)]

        a = self.rates(x, u, f)
        if self.euler:
            return moved(a, dt)
        b = self.rates(moved(a, dt / 2), u, f)
        c = self.rates(moved(b, dt / 2), u, f)
        d = self.rates(moved(c, dt), u, f)
        return moved([(p + 2 * q + 2 * r + s) / 6 for p, q, r, s in zip(a, b, c, d, strict=True)], dt)


def _two_links(x: list, first, second, f) -> list:
    """Two rods of 1 m and 1 kg that hang down, under torques at the joints."""
    inertia, gravity = 1 / 12, 9.81
    c, s = f.cos(x[1]), f.sin(x[1])
    m11, m12, m22 = 2 * inertia + 1.5 + c, inertia + 0.25 + 0.5 * c, inertia + 0.25
    far = 0.5 * gravity * f.sin(x[0] + x[1])
    a = first + 0.5 * s * (2 * x[2] * x[3] + x[3] ** 2) - 1.5 * gravity * f.sin(x[0]) - far
    b = second - 0.5 * s * x[2] ** 2 - far
    det = m11 * m22 - m12 * m12
    return [x[2], x[3], (m22 * a - m12 * b) / det, (m11 * b - m12 * a) / det]


def _cart_pole(x: list, u: list, f) -> list:
    s, c = f.sin(x[1]), f.cos(x[1])
    moved = 1 + 0.3 * s * s
    cart = (0.15 * s * x[3] ** 2 + u[0] + 0.3 * 9.81 * c * s) / moved
    pole = -(0.15 * c * s * x[3] ** 2 + u[0] * c + 1.3 * 9.81 * s) / (0.5 * moved)
    return [x[2], x[3], cart, pole]


def _planar_quadrotor(x: list, u: list, f) -> list:
    thrust = u[0] + u[1]
    return [x[3], x[4], x[5], -thrust * f.sin(x[2]), thrust * f.cos(x[2]) - 9.81, 4 * (u[0] - u[1])]


def _unicycle(x: list, u: list, f) -> list:
    return [u[0] * f.cos(x[2]), u[0] * f.sin(x[2]), u[1]]


def _car(x: list, u: list, f) -> list:
    return [x[3] * f.cos(x[2]), x[3] * f.sin(x[2]), x[3] * f.tan(u[0]) / 2, u[1]]


def _lander(x: list, u: list, f) -> list:
    """Height, speed, mass."""
    return [x[1], u[0] / x[2] - 1.62, -u[0] / 8]


def _timed(rates: Callable, clock: int) -> Callable:
    """The same over a time that is a state itself, constant and to be found."""

    def scaled(x: list, u: list, f) -> list:
        others = rates(x[:clock], u, f)
        return [rate * x[clock] for rate in others] + [0 * x[clock]]

    return scaled


def _points_of_arm(x: list, f) -> list:
    """Middles and ends of three links."""
    points, px, py, angle = [], 0.0, 0.0, 0.0
    for turn in x[:3]:
        angle = angle + turn
        points += [(px + k * f.cos(angle), py + k * f.sin(angle)) for k in (0.5, 1.0)]
        px, py = points[-1]
    return points


def _discs(*discs: tuple[float, float, float]) -> Callable:
    """To stay out of discs with these centres and radii."""
    return lambda x, f: [r * r - (x[0] - a) ** 2 - (x[1] - b) ** 2 for a, b, r in discs]


SWING_UPS = {
    "acrobot": ControlProblem(
        lambda x, u, f: _two_links(x, 0, u[0], f), (0,) * 4, 100, 5.0, (-10,), (10,), (pi, 0, 0, 0), (0.1,)
    ),
    "acrobot, any torque": ControlProblem(
        lambda x, u, f: _two_links(x, 0, u[0], f), (0,) * 4, 80, 4.0, (-inf,), (inf,), (pi, 0, 0, 0), (0.1,)
    ),
    "pendubot": ControlProblem(
        lambda x, u, f: _two_links(x, u[0], 0, f), (0,) * 4, 80, 4.0, (-20,), (20,), (pi, 0, 0, 0), (0.1,)
    ),
    "cart-pole": ControlProblem(
        _cart_pole, (0,) * 4, 40, 2.0, (-20,), (20,), (1, pi, 0, 0), (0.05,), least=(-2, -inf, -inf, -inf),
        most=(2, inf, inf, inf),
    ),
    "weak cart-pole": ControlProblem(
        _cart_pole, (0,) * 4, 80, 4.0, (-4,), (4,), (0, pi, 0, 0), (0.05,), least=(-2, -inf, -inf, -inf),
        most=(2, inf, inf, inf),
    ),
    "weak pendulum": ControlProblem(
        lambda x, u, f: [x[1], u[0] - 9.81 * f.sin(x[0])], (0, 0), 100, 5.0, (-3,), (3,), (pi, 0), (0.05,)
    ),
}  # fmt: skip
FLIGHTS = {
    "vertical landing": ControlProblem(
        _lander, (10, -2, 2), 60, 3.0, (0,), (12,), (0, 0, None), (0.1,), least=(-inf, -inf, 0.3)
    ),
    "planar landing": ControlProblem(
        lambda x, u, f: [x[2], x[3], u[0], u[1] - 1.62], (5, 8, 1, -1), 50, 5.0, (-4, 0), (4, 4), (0,) * 4, (0.1, 0.1),
        least=(-inf, 0, -inf, -inf), euler=True,
    ),
    "quadrotor, a flip": ControlProblem(
        _planar_quadrotor, (0,) * 6, 80, 2.0, (0, 0), (12, 12), (0, 0, 2 * pi, 0, 0, 0), (0.05, 0.05), (4.905, 4.905)
    ),
    "quadrotor, obstacle": ControlProblem(
        _planar_quadrotor, (0,) * 6, 60, 3.0, (0, 0), (12, 12), (4, 0, 0, 0, 0, 0), (0.05, 0.05), (4.905, 4.905),
        outside=_discs((2, 0.2, 1)),
    ),
    "turning by two arms": ControlProblem(
        lambda x, u, f: [u[0], u[1], -(u[0] * (1 + f.cos(x[1])) + 0.5 * u[1] * f.cos(x[0])) / 3],
        (0,) * 3, 60, 6.0, (-3, -3), (3, 3), (0, 0, 1), (0.1, 0.1),
    ),
}  # fmt: skip
WAYS = {
    "unicycle, obstacles": ControlProblem(
        _unicycle, (0,) * 3, 50, 5.0, (-2, -3), (2, 3), (3, 2.5, pi / 2), (0.1, 0.1),
        outside=_discs((1, 1, 0.5), (2, 1.8, 0.5), (2.2, 0.6, 0.4)),
    ),
    "unicycle, right ahead": ControlProblem(
        _unicycle, (0,) * 3, 40, 4.0, (-2, -3), (2, 3), (3, 0, 0), (0.1, 0.1), outside=_discs((1.5, 0, 0.8))
    ),
    "car, to the side": ControlProblem(
        _car, (0,) * 4, 80, 8.0, (-0.6, -2), (0.6, 2), (0, 1.5, 0, 0), (0.01, 0.01)
    ),
    "car, into a gap": ControlProblem(
        _car, (1, 1, 1.5 * pi, 0), 100, 10.0, (-0.5, -2), (0.5, 2), (0,) * 4, (0.01, 0.001),
        states=(0.001, 0.001, 0, 0), euler=True,
    ),
    "arm around a disc": ControlProblem(
        lambda x, u, f: [*x[3:], *u], (0.2, 0.3, 0.2, 0, 0, 0), 40, 2.0, (-20,) * 3, (20,) * 3, effort=(0.01,) * 3,
        outside=lambda x, f: [0.16 - (a - 1.6) ** 2 - (b - 1.4) ** 2 for a, b in _points_of_arm(x, f)],
        reached=lambda x, f: [_points_of_arm(x, f)[-1][0] + 0.3, _points_of_arm(x, f)[-1][1] - 2.5, *x[3:]],
    ),
    "boat in a current": ControlProblem(
        lambda x, u, f: [f.cos(u[0]) + 0.6 * x[1], f.sin(u[0])], (0, 0), 40, 4.0, (-inf,), (inf,), (3, 1.5), (0.1,)
    ),
}  # fmt: skip
TIMES = {
    "landing": ControlProblem(
        _timed(_lander, 3), (10, -2, 2, 3), 50, 1.0, (0,), (6,), (0, 0, None, None), least=(-inf, -inf, 0.3, 0.5),
        most=(inf, inf, inf, 10), final=lambda x: 2 - x[2], free=(3,),
    ),
    "pendulum": ControlProblem(
        _timed(lambda x, u, f: [x[1], u[0] - 9.81 * f.sin(x[0])], 2), (0, 0, 3), 60, 1.0, (-4,), (4,), (pi, 0, None),
        least=(-inf, -inf, 0.3), most=(inf, inf, 10), final=lambda x: x[2], free=(2,),
    ),
    "double integrator": ControlProblem(
        _timed(lambda x, u, f: [x[1], u[0]], 2), (0, 0, 3), 40, 1.0, (-1,), (1,), (1, 0, None),
        least=(-inf, -inf, 0.1), most=(inf, inf, 10), final=lambda x: x[2], free=(2,),
    ),
    "brachistochrone": ControlProblem(
        _timed(lambda x, u, f: [x[2] * f.sin(u[0]), x[2] * f.cos(u[0]), 9.81 * f.cos(u[0])], 3), (0, 0, 0, 1), 50, 1.0,
        (-0.1,), (pi,), (2, 1, None, None), least=(-inf, -inf, -inf, 0.1), most=(inf, inf, inf, 5),
        final=lambda x: x[3], free=(3,),
    ),
    "limited jerk": ControlProblem(
        lambda x, u, f: [x[1], x[2], u[0]], (0, 0, 0), 60, 3.0, (-6,), (6,), (2, 0, 0), (0.01,),
        least=(-inf, -1.2, -2), most=(inf, 1.2, 2),
    ),
    "van der Pol": ControlProblem(
        lambda x, u, f: [(1 - x[1] ** 2) * x[0] - x[1] + u[0], x[0]], (0, 1), 100, 10.0, (-1,), (1,), effort=(0.1,),
        states=(0.1, 0.1), least=(-0.25, -inf),
    ),
}  # fmt: skip
COLLECTION = {
    "swing up": SWING_UPS,
    "fly and turn": FLIGHTS,
    "find a way": WAYS,
    "least time, and other bounds": TIMES,
}
