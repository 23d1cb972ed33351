"""Every setting of a run, put together from the registries of methods, parts, condensers and backbones."""

from fedtag.common.config.catalogue import default_settings, parse_setting, run_defaults, setting_descriptions
from fedtag.common.config.forms import flatten, nested
from fedtag.common.config.run_config import RunConfig

__all__ = [
    "RunConfig",
    "default_settings",
    "flatten",
    "nested",
    "parse_setting",
    "run_defaults",
    "setting_descriptions",
]
