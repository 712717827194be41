"""How shapes bounce: PhysX's coefficient of restitution, as the damping of a contact.

    restitution = Restitution(model, solref, solimp, threshold=0.2)  # those of shapes that do not bounce
    restitution.set(rows, geoms, values)         # (n, shapes) the combined coefficients
    restitution.changes(speed)                   # (N, k) of `geoms`: the fields of shapes that bounce now, or no longer

A contact gets the acceleration -b v - k r from its penetration r and velocity v. With b = (1 + e) / h one step turns
the velocity v of the impact into -e v, as PhysX does it; MuJoCo's contacts do not pull, so it stays so. The stiffness
k = STIFFNESS / h^2 then lets the shape come out slowly: it adds at most STIFFNESS / 2 of the impact's speed on average.

Two shapes have the mean of their coefficients in PhysX. Here each has its mean with the ground, and of two actors the
larger counts, as with friction. PhysX lets contacts below `bounce_threshold_velocity` not bounce, or a hand could not
hold anything; here the shapes do not that nothing comes near to faster than that (`closing.py`).
"""

from __future__ import annotations

import mujoco
import numpy as np

STIFFNESS = 0.02
"""The stiffness of a bouncing contact, in units of 1 / h^2: it comes out with a time constant of 7 steps."""
IMPEDANCE = (0.99, 0.99, 0.001, 0.5, 2.0)
"""solimp of bouncing contacts: nearly all of the velocity is returned."""


class Restitution:
    """The coefficients of all shapes, (N, geoms), and which of them bounce now."""

    def __init__(self, model: mujoco.MjModel, solref: np.ndarray, solimp: np.ndarray, threshold: float) -> None:
        """`solref` (N, geoms, 2), `solimp` (N, geoms, 5): the usual ones. What is not faster than `threshold`, m/s,
        does not bounce; it may be changed.
        """
        self.values = np.zeros(solref.shape[:2])
        self.threshold = threshold
        self._h = float(model.opt.timestep)
        self._usual = solref, solimp
        self._columns = np.zeros(0, int)
        self._bounces = np.zeros((len(solref), 0), bool)

    @property
    def asked_for(self) -> bool:
        """Whether any shape bounces."""
        return bool(self._columns.size)

    @property
    def geoms(self) -> np.ndarray:
        """(k,) the shapes that bounce in any environment, or did."""
        return self._columns

    def set(self, rows: np.ndarray, geoms: np.ndarray, values: np.ndarray) -> None:
        """Give shapes `geoms` of environments `rows` coefficients (n, geoms)."""
        self.values[rows[:, None], geoms] = np.clip(values, 0.0, 1.0)
        wanted = np.union1d(self._columns, np.flatnonzero((self.values > 0).any(0)))  # what bounced may stop
        if len(wanted) != len(self._columns):
            before = np.isin(wanted, self._columns)
            bounces = np.zeros((len(self.values), len(wanted)), bool)
            bounces[:, before] = self._bounces
            self._columns, self._bounces = wanted, bounces

    def changes(self, speed: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rows, geoms, solref (n, 2) and solimp (n, 5) of shapes that begin or end to bounce.

        `speed` (N, k) m/s, with which something comes near to `geoms`.
        """
        values = self.values[:, self._columns]
        now = (values > 0) & (speed > self.threshold)
        rows, places = np.nonzero(now | self._bounces)  # one that still bounces may have another coefficient
        begins = now[rows, places]
        self._bounces = now
        geoms = self._columns[places]
        damping = (1.0 + values[rows, places]) / self._h
        bouncing = np.stack([np.full(len(rows), -STIFFNESS / self._h**2), -damping], -1)
        solref = np.where(begins[:, None], bouncing, self._usual[0][rows, geoms])
        solimp = np.where(begins[:, None], np.array(IMPEDANCE), self._usual[1][rows, geoms])
        return rows, geoms, solref, solimp

    def forget(self) -> None:
        """Begin from shapes of which any may bounce, after the model's fields were restored."""
        self._bounces[:] = True
