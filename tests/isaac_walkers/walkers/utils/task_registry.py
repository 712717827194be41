"""Name -> class, configuration of the environment, and configuration of the learner."""

from isaacgym import gymapi, gymutil
from rsl_rl.env import VecEnv  # not installed here; only its name is needed


class TaskRegistry:
    def __init__(self):
        self.classes, self.cfgs = {}, {}

    def register(self, name: str, cls: VecEnv, env_cfg, train_cfg):
        self.classes[name], self.cfgs[name] = cls, (env_cfg, train_cfg)

    def get_cfgs(self, name):
        env_cfg, train_cfg = self.cfgs[name]
        env_cfg.seed = train_cfg.seed
        return env_cfg, train_cfg

    def make_env(self, name, args=None, env_cfg=None):
        params = gymapi.SimParams()
        params.use_gpu_pipeline = args.use_gpu_pipeline
        sim = {key: getattr(env_cfg.sim, key) for key in ("dt", "substeps", "gravity", "up_axis")}
        gymutil.parse_sim_config(sim, params)
        env = self.classes[name](env_cfg, params, args.physics_engine, args.sim_device, args.headless)
        return env, env_cfg


task_registry = TaskRegistry()
