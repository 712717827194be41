"""The tasks in Gymnasium's registry: `livegym/Ant-v0` and so on, and `livegym/Task-v0` for any other task.

    import gymnasium, livegym
    envs = gymnasium.make_vec("livegym/Ant-v0", num_envs=64)
    envs = gymnasium.make_vec("livegym/Task-v0", num_envs=64, task="MyRobot", project_dir="path/to/my_robot")

`import livegym` calls this when Gymnasium has been imported, whichever of the two is imported first. So it must be
quick, import no other module of livegym, and never fail.
"""

from __future__ import annotations

from pathlib import Path

from gymnasium.envs.registration import register, registry

TASKS = Path(__file__).parent.parent / "cfg" / "task"
NAMESPACE = "livegym"
OF = "_task_of_the_id"
"""The argument that names an id's own task, so that no caller can replace it by `task`."""
ANY = "Task"
"""The id for a task of a project or a foreign checkout, which the argument `task` names."""
HIDDEN = "Spaces"
"""A task that clients simulate: it has no environment here."""


def register_envs() -> None:
    """Register all tasks of livegym; a second call does nothing."""
    names = sorted(file.stem for file in TASKS.glob("*.yaml") if file.stem != HIDDEN)
    for name in (*names, ANY):
        env_id = f"{NAMESPACE}/{name}-v0"
        if env_id not in registry:
            register(
                env_id,
                entry_point="livegym.learners.gymnasium_env:LivegymEnv",
                vector_entry_point="livegym.learners.gymnasium_env:LivegymVectorEnv",
                kwargs={} if name == ANY else {OF: name},
            )
