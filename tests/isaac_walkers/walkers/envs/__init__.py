from walkers.utils.task_registry import task_registry

from .hound.hound import Hound
from .hound.hound_config import HoundCfg, HoundCfgPPO, HoundRoughCfg

task_registry.register("hound", Hound, HoundCfg(), HoundCfgPPO())
task_registry.register("hound_rough", Hound, HoundRoughCfg(), HoundCfgPPO())
