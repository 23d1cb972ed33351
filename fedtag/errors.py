"""Everything that fedtag raises on purpose; each message names the value, the rule and the remedy."""

from fedtag.common.errors import (
    ApprovalError,
    BundleError,
    CapacityError,
    ConfigError,
    DataError,
    DeploymentError,
    DivergenceError,
    FedtagError,
    PolicyError,
    ProtocolError,
    QuorumError,
    RunError,
    VersionError,
    WeightsError,
    WireError,
)

__all__ = [
    "ApprovalError",
    "BundleError",
    "CapacityError",
    "ConfigError",
    "DataError",
    "DeploymentError",
    "DivergenceError",
    "FedtagError",
    "PolicyError",
    "ProtocolError",
    "QuorumError",
    "RunError",
    "VersionError",
    "WeightsError",
    "WireError",
]
