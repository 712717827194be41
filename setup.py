"""The package: what it needs and its optional parts. Exact versions that CI ran are in constraints.txt.

The packages lie at the top of the checkout and are imported as `livegym.<package>`; `package_dir` puts them there.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
PACKAGES = (
    "utils", "projects", "schema", "rundir", "compare", "sim", "tasks", "compat", "robots", "cfg", "rl", "weights",
    "live", "play", "deploy", "web", "online", "serve", "viewers", "learners",
)  # fmt: skip
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "livegym" / "__init__.py").read_text())[1]


class BuildPy(build_py):
    """Puts train.py, which lies beside the packages in a checkout, into the package."""

    def find_package_modules(self, package, package_dir):
        found = super().find_package_modules(package, package_dir)
        return [*found, (package, "train", "train.py")] if package == "livegym" else found


def packages():
    """`livegym`, and each package with its subpackages."""
    nested = [[package, *(f"{package}.{inner}" for inner in find_packages(package))] for package in PACKAGES]
    return ["livegym", *(f"livegym.{name}" for names in nested for name in names)]


setup(
    name="livegym",
    version=VERSION,
    description="Train robot policies in simulation and watch the policy that is learning now",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords="reinforcement-learning robotics mujoco ppo hydra simulation",
    python_requires=">=3.11",
    cmdclass={"build_py": BuildPy},
    package_dir={"livegym": "livegym", **{f"livegym.{package}": package for package in PACKAGES}},
    packages=packages(),
    entry_points={"console_scripts": ["livegym = livegym.train:main"]},
    package_data={
        "livegym.projects": ["template/*", "template/*/*", "template/*/*/*"],
        "livegym.robots": ["template/*", "template/*/*", "template/*/*/*"],
        "livegym.viewers": ["browser/page/*"],
        "livegym.web": ["page/*"],
        "livegym.serve": ["page/*", "browser/*"],
        "livegym.cfg": ["*.yaml", "*/*.yaml"],
        "livegym.tasks": ["models/*.xml", "models/*/*.xml", "hand/maps/*.yaml", "*.js", "*/*.js"],
    },
    install_requires=[
        "hydra-core~=1.3.0",
        "omegaconf~=2.3",
        "numpy>=1.26",
        "pyyaml",
        "torch>=2.7",
        "rl-games==1.6.5",
        "gymnasium>=1.1",  # which says by AutoresetMode when an environment begins again
        "tensorboard",
        "tensorboardX",
        "protobuf",  # the events of TensorBoard
        "mujoco>=3.17,!=4.0.0",  # 4.0.0: wrong Newton Hessian with sparse Jacobians
        "rich",
        "matplotlib",  # config=report draws curves
        "xxhash>=3.5",  # checksums of the weight bus
        "viser~=1.1.1",  # the page's 3D scene: web/viser_seam.py knows this version's inside
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
        "dev": [
            "setuptools>=77",  # builds wheels in tests
            "pytest",
            "pytest-xdist",
            "hypothesis",
            "ruff",
            "mypy",
            "types-PyYAML",
            "httpx",
            "imageio",
            "playwright",
            "axe-playwright-python",  # the accessibility checker axe
            "jsonschema",
            "wandb",
            "coacd",
            "hydra-joblib-launcher",
            "joblib>=1.6",
            "hydra-submitit-launcher",
            "pyarrow",
            "onnx",
            "onnxscript",
            "onnxruntime",
            "upkie_description",  # a robot from outside, for the test of docs/your-robot.md
            "stable-baselines3",
            "rsl-rl-lib",
            "skrl",
        ],
        "export": [
            "pyarrow>=17",  # Parquet of config=export_log
            "onnx>=1.17",  # config=export
            "onnxscript>=0.5",
            "onnxruntime>=1.20",
        ],
        "wandb": ["wandb>=0.30"],  # wandb=true
        "convex": ["coacd>=1.0.14"],  # convex pieces of the hollow meshes of Isaac Gym tasks
        "launchers": [  # hydra/launcher=joblib, submitit_local ...
            "hydra-joblib-launcher>=1.2",
            "joblib>=1.6",  # older ones end the mask by which a sweep keeps Ctrl+C from joblib's workers
            "hydra-submitit-launcher>=1.2",
        ],
        # learners whose training is a run here (learners/)
        "sb3": ["stable-baselines3>=2.6"],
        "rsl_rl": ["rsl-rl-lib>=5.5"],
        "skrl": ["skrl>=2.1"],
        "docs": ["mkdocs>=1.6", "mkdocs-material", "mkdocstrings[python]"],
        "bench": ["envpool", "stable-baselines3", "imageio"],
    },
)
