"""Scenario files: experiments as data.  ``load`` reads one, ``plans_of`` says which runs it means.

    [variants.NAME]       an engine with its options
    [defaults]            what every experiment has unless it says otherwise
    [experiments.NAME]    the axes (variants, sizes, intervals, stability, seeds) and what is fixed

docs/reference/scenarios.md has every key.  What is wrong with a file is one sentence: which file,
where in it, what was expected.
"""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from thence.errors import UnusableInputError
from thence.lab.checks import check_plan
from thence.lab.latency import read_matrix
from thence.lab.plan import Churn, Cut, Latency, Pacing, RunPlan, Slow, Spread, Variant

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
"""Of experiments and variants: they become names of folders, on any file system."""
FILE_BYTES_MAX: Final = 1 << 20
RUNS_MAX: Final = 100_000
LIKE_MAX: Final = 16
"""So many experiments may be like each other in a row."""
QUICK_NODES_MAX: Final = 16
REPETITION_SEEDS: Final = 1000
"""Repetition r of seed s is driven by s + (r - 1) x this."""


class Setting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A size and the interval that goes with it."""

    nodes: int
    interval_ms: float


class LatencyTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either a mean for all links, or a file with one for each."""

    mean_ms: float | None = None
    matrix: str | None = None
    spread: Spread = "weibull"


class SlowTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The slow link."""

    a: int = 0
    b: int = 1
    factor: float = 10.0


class PartitionTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A partition; one side is named, or is a share of the group."""

    start_ms: float
    end_ms: float
    nodes: tuple[int, ...] = ()
    share: float | None = None


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One experiment, or what all of a file have in common."""

    title: str = ""
    like: str | None = None
    """Another experiment of the file: what is not said here is as there."""
    variants: tuple[str, ...] | None = None
    sizes: tuple[int, ...] | None = None
    intervals_ms: tuple[float, ...] | None = None
    settings: tuple[Setting, ...] | None = None
    """Instead of sizes and intervals: which go together."""
    stability: tuple[bool, ...] | None = None
    messages: int | None = None
    pacing: Pacing | None = None
    latency: LatencyTable | None = None
    slow_link: SlowTable | None = None
    passive: float | None = None
    """The share of the group that sends nothing."""
    phantom_ms: float | None = None
    partitions: tuple[PartitionTable, ...] | None = None
    churn: Churn | None = None
    payload_bytes: int | None = None
    seeds: tuple[int, ...] | None = None
    repetitions: int | None = None


class ScenarioFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file, read and understood."""

    name: str
    text: str
    title: str
    variants: dict[str, Variant]
    experiments: dict[str, Experiment]
    """Each with everything that it says, that it is like, and that is the default."""
    folder: Path
    """Files that it names are looked for here."""


_BUILT_IN: Final = Experiment(
    sizes=(4, 8, 16),
    intervals_ms=(10.0,),
    stability=(True,),
    messages=100,
    pacing="exponential",
    latency=LatencyTable(mean_ms=10.0),
    payload_bytes=16,
    seeds=(1,),
    repetitions=1,
)


class _Whole(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str = ""
    variants: dict[str, dict[str, Any]] = {}
    defaults: dict[str, Any] = {}
    experiments: dict[str, dict[str, Any]] = {}


def load(path: str | os.PathLike[str]) -> ScenarioFile:
    """Read a file; UnusableInputError says what is wrong with it."""
    file = Path(path)
    text = _text(file)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UnusableInputError(f"{file}: not TOML: {error}") from None
    except RecursionError:
        raise UnusableInputError(f"{file}: brackets within brackets, too many of them") from None
    whole = _convert(tables, _Whole, str(file), "the file")
    if not whole.experiments:
        raise UnusableInputError(f"{file}: expected at least one table [experiments.NAME]")
    variants: dict[str, Variant] = {}
    for name, table in whole.variants.items():
        place = f"[variants.{name}]"
        _check_name(name, str(file), place)
        if "name" in table:
            raise UnusableInputError(f"{file}: {place}: the name is in the brackets, not a key")
        variants[name] = _convert({"name": name, **table}, Variant, str(file), place)
    defaults = _convert(whole.defaults, Experiment, str(file), "[defaults]")
    said: dict[str, Experiment] = {}
    for name, table in whole.experiments.items():
        place = f"[experiments.{name}]"
        _check_name(name, str(file), place)
        said[name] = _convert(table, Experiment, str(file), place)
    experiments = {name: _complete(name, said, defaults, str(file)) for name in said}
    return ScenarioFile(
        name=file.name, text=text, title=whole.title, variants=variants, experiments=experiments,
        folder=file.parent,
    )  # fmt: skip


def _text(file: Path) -> str:
    try:
        with file.open("rb") as source:
            data = source.read(FILE_BYTES_MAX + 1)  # a device has no size, and no end
        if len(data) > FILE_BYTES_MAX:
            raise UnusableInputError(
                f"{file}: expected a scenario of at most {FILE_BYTES_MAX} bytes"
            )
        return data.decode()
    except FileNotFoundError:
        raise UnusableInputError(f"{file}: there is no such file; see: thence lab list") from None
    except UnicodeDecodeError:
        raise UnusableInputError(f"{file}: not TOML: it is not UTF-8 text") from None
    except OSError as error:
        raise UnusableInputError(f"{file}: {error.strerror}") from None


def _check_name(name: str, file: str, place: str) -> None:
    if NAME.fullmatch(name) is None:
        place = place if place.isprintable() else ascii(place)
        raise UnusableInputError(
            f"{file}: {place}: expected a name of up to 64 lower-case letters, digits, '-', '_' "
            "and '.', for it names folders"
        )


_AT: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<key>.*)`")

_NO_CHOICE: Final = "Invalid enum value"


def _convert(value: Any, kind: Any, file: str, place: str) -> Any:
    """The value as that type; UnusableInputError says where and what was expected instead."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        found = _AT.fullmatch(str(error))
        assert found is not None
        path = (found["path"] or "").removeprefix(".")
        where = f"{file}: {place}" + (f": {path}" if path else "")
        unknown = _UNKNOWN.fullmatch(found["what"])
        if unknown is None:
            choices = _choices_at(kind, path) if found["what"].startswith(_NO_CHOICE) else []
            allowed = f"; expected one of {', '.join(choices)}" if choices else ""
            # TOML has no null: a key that is left out is what msgspec calls so.
            what = _lower(found["what"]).replace(" | null", "")
            raise UnusableInputError(f"{where}: {what}{allowed}") from None
        known = [name for name in _keys_at(kind, path) if name != "name"]
        raise UnusableInputError(
            f"{where}: there is no key {unknown['key']!r}; expected one of {', '.join(known)}"
        ) from None


def _keys_at(kind: Any, path: str) -> Sequence[str]:
    """The keys of the table at this place of a type."""
    return [field.encode_name for field in msgspec.structs.fields(_table_at(kind, path))]


def _choices_at(kind: Any, path: str) -> list[str]:
    """What a key that has some takes."""
    hints = get_type_hints(_table_at(kind, path))
    hint = hints[path.rpartition(".")[2]]
    literals = [each for each in (hint, *get_args(hint)) if get_origin(each) is Literal]
    return [repr(choice) for each in literals for choice in get_args(each)]


def _table_at(kind: Any, path: str) -> Any:
    nested = {
        "settings": Setting, "latency": LatencyTable, "slow_link": SlowTable,
        "partitions": PartitionTable, "churn": Churn,
    }  # fmt: skip
    return nested.get(re.split(r"[.\[]", path)[0], kind)


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _complete(
    name: str, said: Mapping[str, Experiment], defaults: Experiment, file: str
) -> Experiment:
    """What the experiment says, then what it is like says, then the defaults."""
    chain = [name]
    while (like := said[chain[-1]].like) is not None:
        place = f"{file}: [experiments.{chain[-1]}]: like"
        if like not in said:
            raise UnusableInputError(
                f"{place}: there is no experiment {like!r}; expected one of {', '.join(said)}"
            )
        if like in chain or len(chain) == LIKE_MAX:
            raise UnusableInputError(
                f"{place}: {' is like '.join([*chain, like])}: expected an end"
            )
        chain.append(like)
    fields: dict[str, Any] = {}
    for layer in (*(said[each] for each in chain), defaults, _BUILT_IN):
        given = {
            key: value
            for key, value in msgspec.structs.asdict(layer).items()
            if value is not None and key not in ("title", "like")
        }
        # Settings stand for sizes and intervals: who says one of them says how both are.
        if "settings" in fields:
            given = {k: v for k, v in given.items() if k not in ("sizes", "intervals_ms")}
        elif fields.keys() & {"sizes", "intervals_ms"}:
            given.pop("settings", None)
        fields = {**given, **fields}
    return Experiment(title=said[name].title, **fields)


def quick(scenario: ScenarioFile) -> ScenarioFile:
    """The same experiments, smaller: groups of up to 16 nodes, one seed, once."""

    def less(each: Experiment) -> Experiment:
        sizes, settings = each.sizes or (), each.settings
        if settings is not None:
            least = min([setting.nodes for setting in settings], default=0)
            most = max(QUICK_NODES_MAX, least)
            settings = tuple(setting for setting in settings if setting.nodes <= most)
        most = max(QUICK_NODES_MAX, min(sizes, default=0))
        return msgspec.structs.replace(
            each,
            sizes=tuple(size for size in sizes if size <= most),
            settings=settings,
            seeds=(each.seeds or (1,))[:1],
            repetitions=1,
        )

    smaller = {name: less(each) for name, each in scenario.experiments.items()}
    return msgspec.structs.replace(scenario, experiments=smaller)


def plans_of(scenarios: Sequence[ScenarioFile]) -> list[RunPlan]:
    """Every run of these files; UnusableInputError says which of them cannot be."""
    plans: dict[str, RunPlan] = {}
    for scenario in scenarios:
        for name, experiment in scenario.experiments.items():
            for plan in _expand(scenario, name, experiment):
                other = plans.setdefault(plan.name, plan)
                if other is not plan:
                    raise UnusableInputError(
                        f"{scenario.name}: [experiments.{name}]: its run {plan.name} is also one "
                        f"of {other.experiment} in {other.lab}: give one of them another name, or "
                        "name no value twice"
                    )
                if len(plans) > RUNS_MAX:
                    raise UnusableInputError(f"{scenario.name}: expected at most {RUNS_MAX} runs")
    return list(plans.values())


def _expand(scenario: ScenarioFile, name: str, experiment: Experiment) -> list[RunPlan]:
    place = f"{scenario.folder / scenario.name}: [experiments.{name}]"
    variants = [_variant(scenario, each, place) for each in experiment.variants or ()]
    settings = experiment.settings
    if settings is None:
        settings = tuple(
            Setting(nodes=nodes, interval_ms=interval)
            for nodes, interval in product(experiment.sizes or (), experiment.intervals_ms or ())
        )
    axes = {"variants": variants, "sizes": settings, "stability": experiment.stability,
            "seeds": experiment.seeds}  # fmt: skip
    for axis, values in axes.items():
        if not values:
            raise UnusableInputError(f"{place}: {axis}: expected at least one")
    repetitions = experiment.repetitions or 0
    if not 1 <= repetitions < REPETITION_SEEDS:
        raise UnusableInputError(
            f"{place}: repetitions: expected 1 to {REPETITION_SEEDS - 1}, got {repetitions}"
        )
    latencies: dict[int, Latency] = {}
    plans: list[RunPlan] = []
    runs = repetitions * math.prod(len(values or ()) for values in axes.values())
    if runs > RUNS_MAX:  # before they are made, for they would not fit into memory
        raise UnusableInputError(f"{place}: {runs:,} runs; expected at most {RUNS_MAX:,}")
    seeds = list(product(experiment.seeds or (), range(1, repetitions + 1)))
    for setting in settings:
        if setting.nodes not in latencies:
            latencies[setting.nodes] = _latency(scenario, experiment, setting.nodes, place)
    for variant, setting, stability, (seed, repetition) in product(
        variants, settings, experiment.stability or (), seeds
    ):
        plan = RunPlan(
            experiment=name,
            variant=variant,
            nodes=setting.nodes,
            stability=stability,
            messages=experiment.messages or 0,
            interval_ms=setting.interval_ms,
            pacing=experiment.pacing or "exponential",
            latency=latencies[setting.nodes],
            slow=_slow(experiment.slow_link),
            passive=_passive(experiment, setting.nodes, place),
            phantom_ms=experiment.phantom_ms or 0.0,
            cuts=tuple(_cut(each, setting.nodes, place) for each in experiment.partitions or ()),
            churn=experiment.churn,
            payload_bytes=experiment.payload_bytes or 0,
            seed=seed + (repetition - 1) * REPETITION_SEEDS,
            repetition=repetition,
            lab=scenario.name,
        )
        check_plan(plan, place)
        plans.append(plan)
    return plans


def _variant(scenario: ScenarioFile, name: str, place: str) -> Variant:
    if name not in scenario.variants:
        there = ", ".join(scenario.variants) or "none: write a table [variants.NAME]"
        raise UnusableInputError(
            f"{place}: variants: there is no variant {name!r}; there are {there}"
        )
    return scenario.variants[name]


def _latency(scenario: ScenarioFile, experiment: Experiment, nodes: int, place: str) -> Latency:
    table = experiment.latency or LatencyTable()
    if (table.mean_ms is None) == (table.matrix is None):
        raise UnusableInputError(
            f"{place}: latency: expected either mean_ms or matrix, as in {{ mean_ms = 10 }}"
        )
    if table.matrix is None:
        return Latency(mean_ms=table.mean_ms or 0.0, spread=table.spread)
    rows = read_matrix(scenario.folder / table.matrix, nodes, f"{place}: latency")
    others = [each for i, row in enumerate(rows) for j, each in enumerate(row) if i != j]
    return Latency(
        mean_ms=round(sum(others) / max(1, len(others)), 3),
        spread=table.spread,
        matrix_ms=rows,
        matrix=table.matrix,
    )


def _slow(table: SlowTable | None) -> Slow | None:
    return None if table is None else Slow(a=table.a, b=table.b, factor=table.factor)


def _passive(experiment: Experiment, nodes: int, place: str) -> int:
    share = experiment.passive or 0.0
    if not 0 <= share < 1:
        raise UnusableInputError(
            f"{place}: passive: expected the share of nodes that send nothing, from 0 to below 1, "
            f"got {share:g}"
        )
    return min(nodes - 1, round(share * nodes))


def _cut(table: PartitionTable, nodes: int, place: str) -> Cut:
    if bool(table.nodes) == (table.share is not None):
        raise UnusableInputError(
            f"{place}: partitions: expected either nodes, as in [0, 1], or share, as in 0.5"
        )
    side = table.nodes
    if table.share is not None:
        if not 0 < table.share < 1:
            raise UnusableInputError(
                f"{place}: partitions: share: expected above 0 and below 1, got {table.share:g}"
            )
        side = tuple(range(max(1, min(nodes - 1, round(table.share * nodes)))))
    return Cut(start_ms=table.start_ms, end_ms=table.end_ms, side=side)
