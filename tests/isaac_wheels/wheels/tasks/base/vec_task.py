"""The base class of the wheels: as the toys', but of the time when constructors took four arguments."""

import abc

import torch
from isaacgym import gymapi, gymutil

EXISTING_SIM = None


class VecTask(abc.ABC):
    @abc.abstractmethod
    def pre_physics_step(self, actions):
        """Write targets."""

    def __init__(self, config, sim_device, graphics_device_id, headless):
        global EXISTING_SIM
        env = config["env"]
        self.device, self.rl_device = sim_device, config.get("rl_device", "cuda:0")
        self.num_envs, self.num_obs, self.num_actions = env["numEnvs"], env["numObservations"], env["numActions"]
        params = gymapi.SimParams()
        params.dt, params.substeps, params.up_axis = config["sim"]["dt"], config["sim"]["substeps"], gymapi.UP_AXIS_Z
        params.gravity = gymapi.Vec3(0.0, 0.0, -9.81)
        self.gym = gymapi.acquire_gym()
        if EXISTING_SIM is None:
            EXISTING_SIM = self.gym.create_sim(0, graphics_device_id, gymapi.SIM_PHYSX, params)
        self.sim = EXISTING_SIM
        self.envs, self.original = [], {}
        self.create_envs()
        if config["task"]["randomize"]:
            self.randomize(config["task"]["randomization_params"])
        self.gym.prepare_sim(self.sim)
        self.obs_buf = torch.zeros(self.num_envs, self.num_obs)
        self.rew_buf = torch.zeros(self.num_envs)
        self.reset_buf = torch.ones(self.num_envs, dtype=torch.long)
        self.progress_buf = torch.zeros(self.num_envs, dtype=torch.long)

    def randomize(self, params):
        """Change what the yaml says, by the functions that gymutil had."""
        getters, setters = gymutil.get_property_getter_map(self.gym), gymutil.get_property_setter_map(self.gym)
        further, step = gymutil.get_default_setter_args(self.gym), self.gym.get_frame_count(self.sim)
        gymutil.check_buckets(self.gym, self.envs, params)
        prop = self.gym.get_sim_params(self.sim)
        original = {name: getattr(prop, name) for name in dir(prop)}
        for attr, how in params["sim_params"].items():
            gymutil.apply_random_samples(prop, original, attr, how, step)
        self.gym.set_sim_params(self.sim, prop)
        for actor, kinds in params["actor_params"].items():
            for env in self.envs:
                handle = self.gym.find_actor_handle(env, actor)
                for kind, attributes in kinds.items():
                    props = getters[kind](env, handle)
                    for prop in props if isinstance(props, list) else [props]:
                        before = {name: getattr(prop, name) for name in dir(prop)} if prop is not props else prop.copy()
                        for attr, how in attributes.items():
                            gymutil.apply_random_samples(prop, before, attr, how, step, None)
                    setters[kind](env, handle, props, *further[kind])

    def step(self, actions):
        self.pre_physics_step(actions.to(self.device))
        self.gym.simulate(self.sim)
        self.gym.fetch_results(self.sim, True)
        self.progress_buf += 1
        late = self.progress_buf >= self.max_episode_length - 1
        ended = self.reset_buf.nonzero().squeeze(-1)
        if len(ended) > 0:
            self.reset_idx(ended)
        self.post_physics_step(late)
        self.rew_buf = self.rew_buf.to(self.rl_device)
        return {"obs": self.obs_buf.to(self.rl_device)}, self.rew_buf, self.reset_buf, {"time_outs": late}
