"""The base class of the toys, in the manner of Isaac Gym's tasks: it owns the loop, the buffers and the resets."""

from abc import ABC, abstractmethod

import gym
import numpy as np
import torch
from isaacgym import gymapi

EXISTING_SIM = None


class Vectorised(ABC):
    """Many environments of one scene. An episode that ended is reset in the next step."""

    def __init__(self, cfg, rl_device, sim_device, graphics_device_id, headless, virtual_screen_capture, force_render):
        global EXISTING_SIM
        env = cfg["env"]
        self.cfg, self.device, self.rl_device, self.headless = cfg, "cpu", rl_device, headless
        self.num_envs, self.num_obs, self.num_actions = env["numEnvs"], env["numObservations"], env["numActions"]
        self.max_episode_length = env["episodeLength"]
        self.control_freq_inv = env.get("controlFrequencyInv", 1)
        self.observation_space = gym.spaces.Box(-np.Inf, np.Inf, (self.num_obs,))
        params = gymapi.SimParams()
        params.dt, params.substeps, params.up_axis = cfg["sim"]["dt"], cfg["sim"]["substeps"], gymapi.UP_AXIS_Z
        params.gravity = gymapi.Vec3(*cfg["sim"]["gravity"])
        params.physx.contact_collection = gymapi.ContactCollection(1)
        self.gym = gymapi.acquire_gym()
        if EXISTING_SIM is None:
            EXISTING_SIM = self.gym.create_sim(0, graphics_device_id, gymapi.SIM_PHYSX, params)
        self.sim = EXISTING_SIM
        self.build()
        self.gym.prepare_sim(self.sim)
        self.viewer = None
        if not headless:
            self.viewer = self.gym.create_viewer(self.sim, gymapi.CameraProperties())
            self.gym.viewer_camera_look_at(self.viewer, None, gymapi.Vec3(3, 3, 2), gymapi.Vec3(0, 0, 1))
        self.obs_buf = torch.zeros(self.num_envs, self.num_obs)
        self.rew_buf = torch.zeros(self.num_envs)
        self.reset_buf = torch.ones(self.num_envs, dtype=torch.long)
        self.progress_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.extras = {}
        with open("toy.txt", "w") as file:  # such tasks write their generated models into the current directory
            file.write(type(self).__name__)

    @abstractmethod
    def build(self):
        """Load the asset, and create environments and actors."""

    @abstractmethod
    def act(self, actions):
        """Write forces or targets."""

    @abstractmethod
    def observe(self):
        """Fill obs_buf."""

    @abstractmethod
    def judge(self):
        """Return rewards (N,) and failures (N,)."""

    @abstractmethod
    def reset_idx(self, env_ids):
        """Put environments into start states."""

    def draw(self):
        raise NotImplementedError("this toy has no lines")

    def step(self, actions):
        self.act(torch.clamp(actions, -1.0, 1.0))
        for _ in range(self.control_freq_inv):
            self.gym.simulate(self.sim)
        self.gym.fetch_results(self.sim, True)
        self.progress_buf += 1
        ended = self.reset_buf.nonzero().squeeze(-1)
        if len(ended) > 0:
            self.reset_idx(ended)
            self.progress_buf[ended] = 0
            self.reset_buf[ended] = 0
        self.observe()
        self.rew_buf, failed = self.judge()
        late = self.progress_buf >= self.max_episode_length - 1
        self.reset_buf = (failed | late).long()
        self.extras["time_outs"] = late & ~failed
        if self.viewer and self.cfg["env"].get("enableDebugVis", False):
            self.draw()
        return {"obs": self.obs_buf}, self.rew_buf, self.reset_buf, self.extras
