"""Makes the environments of this package, in the manner of dexrobot_isaac."""

from loguru import logger

from grippers.tasks.pinch import Pinch

TASKS = {"Pinch": Pinch}


def make_env(task_name, num_envs, sim_device, rl_device, graphics_device_id, cfg=None, force_render=False):
    logger.info("making {} environments of {}", num_envs, task_name)
    cfg["env"]["numEnvs"] = num_envs
    return TASKS[task_name](cfg, sim_device, rl_device, graphics_device_id)
