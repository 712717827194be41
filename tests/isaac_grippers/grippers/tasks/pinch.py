"""Pinch: close two fingers on a box and lift it. The state of the box is in root states of a second actor."""

import os

import torch
from isaacgym import gymapi, gymtorch
from loguru import logger

ASSETS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "assets")
EXISTING_SIM = None


class Targets:
    """A part of the environment with a state of its own: the targets of the drives."""

    def __init__(self, parent):
        self.parent = parent
        self.now = torch.zeros(parent.num_envs, 3)

    def move(self, actions):
        self.now = torch.clamp(self.now + 0.02 * actions, torch.tensor([-0.05, 0.0, 0.0]), self.parent.upper)

    def clear(self, env_ids):
        self.now[env_ids] = 0.0


class Pinch:
    """Environments are reset inside the step, but their last observation is returned."""

    def __init__(self, cfg, sim_device, rl_device, graphics_device_id):
        self.cfg, self.device = cfg, sim_device
        self.num_envs, self.num_actions = cfg["env"]["numEnvs"], 3
        self.max_episode_length = cfg["env"]["episodeLength"]
        torch.manual_seed(cfg["train"]["seed"])
        params = gymapi.SimParams()
        params.dt, params.substeps, params.up_axis = cfg["sim"]["dt"], cfg["sim"]["substeps"], gymapi.UP_AXIS_Z
        params.gravity = gymapi.Vec3(*cfg["sim"]["gravity"])
        self.gym = gymapi.acquire_gym()
        self.sim = self.gym.create_sim(0, graphics_device_id, gymapi.SIM_PHYSX, params)
        self.upper = torch.tensor([0.15, 0.05, 0.05])
        self.targets = Targets(self)
        self.obs_dict = {}
        self._build()
        self.steps = torch.zeros(self.num_envs, dtype=torch.long)
        self.rew_buf = torch.zeros(self.num_envs)
        self.extras = {}

    def _build(self):
        ground = gymapi.PlaneParams()
        ground.normal = gymapi.Vec3(0, 0, 1)
        self.gym.add_ground(self.sim, ground)
        options = gymapi.AssetOptions()
        options.fix_base_link = True
        options.default_dof_drive_mode = gymapi.DOF_MODE_POS
        hand = self.gym.load_asset(self.sim, ASSETS, "pinch.xml", options)
        options = gymapi.AssetOptions()
        options.density = self.cfg["task"]["boxMass"] / 0.04**3
        box = self.gym.create_box(self.sim, 0.04, 0.04, 0.04, options)
        pose = gymapi.Transform()
        for index in range(self.num_envs):
            env = self.gym.create_env(self.sim, gymapi.Vec3(-1, -1, 0), gymapi.Vec3(1, 1, 1), 8)
            self.gym.create_actor(env, hand, pose, f"hand_{index}", index, 0)
            at = gymapi.Transform()
            at.p = gymapi.Vec3(0.0, 0.0, 0.02)
            actor = self.gym.create_actor(env, box, at, f"box_{index}", index, 0)
            shapes = self.gym.get_actor_rigid_shape_properties(env, actor)
            shapes[0].friction, shapes[0].restitution = 1.5, 0.0
            self.gym.set_actor_rigid_shape_properties(env, actor, shapes)
        dofs = self.gym.acquire_dof_state_tensor(self.sim)
        roots = self.gym.acquire_actor_root_state_tensor(self.sim)
        contacts = self.gym.acquire_net_contact_force_tensor(self.sim)
        self.gym.prepare_sim(self.sim)
        self.dofs = gymtorch.wrap_tensor(dofs).view(self.num_envs, 3, 2)
        self.roots = gymtorch.wrap_tensor(roots).view(self.num_envs, 2, 13)
        self.contacts = gymtorch.wrap_tensor(contacts).view(self.num_envs, -1, 3)
        self.actor_ids = torch.arange(2 * self.num_envs, dtype=torch.int32).view(self.num_envs, 2)
        logger.success("built")

    def reset_idx(self, env_ids):
        self.steps[env_ids] = 0
        self.targets.clear(env_ids)
        self.dofs[env_ids] = 0.0
        self.roots[env_ids, 1] = torch.tensor([0, 0, 0.02, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], dtype=torch.float32)
        self.roots[env_ids, 1, 0] = 0.01 * (2 * torch.rand(len(env_ids)) - 1)
        ids = self.actor_ids[env_ids].flatten()
        self.gym.set_actor_root_state_tensor_indexed(
            self.sim, gymtorch.unwrap_tensor(self.roots), gymtorch.unwrap_tensor(ids), len(ids)
        )
        ids = self.actor_ids[env_ids, 0].contiguous()
        self.gym.set_dof_state_tensor_indexed(
            self.sim, gymtorch.unwrap_tensor(self.dofs), gymtorch.unwrap_tensor(ids), len(ids)
        )

    def reset(self):
        self.reset_idx(torch.arange(self.num_envs))
        return self._observe()

    def _observe(self):
        self.gym.refresh_dof_state_tensor(self.sim)
        self.gym.refresh_actor_root_state_tensor(self.sim)
        self.gym.refresh_net_contact_force_tensor(self.sim)
        touch = (self.contacts[:, 2:4].norm(dim=2) > 0.1).float()
        self.obs_dict = {"dofs": self.dofs.flatten(1), "targets": self.targets.now, "touch": touch}
        return torch.cat(list(self.obs_dict.values()), 1)

    def step(self, actions):
        if not self.obs_dict:
            raise RuntimeError("step before reset")
        self.targets.move(torch.clamp(actions, -1, 1))
        self.gym.set_dof_position_target_tensor(self.sim, gymtorch.unwrap_tensor(self.targets.now.contiguous()))
        self.gym.simulate(self.sim)
        self.gym.fetch_results(self.sim, True)
        observation = self._observe()
        self.steps += 1
        height = self.roots[:, 1, 2] - 0.02
        success = height > self.cfg["task"]["liftHeight"]
        failure = self.roots[:, 1, :2].norm(dim=1) > 0.1
        late = self.steps >= self.max_episode_length
        terms = {"closeness": self.dofs[:, 1:, 0].sum(1) / 0.1, "height": height}
        if success.any():  # a later stage has rewards of its own
            terms["success"] = success.float()
        weights = self.cfg["task"]["reward_weights"]
        weighted = {f"{name}_weighted": weights[name] * value for name, value in terms.items()}
        self.rew_buf[:] = sum(weighted.values())
        ended = success | failure | late
        if ended.any():
            self.reset_idx(ended.nonzero().flatten())
        self.extras = {
            "success": success,
            "failure": failure & ~success,
            "timeout": late & ~success & ~failure,
            "reward_components": {**terms, **weighted, "total": self.rew_buf},
        }
        return observation, self.rew_buf, ended, self.extras
