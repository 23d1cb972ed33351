from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from fedtag.common.config.catalogue import REGISTRIES, unknown_key
from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS, PRESETS, MethodSpec
from fedtag.common.settings.registry import HERE, INTERFACE, Registry

GROUP = "fedtag.methods"
REFERENCE = re.compile(r"[\w.]+:\w+")


def spec(name: str, interface: int = INTERFACE) -> MethodSpec:
    return MethodSpec(name=name, title="A method.", interface=interface, client="c:M", server="s:M")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path whose packages bring methods: their entry points are real, as after an installation."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(folder: Path, package: str, entries: dict[str, str], version: str = "1.0") -> None:
    info = folder / f"{package}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")


def module(monkeypatch: pytest.MonkeyPatch, name: str, **values: object) -> None:
    made = ModuleType(name)
    vars(made).update(values)
    monkeypatch.setitem(sys.modules, name, made)


def fresh() -> Registry[MethodSpec]:
    return Registry(GROUP, "method", "method", MethodSpec)


def test_a_stranger_comes_in_by_the_same_door(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(installed, "stranger", {"own": "strange_methods:SPEC"}, "2.3")
    module(monkeypatch, "strange_methods", SPEC=spec("own"))
    registry = fresh()
    assert {"own", "fedavg", "dance"} <= set(registry.names)
    assert registry.get("own").title == "A method."
    assert (registry.origin("own").package, registry.origin("own").version) == ("stranger", "2.3")
    assert registry.origin("fedavg").version == metadata.version("fedtag")
    assert registry.troubles == {}


@pytest.mark.parametrize(
    ("entry", "made", "sentence"),
    [
        (
            "absent_module:SPEC",
            None,
            "stranger: absent_module:SPEC cannot be imported (ModuleNotFoundError: No module",
        ),
        ("strange_methods:OTHER", spec("own"), "cannot be imported (AttributeError"),
        ("strange_methods:SPEC", "no spec", "strange_methods:SPEC is no MethodSpec: correct its entry point"),
        ("strange_methods:SPEC", spec("other"), "is a method called 'other': give both the same name"),
        (
            "strange_methods:SPEC",
            spec("own", INTERFACE + 1),
            f"is for interface {INTERFACE + 1}, this fedtag has {INTERFACE}: install a newer fedtag",
        ),
        (
            "strange_methods:SPEC",
            spec("own", 0),
            "for interface 0, this fedtag has 1: install a newer stranger",
        ),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_harms_nothing_else(
    installed: Path, monkeypatch: pytest.MonkeyPatch, entry: str, made: object, sentence: str
) -> None:
    install(installed, "stranger", {"own": entry})
    module(monkeypatch, "strange_methods", SPEC=made)
    registry = fresh()
    with pytest.raises(ConfigError) as error:
        registry.get("own")
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    assert "stranger" in str(error.value)
    assert registry.troubles.keys() == {"own"}
    assert {"fedavg", "dance"} <= registry.usable().keys()
    assert registry.get("fedavg").name == "fedavg"


def test_code_that_cannot_be_imported_is_told_with_the_package_to_install(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(installed, "stranger", {"own": "strange_methods:SPEC"})
    module(monkeypatch, "strange_methods", SPEC=spec("own"))
    registry = fresh()
    own = registry.get("own")
    with pytest.raises(
        ConfigError, match=r"^stranger: absent_module:M cannot be imported .*: install stranger anew"
    ):
        registry.resolved(own, "absent_module:M")


def test_a_name_that_is_taken_is_told_with_both_packages(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(installed, "stranger", {"fedavg": "strange_methods:SPEC"})
    module(monkeypatch, "strange_methods", SPEC=spec("fedavg"))
    with pytest.raises(
        ConfigError, match=r"method 'fedavg' comes from .* and from .*: uninstall all but one"
    ) as error:
        fresh().get("fedavg")
    assert {"stranger", "fedtag"} <= set(str(error.value).replace(":", " ").split())


def test_an_object_lives_for_the_process() -> None:
    registry = fresh()
    own = spec("own")
    registry.add(own)
    registry.add(own)
    assert registry.get("own") is own
    assert registry.origin("own").package == HERE
    another = spec("own")
    registry.add(another)
    assert registry.get("own") is another, "a cell of a notebook is run again"
    with pytest.raises(ConfigError, match="method 'fedavg' is there already, from fedtag"):
        registry.add(spec("fedavg"))
    with pytest.raises(ConfigError, match="this fedtag has"):
        registry.add(spec("newer", INTERFACE + 1))
    # No package brought it: the module that is missing is all that can be named.
    with pytest.raises(
        ConfigError, match=r"^absent_module: absent_module:M cannot .*: install absent_module"
    ):
        registry.resolved(own, "absent_module:M")


def test_an_unknown_name_is_told_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no method is called so; use one of centralised, .*fedavg"):
        METHODS.get("nothing")


def test_settings_of_what_cannot_be_used_say_why(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(installed, "stranger", {"own": "absent_module:SPEC"})
    monkeypatch.setattr("fedtag.common.config.catalogue.REGISTRIES", (fresh(),))
    assert "absent_module:SPEC cannot be imported" in unknown_key("own.width", {})


def test_import_strings_of_all_that_is_installed_lead_somewhere() -> None:
    for registry in REGISTRIES:
        for one in registry.usable().values():
            references = [text for text in vars(one).values() if REFERENCE.fullmatch(str(text))]
            assert references or registry is PRESETS
            assert all(registry.resolved(one, reference) is not None for reference in references)


def test_reading_all_specifications_brings_no_torch() -> None:
    code = (
        "import sys; from fedtag.common.config import RunConfig, default_settings; default_settings(); "
        "RunConfig.from_flat({'method': 'fedavg'}); "
        "print(sorted({'torch', 'numpy', 'pandas', 'flwr'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
