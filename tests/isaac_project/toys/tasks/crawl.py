"""Crawl: a block on two legs moves forwards. The legs follow targets; the block must not turn over."""

import os

import torch
from isaacgym import gymapi, gymtorch

from toys.tasks.vectorised import Vectorised

ASSETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../assets")


class Crawler(Vectorised):
    def build(self):
        plane = gymapi.PlaneParams()
        plane.normal = gymapi.Vec3(0.0, 0.0, 1.0)
        self.gym.add_ground(self.sim, plane)
        asset = self.gym.load_asset(self.sim, ASSETS, self.cfg["env"]["asset"]["file"], gymapi.AssetOptions())
        pose = gymapi.Transform()
        pose.p = gymapi.Vec3(0.0, 0.0, self.cfg["env"]["startHeight"])
        for index in range(self.num_envs):
            env = self.gym.create_env(self.sim, gymapi.Vec3(-1, -1, 0), gymapi.Vec3(1, 1, 1), 8)
            actor = self.gym.create_actor(env, asset, pose, "crawler", index, 0, 0)
            props = self.gym.get_actor_dof_properties(env, actor)
            props["driveMode"][:] = gymapi.DOF_MODE_POS
            props["stiffness"][:] = self.cfg["env"]["stiffness"]
            props["damping"][:] = self.cfg["env"]["damping"]
            self.gym.set_actor_dof_properties(env, actor, props)
        self.gym.prepare_sim(self.sim)
        n = self.num_envs
        self.root = gymtorch.wrap_tensor(self.gym.acquire_actor_root_state_tensor(self.sim)).view(n, 13)
        self.dofs = gymtorch.wrap_tensor(self.gym.acquire_dof_state_tensor(self.sim)).view(n, 2, 2)
        self.contact = gymtorch.wrap_tensor(self.gym.acquire_net_contact_force_tensor(self.sim)).view(n, -1, 3)
        self.first = self.root.clone()

    def act(self, actions):
        targets = (0.8 * actions).contiguous().view(-1)
        self.gym.set_dof_position_target_tensor(self.sim, gymtorch.unwrap_tensor(targets))

    def observe(self):
        self.gym.refresh_actor_root_state_tensor(self.sim)
        self.gym.refresh_dof_state_tensor(self.sim)
        self.gym.refresh_net_contact_force_tensor(self.sim)
        touch = (self.contact[:, :, 2] > 1.0).float()
        self.obs_buf = torch.cat([self.root[:, 2:13], self.dofs.flatten(1), touch], dim=1)

    def judge(self):
        upright = 1.0 - 2.0 * (self.root[:, 3] ** 2 + self.root[:, 4] ** 2)
        return self.root[:, 7], upright < 0.0

    def reset_idx(self, env_ids):
        self.root[env_ids] = self.first[env_ids]
        self.dofs[env_ids] = 0.1 * (torch.rand(len(env_ids), 2, 2) - 0.5)
        ids = env_ids.to(torch.int32)
        for write, states in (
            (self.gym.set_actor_root_state_tensor_indexed, self.root),
            (self.gym.set_dof_state_tensor_indexed, self.dofs.view(-1, 2)),
        ):
            write(self.sim, gymtorch.unwrap_tensor(states), gymtorch.unwrap_tensor(ids), len(ids))
