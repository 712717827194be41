"""Spin: let a wheel turn as fast as its drive of speed can."""

import matplotlib
import matplotlib.pyplot as plt  # noqa: F401
import torch
from isaacgym import gymapi, gymtorch
from utils.maths import *  # noqa: F403

from tasks.base.vec_task import VecTask

matplotlib.use("TkAgg")


class Spinner(VecTask):
    def __init__(self, cfg, sim_device, graphics_device_id, headless):
        self.cfg, self.max_episode_length = cfg, cfg["env"]["maxEpisodeLength"]
        cfg["env"].update(numObservations=3, numActions=1)
        super().__init__(cfg, sim_device, graphics_device_id, headless)
        self.state = gymtorch.wrap_tensor(self.gym.acquire_dof_state_tensor(self.sim)).view(self.num_envs, 2)

    def create_envs(self):
        options = gymapi.AssetOptions()
        options.fix_base_link = True
        files = self.cfg["env"]["asset"]
        asset = self.gym.load_asset(self.sim, files["assetRoot"], files["assetFileName"], options)
        for index in range(self.num_envs):
            env = self.gym.create_env(self.sim, gymapi.Vec3(-1, -1, 0), gymapi.Vec3(1, 1, 1), 8)
            actor = self.gym.create_actor(env, asset, gymapi.Transform(p=gymapi.Vec3(0, 0, 1)), "wheel", index, 1, 0)
            props = self.gym.get_actor_dof_properties(env, actor)
            props["driveMode"][:] = gymapi.DOF_MODE_VEL
            props["stiffness"][:] = 0.0
            props["damping"][:] = self.cfg["env"]["damping"]
            self.gym.set_actor_dof_properties(env, actor, props)
            self.envs.append(env)

    def pre_physics_step(self, actions):
        targets = (actions * self.cfg["env"]["speed"]).contiguous().view(-1)
        self.gym.set_dof_velocity_target_tensor(self.sim, gymtorch.unwrap_tensor(targets))

    def post_physics_step(self, late):
        self.gym.refresh_dof_state_tensor(self.sim)
        angle, speed = self.state[:, 0], self.state[:, 1]
        self.obs_buf = with_speed(angle, speed)  # noqa: F405
        self.rew_buf = 0.1 * speed
        self.reset_buf = late.long()

    def reset_idx(self, env_ids):
        self.state[env_ids] = 0.0
        ids = env_ids.to(torch.int32)
        self.gym.set_dof_state_tensor_indexed(
            self.sim, gymtorch.unwrap_tensor(self.state.view(-1, 2)), gymtorch.unwrap_tensor(ids), len(ids)
        )
        self.progress_buf[env_ids] = 0
        self.reset_buf[env_ids] = 0
