"""The house rules that a machine can hold: imports one way, sizes, docstrings, no broad except."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = [
    "livegym",
    "utils",
    "projects",
    "schema",
    "rundir",
    "compare",
    "sim",
    "tasks",
    "compat",
    "robots",
    "cfg",
    "rl",
    "weights",
    "live",
    "play",
    "deploy",
    "web",
    "online",
    "serve",
    "viewers",
    "learners",
    "train",
]
"""Lowest first. A module may import its own layer and lower ones; nothing imports upwards."""
PACKAGES = [layer for layer in LAYERS if layer not in ("livegym", "train")]
MODULES = [
    *sorted((ROOT / "livegym").glob("*.py")),
    *sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py") if "template" not in p.parts),
    ROOT / "train.py",
]
PAGES = sorted(p for package in PACKAGES for kind in ("js", "css") for p in (ROOT / package).rglob(f"*.{kind}"))
"""What browsers run: the pages' files, and the tasks' pictures."""
CLIENT = sorted((ROOT / "clients").rglob("*.py"))

WHEELS = "tests/isaac_wheels/"  # foreign code, whose program starts in its package's folder
ABOVE = ("livegym.__main__", "livegym.child", "livegym.contract")
"""Modules of the package itself that may import everything."""

MAX_FILE, MAX_FUNCTION, MEDIAN_FUNCTION, MAX_LINE = 400, 60, 10, 120


CONTRACT = set(re.findall(r"def (\w+)", (ROOT / "sim" / "base.py").read_text()))
"""Methods whose docstrings stand in the contract; the engines need not repeat them."""


def name_of(path: Path) -> str:
    """The name without `livegym.` in front: rl.saver"""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer_of(imported: str) -> int | None:
    """The layer of an imported module; None for a library's."""
    package, _, module = imported.partition(".")
    if package != "livegym":
        return None
    package = module.partition(".")[0]
    return LAYERS.index(package) if package in LAYERS else 0


def own_layer(name: str) -> int:
    """The layer of one of our modules."""
    return len(LAYERS) if name in ABOVE else LAYERS.index(name.partition(".")[0])


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def imports(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


class Facts(NamedTuple):
    """What the rules ask about a file."""

    imports: list[str]
    lengths: dict[str, int]  # lines of each function, by its name and its first line
    triple_assignments: list[int]  # lines in which a statement assigns three names at once
    has_broad_except: bool


@functools.cache
def facts_of(path: Path) -> Facts:
    """Many tests ask, and parsing takes the most time; the trees themselves are too large to keep."""
    tree = tree_of(path)
    lengths, triples, broad = {}, [], False
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lengths[f"{node.name} in line {node.lineno}"] = node.end_lineno - node.lineno + 1
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            if isinstance(node.targets[0], ast.Tuple) and len(node.targets[0].elts) > 2:
                triples.append(node.lineno)
        elif isinstance(node, ast.ExceptHandler):
            broad = broad or is_broad(node)
    return Facts(imports(tree), lengths, triples, broad)


def is_broad(handler: ast.ExceptHandler) -> bool:
    """Whether a handler takes anything and keeps it; cleaning up and raising again is fine."""
    if isinstance(handler.body[-1], ast.Raise) and handler.body[-1].exc is None:
        return False
    caught = handler.type
    names = [caught] if not isinstance(caught, ast.Tuple) else caught.elts
    return caught is None or any(getattr(n, "id", "") in ("Exception", "BaseException") for n in names)


def test_imports_go_one_way():
    upwards = [
        f"{name_of(path)} imports {imported}, which is above it"
        for path in MODULES
        for imported in facts_of(path).imports
        if (layer_of(imported) or 0) > own_layer(name_of(path))
    ]
    assert upwards == [], "\n".join(upwards)


def test_no_file_imports_itself_through_others():
    """Imports inside functions count: one that hides a circle is no better than the circle."""
    names = {name_of(path) for path in MODULES}
    graph = {
        name_of(path): {i.removeprefix("livegym.") for i in facts_of(path).imports if i.startswith("livegym.")} & names
        for path in MODULES
    }
    graph["livegym"] = set()  # `from livegym import train` is written so, and imports train only
    for name in graph:
        graph[name] -= {name, name.rpartition(".")[0]}  # a package's own modules may import it first
    try:
        tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as circle:
        pytest.fail(" imports ".join(reversed(circle.args[1])))


def test_our_modules_are_imported_by_their_one_name():
    """`tasks.ant` beside `livegym.tasks.ant` would be a second module with a second class `Ant`."""
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in tracked.stdout.split():
        if (ROOT / name).exists() and not name.startswith(WHEELS):
            for imported in facts_of(ROOT / name).imports:
                assert imported.partition(".")[0] not in (*PACKAGES, "train"), f"{name}: write livegym.{imported}"


def test_only_one_folder_knows_rl_games():
    """An algorithm and the library behind it are one folder; the rest of `rl/` speaks the contract."""
    for path in MODULES:
        if not name_of(path).startswith("rl.algorithms.ppo"):
            found = [name for name in facts_of(path).imports if name.startswith(("rl_games", "livegym.rl.algorithms."))]
            assert found == [], f"{name_of(path)} imports {found[0]}"


def test_only_one_module_spells_rl_games_keys_and_one_knows_engines():
    for path in MODULES:
        text = path.read_text()
        if name_of(path) not in (
            "rl.algorithms.ppo.params",
            "compat.foreign.settings",
        ):  # the latter reads foreign yaml
            assert '"minibatch_size_per_env"' not in text
            assert '"full_experiment_name"' not in text
        if not name_of(path).startswith("sim"):
            assert "MujocoSimulator" not in text


def test_sizes():
    files = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: lines for name, lines in files.items() if lines > MAX_FILE} == {}
    assert files["train"] < 110  # one mode, one import and one call
    functions = {(name_of(path), name): lines for path in MODULES for name, lines in facts_of(path).lengths.items()}
    assert {where: lines for where, lines in functions.items() if lines > MAX_FUNCTION} == {}


def test_the_median_function_fits_on_a_hand():
    lengths = [length for path in MODULES for length in facts_of(path).lengths.values()]
    assert statistics.median(lengths) <= MEDIAN_FUNCTION


def test_no_statement_assigns_three_names_at_once():
    """It saves lines and costs reading, searching and blame."""
    found = [
        f"{path.relative_to(ROOT)}:{line}" for path in [*MODULES, *CLIENT] for line in facts_of(path).triple_assignments
    ]
    assert found == []


def without_text(source: str) -> str:
    """JavaScript or CSS without comments and without what strings hold; its lines stay. It knows no regex literals."""
    quoted = r"""(?P<quote>["'`])(?:\\.|(?!(?P=quote)).)*(?P=quote)"""

    def blank(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n")

    return re.sub(rf"/\*.*?\*/|//[^\n]*|{quoted}", blank, source, flags=re.S)


def crowded_lines(source: str) -> list[int]:
    """Numbers of the lines on which a statement or a declaration begins behind the end of another one.

    A header `for (...; ...; ...)` is one statement. `const a = 1, b = 2;` is two.
    """
    crowded, brackets = set(), []
    pairs = {")": "(", "]": "[", "}": "{"}
    for number, line in enumerate(without_text(source).splitlines(), 1):
        declares = re.match(r"\s*(?:export )?(?:const|let|var) ", line) is not None
        depth = len(brackets)
        for index, sign in enumerate(line):
            end_of_statement = sign == ";" and brackets[-1:] != ["("]
            if sign in pairs.values():
                brackets.append(sign)
            elif sign in pairs:
                assert brackets.pop() == pairs[sign], f"line {number}: brackets that do not match"
            if end_of_statement and line[index + 1 :].strip(" });,"):
                crowded.add(number)
            if declares and sign == "," and len(brackets) == depth:
                crowded.add(number)
    return sorted(crowded)


@pytest.mark.parametrize(
    ("source", "crowded"),
    [
        ("const a = f(1, 2);\nlet b;", []),
        ("const a = 1; const b = 2;", [1]),
        ("const a = 1, b = 2;", [1]),
        ("x.then(() => { a = 1; b = 2; });", [1]),
        ("for (let i = 0; i < n; i++) f(i);", []),
        ("say('a; b'); // c; d\n`x; ${y}; z`;", []),
        ("p {\n  color: red; margin: 0;\n}", [2]),
    ],
)
def test_crowded_lines_are_found(source, crowded):
    assert crowded_lines(source) == crowded


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_sizes_and_lines_of_what_browsers_run(path):
    lines = path.read_text().splitlines()
    assert len(lines) <= MAX_FILE
    assert max(map(len, lines)) <= MAX_LINE
    assert crowded_lines(path.read_text()) == [], "one statement a line"


def test_exported_javascript_says_what_it_is_for():
    """Functions, classes and values that other files use have a comment above them; a picture's title needs none."""
    for path in PAGES:
        for name in re.findall(r"(?<!\*/\n)^export (?:async )?(?:function|class|const) (\w+)", path.read_text(), re.M):
            assert path.name == "picture.js", f"{path.relative_to(ROOT)}: {name} has no JSDoc"


def without_docstring(path: Path) -> list[str]:
    """The module, and what is public in it, if they have no docstring."""
    tree = tree_of(path)
    missing = [] if ast.get_docstring(tree) else [f"{name_of(path)} has no docstring"]
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]
    for node in [*tree.body, *(m for c in classes for m in c.body)]:
        public = isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
        inherited = getattr(node, "name", "") in CONTRACT and name_of(path).startswith("sim.")
        if public and not inherited and not ast.get_docstring(node):
            missing.append(f"{name_of(path)}: {node.name} has no docstring")
    return missing


def test_what_is_public_has_a_docstring():
    missing = [text for path in MODULES for text in without_docstring(path)]
    assert missing == [], "\n".join(missing)


def test_broad_excepts_are_in_few_places_only():
    """Where a sweep, the watching thread, a viewer's threads or other projects outlive a bug, and report it whole."""
    found = {name_of(path) for path in MODULES if facts_of(path).has_broad_except}
    assert found <= {"cfg.jobs", "play.watch", "utils.attempt", "projects.finding", "projects.foreign"}


INSTALLED_AS = {
    "hydra": "hydra-core",
    "rl_games": "rl-games",
    "yaml": "pyyaml",
    "google": "protobuf",
    "swagger_ui_bundle": "swagger-ui-bundle",
}
"""Import name -> the requirement that brings it, where that is another word."""


OPTIONAL = {
    "wandb": ["cfg.validate", "rl.wandb_log"],
    "pyarrow": ["online.log_files"],
    "onnx": ["deploy.onnx_file", "deploy.onnx_session"],
    "onnxruntime": ["deploy.onnx_session"],
    "coacd": ["compat.core.decompose"],
}
"""Libraries of an extra, and the modules that may import them, inside functions."""
LEARNERS = {
    "stable_baselines3": ["learners.sb3"],
    "rsl_rl": ["learners.rsl_rl"],
    "tensordict": ["learners.rsl_rl"],
    "skrl": ["learners.skrl"],
}
"""Libraries of an extra, and the modules that nobody imports without them: they subclass the library's classes."""


def test_an_optional_library_is_imported_only_where_it_is_used():
    for library, allowed in OPTIONAL.items():
        using = [path for path in MODULES if library in facts_of(path).imports]
        assert [name_of(path) for path in using] == allowed
        for path in using:
            outside = [n for n in tree_of(path).body if isinstance(n, ast.Import | ast.ImportFrom)]
            assert library not in imports(ast.Module(outside, []))


def test_another_learner_is_imported_only_by_its_adapter_which_no_module_imports():
    for library, allowed in LEARNERS.items():
        using = [path for path in MODULES if library in {n.partition(".")[0] for n in facts_of(path).imports}]
        assert [name_of(path) for path in using] == allowed
    adapters = tuple(f"livegym.{name}" for names in LEARNERS.values() for name in names)
    assert [name_of(path) for path in MODULES if set(adapters) & set(facts_of(path).imports)] == []


def test_every_library_that_is_imported_is_required():
    text = (ROOT / "setup.py").read_text().partition("install_requires=[")[2].partition("]")[0]
    required = set(re.findall(r'"([A-Za-z][\w-]*)', text))
    used = {name.partition(".")[0] for path in MODULES for name in facts_of(path).imports}
    foreign = used - {"livegym", "isaacgym", *OPTIONAL, *LEARNERS} - sys.stdlib_module_names
    assert {name for name in foreign if INSTALLED_AS.get(name, name) not in required} == set()


def test_the_list_of_long_tests_names_tests_that_exist():
    listed = (ROOT / "tests" / "long_tests.txt").read_text().splitlines()
    assert listed == sorted(set(listed))
    for name in listed:
        file, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text(), name
