"""Methods of `Gym` that are not here: each raises NotImplementedError with its name and what to do instead."""

from __future__ import annotations

ABSENT = {
    "Soft bodies, cloth and particles have no stand-in here.": """
        acquire_particle_state_tensor acquire_pneumatic_pressure_tensor
        acquire_pneumatic_target_tensor create_cloth_grid create_tet_grid draw_env_soft_contacts
        get_actor_soft_body_count get_actor_soft_materials get_actor_tetrahedra_range
        get_actor_triangle_range get_asset_soft_body_count get_asset_soft_materials
        get_pneumatic_pressure get_pneumatic_target get_sim_tetrahedra get_sim_tetrahedra_count
        get_sim_triangle_count get_sim_triangles get_soft_contacts refresh_particle_state_tensor
        refresh_pneumatic_pressure_tensor refresh_pneumatic_target_tensor
        reset_actor_particles_to_rest set_actor_soft_materials set_particle_state_tensor
        set_particle_state_tensor_indexed set_pneumatic_pressure set_pneumatic_pressure_tensor
        set_pneumatic_pressure_tensor_indexed set_pneumatic_target set_pneumatic_target_tensor
        set_pneumatic_target_tensor_indexed
    """,
    "Textures have no stand-in here: set_rigid_body_color gives bodies a colour.": """
        create_texture_from_buffer create_texture_from_file free_texture get_rigid_body_texture
        reset_actor_materials set_rigid_body_texture
    """,
    "Compute it from get_camera_transform and horizontal_fov.": """
        get_camera_proj_matrix get_camera_view_matrix
    """,
    "There is no viewer window here: watch with livegym's viewers.": """
        get_viewer_camera_handle get_viewer_mouse_position get_viewer_size
    """,
    "Load a .urdf or .xml (MJCF) asset instead.": """
        attach_sim create_usd_exporter debug_print_asset destroy_usd_exporter export_usd_asset
        export_usd_sim get_usd_export_root load_opensim load_sim load_usd omni_connect
        omni_disconnect set_usd_export_root
    """,
    "Measure with Python's time module; get_sim_time and get_frame_count count simulated time.": """
        create_performance_timers destroy_env destroy_performance_timers get_elapsed_time
        get_performance_timers get_version set_sim_device
    """,
    "Read tendons and actuators through the get_asset_* methods that exist: properties, names and counts.": """
        find_actor_actuator_index find_actor_fixed_tendon_joint_index find_actor_tendon_index
        find_asset_tendon_index get_actor_actuator_joint_name get_actor_actuator_name
        get_actor_fixed_tendon_joint_coefficients get_actor_fixed_tendon_joint_name
        get_actor_tendon_offset get_asset_fixed_tendon_joint_coefficients
        get_asset_fixed_tendon_joint_name set_actor_fixed_tendon_joint_coefficients
        set_actor_tendon_offset set_asset_fixed_tendon_joint_coefficients
    """,
    "Use acquire_net_contact_force_tensor.": """
        get_env_rigid_contact_forces get_env_rigid_contacts get_rigid_contact_forces
        get_rigid_contacts get_vec_env_rigid_contact_forces
    """,
    "Use set_dof_actuation_force_tensor, apply_rigid_body_force_tensors, or the force tensors.": """
        apply_actor_dof_efforts apply_body_force_at_pos apply_body_forces apply_dof_effort
        get_actor_dof_forces get_actor_force_sensor get_sensor
    """,
    "An attractor keeps the target that create_rigid_body_attractor got.": """
        set_attractor_properties set_attractor_target
    """,
    "Use the DOF state tensor and the setters of DOF targets.": """
        get_actor_dof_frames get_actor_dof_position_targets get_actor_dof_states
        get_actor_dof_velocity_targets get_actor_joint_transforms get_dof_frame get_dof_position
        get_dof_target_position get_dof_target_velocity get_dof_type_string get_dof_velocity
        get_joint_handle get_joint_name get_joint_position get_joint_target_position
        get_joint_target_velocity get_joint_transform get_joint_type_string get_joint_velocity
        get_vec_actor_dof_states set_actor_dof_position_targets set_actor_dof_states
        set_actor_dof_velocity_targets set_dof_target_position set_dof_target_velocity
        set_joint_target_position set_joint_target_velocity
    """,
    "Use the root and body state tensors and their setters.": """
        create_aggregate get_actor_rigid_body_shape_indices get_actor_rigid_body_states
        get_asset_rigid_body_shape_indices get_env_rigid_body_states get_rigid_angular_velocity
        get_rigid_handle get_rigid_linear_velocity get_rigid_name get_sim_rigid_body_states
        get_vec_rigid_angular_velocity get_vec_rigid_linear_velocity get_vec_rigid_transform
        set_actor_rigid_body_states set_env_rigid_body_states set_rigid_angular_velocity
        set_rigid_body_state_tensor set_rigid_linear_velocity set_rigid_transform
        set_sim_rigid_body_states
    """,
}
"""Advice -> the names of the methods."""


class Absent:
    """Refuses by name."""

    def __getattr__(self, name):
        raise AttributeError(f"Gym has no method {name}: Isaac Gym Preview 4 has none, either.")


def _add(name, instead):
    def refuse(self, *args, **kwargs):
        raise NotImplementedError(f"gym.{name} is not available over MuJoCo. {instead}")

    refuse.__name__ = name
    refuse.__qualname__ = f"Absent.{name}"
    refuse.__doc__ = f"Raises NotImplementedError. {instead}"
    setattr(Absent, name, refuse)


for _instead, _names in ABSENT.items():
    for _name in _names.split():
        _add(_name, _instead)
