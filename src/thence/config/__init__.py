"""What a node can be told, and where it is told: flags, environment, a TOML file, defaults."""

from thence.config.load import load_config
from thence.config.members import read_members
from thence.config.node import (
    PASSWORD_VARIABLE,
    STATUS_ADDRESS,
    FaultConfig,
    FlowConfig,
    JournalConfig,
    LinkConfig,
    LogConfig,
    MembershipConfig,
    NodeConfig,
    RespConfig,
    TimingConfig,
    TlsConfig,
    TraceConfig,
)
from thence.config.settings import SETTINGS, command_help, command_signature, settings_table
from thence.config.values import is_loopback, split_address

__all__ = [
    "PASSWORD_VARIABLE",
    "SETTINGS",
    "STATUS_ADDRESS",
    "FaultConfig",
    "FlowConfig",
    "JournalConfig",
    "LinkConfig",
    "LogConfig",
    "MembershipConfig",
    "NodeConfig",
    "RespConfig",
    "TimingConfig",
    "TlsConfig",
    "TraceConfig",
    "command_help",
    "command_signature",
    "is_loopback",
    "load_config",
    "read_members",
    "settings_table",
    "split_address",
]
