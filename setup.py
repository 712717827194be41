"""The package: what it needs and its optional parts. Exact versions that CI ran are in constraints.txt."""

from setuptools import find_packages, setup

setup(
    name="livegym",
    version="0.1.0",
    description="Train robot policies in massively parallel physics and watch the policy that is learning now",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(
        include=["cfg*", "sim*", "tasks*", "rl*", "live*", "web*", "online*", "viewers*", "utils*", "livegym_client*"]
    ),
    py_modules=["train"],
    package_data={
        "viewers": ["browser/page/*"],
        "web": ["page/*"],
        "online": ["page/*"],
        "cfg": ["*.yaml", "*/*.yaml"],
        "tasks": ["models/*.xml", "models/*/*.xml"],
    },
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
        "viser~=1.1.1",  # the page's 3D scene: viewers/browser/viser_seam.py knows this version's inside
        "trimesh",
        "mjviser>=0.0.14",  # MuJoCo's geoms as meshes
        "fastapi",
        "starlette",
        "uvicorn",
        "websockets>=15",
        "h11",
        "pydantic>=2",
        "pydantic_core",
        "msgspec",  # viser's messages
        "zstandard",
        "prometheus_client",
        "swagger-ui-bundle",  # the page of the API's documentation, without internet
        "av>=14",  # H.264
        "simplejpeg",
        "PyOpenGL",  # off-screen pictures
        "glfw",
    ],
    extras_require={
        "gpu": ["mujoco-warp~=3.17"],
        "dev": [
            "pytest",
            "pytest-xdist",
            "hypothesis",
            "ruff",
            "mypy",
            "types-PyYAML",
            "httpx",
            "imageio",
            "playwright",
        ],
        "bench": ["envpool", "stable-baselines3", "imageio"],
    },
)
