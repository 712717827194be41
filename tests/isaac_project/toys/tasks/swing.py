"""Swing: hold an arm upright on a motor that is weaker than gravity in the worst pose."""

import os

import torch
from isaacgym import gymapi, gymtorch, gymutil

from toys.tasks.vectorised import Vectorised

ASSETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../assets")


class Swing(Vectorised):
    def build(self):
        options = gymapi.AssetOptions()
        options.fix_base_link = True
        asset = self.gym.load_asset(self.sim, ASSETS, self.cfg["env"]["asset"]["file"], options)
        pose = gymapi.Transform()
        pose.p = gymapi.Vec3(0.0, 0.0, 1.0)
        self.envs, self.pivot = [], pose
        self.axes = gymutil.AxesGeometry(0.2)
        for index in range(self.num_envs):
            env = self.gym.create_env(self.sim, gymapi.Vec3(-1, -1, 0), gymapi.Vec3(1, 1, 2), 8)
            self.envs.append(env)
            actor = self.gym.create_actor(env, asset, pose, "arm", index, 1, 0)
            props = self.gym.get_actor_dof_properties(env, actor)
            props["driveMode"][:] = gymapi.DOF_MODE_EFFORT
            props["stiffness"][:] = 0.0
            props["damping"][:] = self.cfg["env"]["damping"]
            self.gym.set_actor_dof_properties(env, actor, props)
        self.gym.prepare_sim(self.sim)
        self.state = gymtorch.wrap_tensor(self.gym.acquire_dof_state_tensor(self.sim)).view(self.num_envs, 2)

    def act(self, actions):
        force = (actions * self.cfg["env"]["maxTorque"]).contiguous().view(-1)
        self.gym.set_dof_actuation_force_tensor(self.sim, gymtorch.unwrap_tensor(force))

    def observe(self):
        self.gym.refresh_dof_state_tensor(self.sim)
        angle, speed = self.state[:, 0], self.state[:, 1]
        self.obs_buf = torch.stack([angle.sin(), angle.cos(), 0.1 * speed], dim=1)

    def judge(self):
        angle, speed = self.state[:, 0], self.state[:, 1]
        return angle.cos() - 0.001 * speed**2, speed.abs() > 30.0

    def draw(self):
        """A green line along each arm, up to twice its length, and the axes of its pivot."""
        self.gym.clear_lines(self.viewer)
        for env, angle in zip(self.envs, self.state[:, 0], strict=True):
            tip = [angle.sin(), 0.0, 1.0 + angle.cos()]
            self.gym.add_lines(self.viewer, env, 1, [0.0, 0.0, 1.0, *tip], [0.0, 1.0, 0.0])
            gymutil.draw_lines(self.axes, self.gym, self.viewer, env, self.pivot)

    def reset_idx(self, env_ids):
        self.state[env_ids] = (torch.rand(len(env_ids), 2) - 0.5) * self.cfg["env"]["startRange"]
        ids = env_ids.to(torch.int32)
        self.gym.set_dof_state_tensor_indexed(
            self.sim, gymtorch.unwrap_tensor(self.state.view(-1, 2)), gymtorch.unwrap_tensor(ids), len(ids)
        )
