"""Everything a node can be told: one frozen Struct, with sections.

Adding a setting is one field here.  Its key in a TOML file, its environment variable, its flag and
its line in docs/reference/config.md follow from it (config/settings.py).  Names carry their unit.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from thence.config.values import About, Checked
from thence.errors import UnusableInputError

KIB: Final = 1024
MIB: Final = 1024 * KIB
MS_MAX: Final = 3_600_000
S_MAX: Final = 86_400
MESSAGES_MAX: Final = 1 << 30
BYTES_MAX: Final = 1 << 40
STATUS_ADDRESS: Final = "127.0.0.1:9464"
"""Where ``thence status`` looks when nobody says where."""
PASSWORD_VARIABLE: Final = "THENCE_RESP_PASSWORD"
"""The password of the store's clients, unless a file has it."""
ELASTIC_ENGINE: Final = "tagged"
"""The engine whose members can change."""

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]
DebugTopic = Literal["link", "order"]
Durability = Literal["process", "power"]
TraceForm = Literal["parquet", "jsonl"]


def _ordered(struct: Checked, section: str, low: str, high: str) -> None:
    if getattr(struct, low) > getattr(struct, high):
        raise UnusableInputError(
            f"{section}.{low} is {getattr(struct, low):g}, above {section}.{high}, "
            f"which is {getattr(struct, high):g}"
        )


class TlsConfig(Checked, frozen=True):
    """The certificates for tls:// addresses; ``thence cert`` makes them."""

    ca: Annotated[
        str | None, About("the authority that signed the certificates of all members", shape="file")
    ] = None
    cert: Annotated[
        str | None, About("the certificate of this node; its name is the node's", shape="file")
    ] = None
    key: Annotated[str | None, About("the private key of that certificate", shape="file")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len({self.ca is None, self.cert is None, self.key is None}) > 1:
            raise UnusableInputError("tls.ca, tls.cert and tls.key go together: give all or none")


class LinkConfig(Checked, frozen=True):
    """The reliable link over udp."""

    retries: Annotated[
        int,
        About("times a datagram is sent again before the peer counts as gone", 0, 100, "--retries"),
    ] = 5
    ack_delay_ms: Annotated[
        float, About("how long an acknowledgement waits for data to travel with", 0, 1000)
    ] = 5.0
    keep_alive_s: Annotated[
        float, About("silence after which a peer is asked for a sign of life", 0.1, 600)
    ] = 3.0
    silence_s: Annotated[float, About("silence after which a peer counts as gone", 0.2, S_MAX)] = (
        15.0
    )
    window_packets: Annotated[
        int, About("packets that may be on their way unacknowledged", 16, 256)
    ] = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.ack_delay_ms / 1000 < self.keep_alive_s < self.silence_s:
            raise UnusableInputError(
                "link.ack_delay_ms, link.keep_alive_s and link.silence_s must rise in this order, "
                f"and are {self.ack_delay_ms:g} ms, {self.keep_alive_s:g} s, {self.silence_s:g} s"
            )


class FlowConfig(Checked, frozen=True):
    """How much may wait where.  Reaching a limit makes senders wait; nothing is dropped."""

    outbox_messages_max: Annotated[
        int, About("own messages that not all peers have acknowledged", 1, MESSAGES_MAX)
    ] = 65_536
    outbox_bytes_max: Annotated[
        int, About("bytes of own messages that not all peers have acknowledged", KIB, BYTES_MAX)
    ] = 64 * MIB
    credit_messages: Annotated[
        int, About("messages that each peer may send ahead of what was taken here", 1, MESSAGES_MAX)
    ] = 16_384
    credit_bytes: Annotated[
        int, About("bytes that each peer may send ahead of what was taken here", KIB, BYTES_MAX)
    ] = 32 * MIB
    unstable_messages_max: Annotated[
        int, About("messages delivered here and not yet known to be stable", 1, MESSAGES_MAX)
    ] = 1_048_576
    unstable_bytes_max: Annotated[
        int,
        About("bytes of payloads not yet known to be stable that are kept in memory, in groups "
              "whose members change", KIB, BYTES_MAX),
    ] = 256 * MIB  # fmt: skip
    batch_bytes_max: Annotated[
        int, About("bytes of messages that are joined into one frame", KIB, 16 * MIB)
    ] = 256 * KIB


class TimingConfig(Checked, frozen=True):
    """When things happen by themselves."""

    idle_flush_ms: Annotated[
        float, About("quiet time after which everything stable is looked for", 0, MS_MAX)
    ] = 5.0
    phantom_ms_min: Annotated[
        float, About("shortest time between two phantoms of an idle node", 1, MS_MAX)
    ] = 20.0
    phantom_ms_max: Annotated[
        float, About("longest time between two phantoms of an idle node", 1, MS_MAX)
    ] = 1000.0
    heartbeat_s: Annotated[
        float, About("silence after which a peer is asked whether it is there", 0.05, S_MAX)
    ] = 5.0
    reconnect_ms_min: Annotated[
        float, About("wait before the first new try to reach a peer", 1, MS_MAX)
    ] = 50.0
    reconnect_ms_max: Annotated[
        float, About("longest wait between two tries to reach a peer", 1, MS_MAX)
    ] = 5000.0
    greeting_s: Annotated[
        float, About("time in which a new connection must say who it is", 0.05, S_MAX)
    ] = 5.0
    drain_s: Annotated[
        float, About("time for unsent messages to leave when the node is told to stop", 0, S_MAX)
    ] = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _ordered(self, "timing", "phantom_ms_min", "phantom_ms_max")
        _ordered(self, "timing", "reconnect_ms_min", "reconnect_ms_max")


class MembershipConfig(Checked, frozen=True):
    """Who may come and go while the group works, and when a silent member counts as gone."""

    elastic: Annotated[
        bool,
        About("whether members may join, leave and be evicted", None, None, "--elastic"),
    ] = False
    join: Annotated[
        tuple[str, ...],
        About("members to ask for admission; implies elastic", None, None, "--join", "url"),
    ] = ()
    secret_file: Annotated[
        str | None, About("a file with the secret that newcomers must know", shape="file")
    ] = None
    joins_per_s: Annotated[
        float, About("newcomers a member lets in per second at most", 0.01, 10_000)
    ] = 10.0
    beat_ms: Annotated[
        float, About("time between two signs of life to every member", 10, MS_MAX)
    ] = 500.0
    suspect_s: Annotated[
        float, About("least silence after which a member is suspected", 0.05, S_MAX)
    ] = 5.0
    suspect_phi: Annotated[
        float,
        About("how unlikely the silence must be as well, as -log10; 0: suspect_s alone counts",
              0, 100),
    ] = 8.0  # fmt: skip
    evict_s: Annotated[
        float,
        About("silence after which a suspected member is evicted; 0: only `thence evict` does",
              0, S_MAX),
    ] = 30.0  # fmt: skip
    evict_full: Annotated[
        bool,
        About("whether a suspected member is evicted before evict_s when senders have to wait "
              "because of what is kept for it"),
    ] = True  # fmt: skip
    join_s: Annotated[
        float,
        About(
            "time that a newcomer has to come in with the state; then it gives up or is evicted",
            0.1,
            S_MAX,
        ),
    ] = 60.0
    state_bytes_max: Annotated[
        int, About("state that a newcomer takes over at most", KIB, BYTES_MAX)
    ] = 64 * 1024 * MIB
    chunk_bytes: Annotated[
        int, About("pieces in which state is handed to a newcomer", KIB, 4 * MIB)
    ] = 256 * KIB
    rejoin: Annotated[
        bool,
        About("whether a node (`thence node`, `serve`, `chat`) joins again after an eviction",
              None, None, "--rejoin"),
    ] = False  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beat_ms / 1000 >= self.suspect_s:
            raise UnusableInputError(
                f"membership.beat_ms is {self.beat_ms:g} ms, which must be shorter than "
                f"membership.suspect_s, {self.suspect_s:g} s"
            )
        if self.evict_s and self.evict_s < self.suspect_s:
            raise UnusableInputError(
                f"membership.evict_s is {self.evict_s:g}, below membership.suspect_s, which is "
                f"{self.suspect_s:g}; 0 leaves evictions to people"
            )

    @property
    def is_elastic(self) -> bool:
        """Whether the members can change: asked for, or because this node has to be let in."""
        return self.elastic or bool(self.join)


class StabilityConfig(Checked, frozen=True):
    """Whether and when a node looks for stable messages, the same at all members."""

    on: Annotated[
        bool, About("whether stable messages are looked for", None, None, "--stability")
    ] = True
    batch: Annotated[
        int,
        About("messages taken between two looks; 1: at each message, 0: as it costs least",
              0, MESSAGES_MAX),
    ] = 0  # fmt: skip


class FaultConfig(Checked, frozen=True):
    """Faults to put in on purpose, for tests and experiments.  All are off."""

    drop: Annotated[
        float, About("share of outgoing datagrams that are dropped", 0, 1, "--drop")
    ] = 0.0
    duplicate: Annotated[
        float, About("share of outgoing datagrams that are sent twice", 0, 1, "--duplicate")
    ] = 0.0
    reorder: Annotated[
        float, About("share of outgoing datagrams that others overtake", 0, 1, "--reorder")
    ] = 0.0
    alter_seq: Annotated[
        float,
        About("share of outgoing datagrams with a wrong sequence number", 0, 1, "--alter-seq"),
    ] = 0.0
    ack_delay_ms: Annotated[
        float,
        About("milliseconds that each acknowledgement is held back", 0, MS_MAX, "--ack-delay"),
    ] = 0.0
    delay_to: Annotated[
        dict[str, float],
        About("milliseconds that everything for a peer is held back", 0, MS_MAX, "--delay-to"),
    ] = msgspec.field(default_factory=dict)
    vary_to: Annotated[
        dict[str, float],
        About("the same as a mean: each time is drawn by Weibull's distribution", 0, MS_MAX,
              "--vary-to"),
    ] = msgspec.field(default_factory=dict)  # fmt: skip
    delay_seed: Annotated[
        int, About("what these times are drawn from", 0, MESSAGES_MAX, "--delay-seed")
    ] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.vary_to:
            if name in self.delay_to:
                raise UnusableInputError(
                    f"faults.vary_to and faults.delay_to both name {name}: give one of them"
                )

    @property
    def active(self) -> bool:
        """Whether anything is switched on."""
        return self != FaultConfig()


class TraceConfig(Checked, frozen=True):
    """The log of what happened, for ``thence check``."""

    folder: Annotated[
        str | None,
        About("where the trace is written", None, None, "--trace", "folder"),
    ] = None
    form: Annotated[TraceForm, About("how segments are written")] = "parquet"
    payload: Annotated[bool, About("whether payloads, which are users' data, are traced")] = False
    sample_s: Annotated[
        float, About("time between measurements in the trace; 0: none", 0, S_MAX)
    ] = 1.0


class JournalConfig(Checked, frozen=True):
    """What survives a crash."""

    folder: Annotated[
        str | None,
        About("where the journal is; without one, a node that stops is gone", None, None, "--data",
              "folder"),
    ] = None  # fmt: skip
    durability: Annotated[
        Durability,
        About("what it survives: the end of the process, or a loss of power too (slower)"),
    ] = "process"
    checkpoint_bytes: Annotated[
        int, About("size of the log at which it is folded into a checkpoint", 4 * KIB, BYTES_MAX)
    ] = 16 * MIB
    shelf_bytes_max: Annotated[
        int,
        About("bytes of payloads that wait here for members that are away, instead of in memory", 0,
              BYTES_MAX),
    ] = 4096 * MIB  # fmt: skip


class RespConfig(Checked, frozen=True):
    """Where and how clients of Redis connect to the store (``thence serve``).

    The password is no setting: it is in a file, or in the variable ``PASSWORD_VARIABLE``.
    """

    address: Annotated[
        str, About("where clients of Redis connect", None, None, "--resp", "address")
    ] = "127.0.0.1:6379"
    password_file: Annotated[
        str | None, About("a file with the password that clients must give", shape="file")
    ] = None
    protected: Annotated[
        bool, About("whether other machines are kept out as long as there is no password")
    ] = True
    cert: Annotated[
        str | None, About("the certificate that clients are shown; with it they need TLS",
                          shape="file")
    ] = None  # fmt: skip
    key: Annotated[str | None, About("the private key of that certificate", shape="file")] = None
    ca: Annotated[
        str | None, About("the authority that signed the certificates clients must have",
                          shape="file")
    ] = None  # fmt: skip
    clients_max: Annotated[int, About("clients at a time", 1, 1_000_000)] = 10_000
    value_bytes_max: Annotated[int, About("bytes of one argument", KIB, 15 * MIB)] = 8 * MIB
    request_bytes_max: Annotated[
        int, About("bytes of one request that is not whole yet", KIB, 1024 * MIB)
    ] = 32 * MIB
    output_bytes_pause: Annotated[
        int, About("replies a client has not read, in bytes, at which it is not read from", KIB,
                   1024 * MIB),
    ] = 1 * MIB  # fmt: skip
    subscriber_bytes_max: Annotated[
        int, About("messages a subscriber has not read, in bytes, at which it is dropped", KIB,
                   1024 * MIB),
    ] = 32 * MIB  # fmt: skip
    idle_timeout_s: Annotated[
        float, About("silence after which a client is dropped; 0: never", 0, S_MAX)
    ] = 0.0


class LogConfig(Checked, frozen=True):
    """What is said on stderr."""

    level: Annotated[LogLevel, About("the least important that is shown")] = "info"
    format: Annotated[LogFormat, About("key=value for people, or one JSON object a line")] = "text"
    debug: Annotated[
        tuple[DebugTopic, ...],
        About("in detail: acks, retries, back-off (link); hold-back queue, stamps (order)",
              None, None, "--debug"),
    ] = ()  # fmt: skip


class NodeConfig(Checked, frozen=True):
    """All settings of one node."""

    name: Annotated[str, About("the name of this node, unique in its groups", shape="name")]
    listen: Annotated[
        tuple[str, ...],
        About("where others reach this node; by default its own line among the members",
              None, None, "--listen", "url"),
    ] = ()  # fmt: skip
    peers: Annotated[
        dict[str, str],
        About("the other members and their addresses", None, None, "--peer", "url"),
    ] = msgspec.field(default_factory=dict)
    members: Annotated[
        str | None,
        About("a file with the names and addresses of all members", shape="file"),
    ] = None
    groups: Annotated[
        tuple[str, ...],
        About("the groups this node takes part in", None, None, "--group", "name"),
    ] = ("main",)
    engine: Annotated[str, About("one of `thence engines`, the same at all members")] = "tagged"
    allow_remote: Annotated[
        bool, About("whether unprotected addresses other than loopback may be used")
    ] = False
    status: Annotated[
        str | None,
        About("where health, status and metrics are served", shape="address"),
    ] = None
    tls: TlsConfig = TlsConfig()
    link: LinkConfig = LinkConfig()
    flow: FlowConfig = FlowConfig()
    timing: TimingConfig = TimingConfig()
    stability: StabilityConfig = StabilityConfig()
    membership: MembershipConfig = MembershipConfig()
    faults: FaultConfig = FaultConfig()
    trace: TraceConfig = TraceConfig()
    journal: JournalConfig = JournalConfig()
    resp: RespConfig = RespConfig()
    log: LogConfig = LogConfig()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name in self.peers:
            raise UnusableInputError(f"peers.{self.name} is this node itself; leave it out")
        if not self.groups:
            raise UnusableInputError("groups is empty; a node takes part in at least one")
        self._check_membership()
        for field in ("delay_to", "vary_to"):
            strangers = sorted(getattr(self.faults, field).keys() - self.peers.keys())
            # Of an elastic group, whoever is named may still come.
            if strangers and not self.membership.is_elastic:
                raise UnusableInputError(
                    f"faults.{field} names {strangers[0]!r}, which is none of the peers"
                )

    def _check_membership(self) -> None:
        if self.membership.is_elastic and self.engine != ELASTIC_ENGINE:
            raise UnusableInputError(
                f"engine is {self.engine!r}, whose members cannot change; membership.elastic and "
                f"membership.join need {ELASTIC_ENGINE}"
            )
        if self.membership.join and self.peers:
            raise UnusableInputError(
                "membership.join and peers do not go together: a newcomer learns the members from "
                "the group"
            )

    @property
    def member_names(self) -> tuple[str, ...]:
        """This node and its peers, sorted: the same order at every member."""
        return tuple(sorted((self.name, *self.peers)))
