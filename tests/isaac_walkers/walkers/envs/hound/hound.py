"""Hound: a trunk on four legs with one hip each walks forwards. Torques come from Python, in each simulated step."""

import numpy as np
import torch
from isaacgym import gymapi, gymtorch, terrain_utils
from isaacgym.torch_utils import quat_rotate_inverse, to_torch, torch_rand_float
from walkers import RESOURCES


class Hound:
    def __init__(self, cfg, sim_params, physics_engine, sim_device, headless):
        self.cfg, self.device, self.headless = cfg, sim_device, headless
        self.num_envs, self.num_actions = cfg.env.num_envs, cfg.env.num_actions
        self.dt = cfg.control.decimation * sim_params.dt
        self.max_episode_length = int(np.ceil(cfg.env.episode_length_s / self.dt))
        self.gym = gymapi.acquire_gym()
        self.sim = self.gym.create_sim(0, -1, physics_engine, sim_params)
        self.make_ground()
        self.make_envs()
        self.gym.prepare_sim(self.sim)
        self.viewer = None if headless else self.gym.create_viewer(self.sim, gymapi.CameraProperties())
        n = self.num_envs
        self.root_states = gymtorch.wrap_tensor(self.gym.acquire_actor_root_state_tensor(self.sim))
        dofs = gymtorch.wrap_tensor(self.gym.acquire_dof_state_tensor(self.sim))
        self.dof_state, self.dof_pos, self.dof_vel = dofs, dofs.view(n, -1, 2)[..., 0], dofs.view(n, -1, 2)[..., 1]
        self.contact = gymtorch.wrap_tensor(self.gym.acquire_net_contact_force_tensor(self.sim)).view(n, -1, 3)
        self.default_dof_pos = to_torch([cfg.init_state.angles[name] for name in self.dof_names]).unsqueeze(0)
        self.gravity = to_torch([0.0, 0.0, -1.0]).repeat(n, 1)
        self.actions = torch.zeros(n, self.num_actions)
        self.episode_length_buf = torch.zeros(n, dtype=torch.long)
        self.obs_buf, self.rew_buf = torch.zeros(n, cfg.env.num_observations), torch.zeros(n)
        self.privileged_obs_buf = torch.zeros(n, cfg.env.num_privileged_obs)
        self.progress = torch.zeros(n)
        self.common_step_counter = 0
        self.extras = {}

    def make_ground(self):
        terrain = self.cfg.terrain
        if terrain.mesh_type == "plane":
            plane = gymapi.PlaneParams()
            plane.normal = gymapi.Vec3(0.0, 0.0, 1.0)
            plane.static_friction = plane.dynamic_friction = terrain.friction
            self.gym.add_ground(self.sim, plane)
            return
        part = terrain_utils.SubTerrain("bumps", width=40, length=40, vertical_scale=0.005, horizontal_scale=0.1)
        terrain_utils.random_uniform_terrain(part, -0.02, 0.02, step=0.005, downsampled_scale=0.2)
        vertices, triangles = terrain_utils.convert_heightfield_to_trimesh(part.height_field_raw, 0.1, 0.005, 0.75)
        params = gymapi.TriangleMeshParams()
        params.nb_vertices, params.nb_triangles = vertices.shape[0], triangles.shape[0]
        params.transform.p = gymapi.Vec3(-2.0, -2.0, 0.0)
        params.static_friction = params.dynamic_friction = terrain.friction
        self.gym.add_triangle_mesh(self.sim, vertices.flatten(order="C"), triangles.flatten(order="C"), params)

    def make_envs(self):
        cfg = self.cfg
        options = gymapi.AssetOptions()
        options.default_dof_drive_mode = gymapi.DOF_MODE_EFFORT
        options.collapse_fixed_joints = True
        asset = self.gym.load_asset(self.sim, RESOURCES, cfg.asset.file, options)
        self.dof_names = self.gym.get_asset_dof_names(asset)
        shapes = self.gym.get_asset_rigid_shape_properties(asset)
        start = gymapi.Transform()
        start.p = gymapi.Vec3(0.0, 0.0, cfg.init_state.height)
        self.friction = torch_rand_float(*cfg.domain_rand.friction_range, (self.num_envs, 1), device=self.device)
        self.added_mass = torch_rand_float(*cfg.domain_rand.added_mass_range, (self.num_envs, 1), device=self.device)
        for index in range(self.num_envs):
            env = self.gym.create_env(self.sim, gymapi.Vec3(0, 0, 0), gymapi.Vec3(0, 0, 0), 8)
            for shape in shapes:
                shape.friction = float(self.friction[index])
            self.gym.set_asset_rigid_shape_properties(asset, shapes)
            actor = self.gym.create_actor(env, asset, start, cfg.asset.name, index, 0, 0)
            bodies = self.gym.get_actor_rigid_body_properties(env, actor)
            bodies[0].mass += float(self.added_mass[index])
            self.gym.set_actor_rigid_body_properties(env, actor, bodies, recomputeInertia=True)

    def step(self, actions):
        cfg = self.cfg
        limit = cfg.normalization.clip_actions
        self.actions = torch.clip(actions, -limit, limit)
        targets = cfg.control.action_scale * self.actions + self.default_dof_pos
        for _ in range(cfg.control.decimation):
            torques = cfg.control.stiffness * (targets - self.dof_pos) - cfg.control.damping * self.dof_vel
            self.gym.set_dof_actuation_force_tensor(self.sim, gymtorch.unwrap_tensor(torques.contiguous()))
            self.gym.simulate(self.sim)
            self.gym.fetch_results(self.sim, True)
            self.gym.refresh_dof_state_tensor(self.sim)
        self.gym.refresh_actor_root_state_tensor(self.sim)
        self.gym.refresh_net_contact_force_tensor(self.sim)
        self.episode_length_buf += 1
        self.common_step_counter += 1
        if cfg.domain_rand.max_push_vel and self.common_step_counter % cfg.domain_rand.push_interval == 0:
            self.push()
        failed = self.contact[:, 0].norm(dim=-1) > 1.0  # the trunk touches something
        self.time_out_buf = self.episode_length_buf > self.max_episode_length
        self.reset_buf = failed | self.time_out_buf
        self.rew_buf = self.dt * (1.0 + self.root_states[:, 7] - 0.001 * self.dof_vel.square().sum(1))
        self.progress += self.rew_buf
        self.reset_idx(self.reset_buf.nonzero().flatten())
        self.compute_observations()
        clip = cfg.normalization.clip_observations
        self.obs_buf = torch.clip(self.obs_buf, -clip, clip)
        if self.viewer:
            self.draw()
        return self.obs_buf, self.privileged_obs_buf, self.rew_buf, self.reset_buf, self.extras

    def draw(self):
        """A yellow line from the ground to each trunk: global lines, which name no environment."""
        above = self.root_states[:, :3].numpy()
        ends = np.stack([above * [1.0, 1.0, 0.0], above], axis=1).astype(np.float32)
        self.gym.clear_lines(self.viewer)
        self.gym.add_lines(self.viewer, None, self.num_envs, ends, np.tile([1.0, 1.0, 0.0], (self.num_envs, 1)))

    def push(self):
        speed = self.cfg.domain_rand.max_push_vel
        self.root_states[:, 7:9] = torch_rand_float(-speed, speed, (self.num_envs, 2), device=self.device)
        self.gym.set_actor_root_state_tensor(self.sim, gymtorch.unwrap_tensor(self.root_states))

    def compute_observations(self):
        quat = self.root_states[:, 3:7]
        turning = quat_rotate_inverse(quat, self.root_states[:, 10:13])
        down = quat_rotate_inverse(quat, self.gravity)
        hips = self.dof_pos - self.default_dof_pos
        speed = self.root_states[:, 7:8]
        self.obs_buf = torch.cat([turning, down, hips, 0.1 * self.dof_vel[:, :3], self.actions], dim=1)
        self.privileged_obs_buf = torch.cat([self.obs_buf, speed], dim=1)

    def reset_idx(self, env_ids):
        if len(env_ids) == 0:
            return
        self.dof_pos[env_ids] = self.default_dof_pos + torch_rand_float(-0.1, 0.1, (len(env_ids), 4), self.device)
        self.dof_vel[env_ids] = 0.0
        self.root_states[env_ids] = to_torch([0, 0, self.cfg.init_state.height, 0, 0, 0, 1] + 6 * [0])
        ids = env_ids.to(dtype=torch.int32)
        pointer = gymtorch.unwrap_tensor(ids)
        self.gym.set_dof_state_tensor_indexed(self.sim, gymtorch.unwrap_tensor(self.dof_state), pointer, len(ids))
        self.gym.set_actor_root_state_tensor_indexed(
            self.sim, gymtorch.unwrap_tensor(self.root_states), pointer, len(ids)
        )
        self.extras["episode"] = {"progress": self.progress[env_ids].clone(), "steps": self.common_step_counter}
        self.extras["time_outs"] = self.time_out_buf
        self.progress[env_ids] = 0.0
        self.episode_length_buf[env_ids] = 0
