"""The package: what it needs and its optional parts. Exact versions that CI ran are in constraints.txt."""

from setuptools import find_packages, setup

setup(
    name="livegym",
    version="0.1.0",
    description="Train robot policies in massively parallel physics and watch the policy that is learning now",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["cfg*", "sim*", "tasks*", "rl*", "live*", "viewers*", "utils*"]),
    py_modules=["train"],
    package_data={"cfg": ["*.yaml", "*/*.yaml"], "tasks": ["models/*.xml", "models/*/*.xml"]},
    install_requires=[
        "hydra-core~=1.3",
        "omegaconf~=2.3",
        "torch>=2.7",
        "rl-games==1.6.5",
        "gymnasium>=1.0",
        "tensorboard",
        "tensorboardX",
        "mujoco>=3.17,!=4.0.0",  # 4.0.0: wrong Newton Hessian with sparse Jacobians
        "rich",
        "matplotlib",  # config=runs draws curves
        "xxhash>=3.5",  # checksums of the weight bus
    ],
    extras_require={
        "gpu": ["mujoco-warp~=3.17"],
        "web": ["viser", "mjviser", "fastapi", "uvicorn", "pydantic"],
        "dev": ["pytest", "pytest-xdist", "hypothesis", "ruff", "mypy", "types-PyYAML", "imageio"],
        "bench": ["envpool", "stable-baselines3", "imageio"],
    },
)
