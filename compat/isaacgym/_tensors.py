"""Methods of `Gym` that read and write all environments at once."""

from __future__ import annotations

import numpy as np
import torch

from livegym.compat.core import sensors
from livegym.compat.core.drives import EFFORT, POS, VEL
from livegym.compat.core.values import CoordinateSpace


def _ids(sim, ids, count):
    """The first `count` actor indices of an int32 tensor as an array. Raises TypeError or IndexError."""
    if ids.dtype != torch.int32:
        raise TypeError(f"actor indices must be int32 tensors, not {ids.dtype}; use ids.to(torch.int32)")
    if not 0 <= count <= ids.numel():
        raise IndexError(f"{count} actor indices were announced, the tensor has {ids.numel()}")
    chosen = ids.detach().numpy().reshape(-1)[:count].astype(np.int64)
    wrong = chosen[(chosen < 0) | (chosen >= sim.actor_count)]
    if wrong.size:
        raise IndexError(
            f"actor index {wrong[0]} of {sim.actor_count} actors: indices are those of DOMAIN_SIM, see get_actor_index"
        )
    return chosen


def _is_local(space):
    return int(space) == int(CoordinateSpace.LOCAL_SPACE)


class TensorMethods:
    """Each acquired tensor changes only when it is refreshed."""

    def acquire_actor_root_state_tensor(self, sim):
        """Return (actors, 13): position, xyzw quaternion, linear velocity of the centre of mass, angular velocity."""
        return sim.tensors.acquire("root")

    def refresh_actor_root_state_tensor(self, sim):
        """Update the root state tensor."""
        sim.tensors.refresh("root")
        return True

    def acquire_dof_state_tensor(self, sim):
        """Return (DOFs, 2): position, velocity."""
        return sim.tensors.acquire("dof")

    def refresh_dof_state_tensor(self, sim):
        """Update the DOF state tensor."""
        sim.tensors.refresh("dof")
        return True

    def acquire_rigid_body_state_tensor(self, sim):
        """Return (bodies, 13), as the root state."""
        return sim.tensors.acquire("body")

    def refresh_rigid_body_state_tensor(self, sim):
        """Update the body state tensor."""
        sim.tensors.refresh("body")
        return True

    def acquire_net_contact_force_tensor(self, sim):
        """Return (bodies, 3) N; zeros if `contact_collection` is CC_NEVER."""
        return sim.tensors.acquire("contact")

    def refresh_net_contact_force_tensor(self, sim):
        """Update the contact force tensor."""
        sim.tensors.refresh("contact")
        return True

    def acquire_dof_force_tensor(self, sim):
        """Return (DOFs,) N or N m."""
        return sim.tensors.acquire("dof_force")

    def refresh_dof_force_tensor(self, sim):
        """Update the DOF force tensor."""
        sim.tensors.refresh("dof_force")
        return True

    def acquire_force_sensor_tensor(self, sim):
        """Return (sensors, 6): force, torque."""
        return sim.tensors.acquire("sensor")

    def refresh_force_sensor_tensor(self, sim):
        """Update the force sensor tensor."""
        sim.tensors.refresh("sensor")
        return True

    def acquire_jacobian_tensor(self, sim, name):
        """Return (environments, links, 6, columns) of the actor of that name; a fixed base has no row block."""
        return sim.tensors.of_actor(name, sensors.jacobian)

    def acquire_mass_matrix_tensor(self, sim, name):
        """Return (environments, columns, columns) of the actor of that name."""
        return sim.tensors.of_actor(name, sensors.mass_matrix)

    def refresh_jacobian_tensors(self, sim):
        """Update all acquired Jacobians."""
        sim.tensors.refresh_of_actors(sensors.jacobian)
        return True

    def refresh_mass_matrix_tensors(self, sim):
        """Update all acquired mass matrices."""
        sim.tensors.refresh_of_actors(sensors.mass_matrix)
        return True

    # setters

    def set_actor_root_state_tensor(self, sim, states):
        """Set the root states of all actors."""
        sim.tensors.set_root(states, sim.tensors.all_actors())
        return True

    def set_actor_root_state_tensor_indexed(self, sim, states, ids, count):
        """Set the root states of the actors with those indices, from a tensor of all actors."""
        sim.tensors.set_root(states, _ids(sim, ids, count))
        return True

    def set_dof_state_tensor(self, sim, states):
        """Set positions and velocities of all DOFs."""
        sim.tensors.set_dofs(states, sim.tensors.all_actors())
        return True

    def set_dof_state_tensor_indexed(self, sim, states, ids, count):
        """Set positions and velocities of the DOFs of those actors, from a tensor of all DOFs."""
        sim.tensors.set_dofs(states, _ids(sim, ids, count))
        return True

    def set_dof_actuation_force_tensor(self, sim, forces):
        """Set forces of DOFs in mode EFFORT, until they are set again."""
        sim.tensors.set_targets(EFFORT, forces)
        return True

    def set_dof_position_target_tensor(self, sim, targets):
        """Set targets of DOFs in mode POS."""
        sim.tensors.set_targets(POS, targets)
        return True

    def set_dof_velocity_target_tensor(self, sim, targets):
        """Set targets of DOFs in mode VEL."""
        sim.tensors.set_targets(VEL, targets)
        return True

    def set_dof_actuation_force_tensor_indexed(self, sim, forces, ids, count):
        """Set forces of the DOFs of those actors."""
        sim.tensors.set_targets(EFFORT, forces, _ids(sim, ids, count))
        return True

    def set_dof_position_target_tensor_indexed(self, sim, targets, ids, count):
        """Set position targets of the DOFs of those actors."""
        sim.tensors.set_targets(POS, targets, _ids(sim, ids, count))
        return True

    def set_dof_velocity_target_tensor_indexed(self, sim, targets, ids, count):
        """Set velocity targets of the DOFs of those actors."""
        sim.tensors.set_targets(VEL, targets, _ids(sim, ids, count))
        return True

    # forces that count for the next `simulate` only

    def apply_rigid_body_force_tensors(self, sim, forceTensor=None, torqueTensor=None, space=CoordinateSpace.ENV_SPACE):
        """Apply forces at centres of mass and torques, (bodies, 3) each."""
        sim.tensors.apply_forces(forceTensor, torqueTensor, _is_local(space))
        return True

    def apply_rigid_body_force_at_pos_tensors(self, sim, forceTensor, posTensor=None, space=CoordinateSpace.ENV_SPACE):
        """Apply forces (bodies, 3) at positions (bodies, 3)."""
        sim.tensors.apply_forces_at(forceTensor, posTensor, _is_local(space))
        return True
