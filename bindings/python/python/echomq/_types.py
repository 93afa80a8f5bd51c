"""What the calls take, for type checkers: the core takes and checks it."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from os import PathLike
from typing import Literal, Protocol, Required, TypeAlias, TypedDict, TypeVar

Text: TypeAlias = str | bytes | bytearray | memoryview
"""A name or a value: ``str`` is UTF-8 with ``surrogateescape``."""

_Name = TypeVar("_Name", covariant=True)
_Value = TypeVar("_Value", covariant=True)


class _Mapping(Protocol[_Name, _Value]):
    """A mapping whose names may be of a narrower type, as ``Mapping`` itself does not allow."""

    def items(self) -> AbstractSet[tuple[_Name, _Value]]: ...


Fields: TypeAlias = (
    _Mapping[Text, Text] | Sequence[tuple[Text, Text]] | AbstractSet[tuple[Text, Text]] | Iterator[tuple[Text, Text]]
)
"""The fields of one record, in order: a mapping, or pairs of name and value."""


Password: TypeAlias = str | Callable[[], str | bytes]
"""A password, or a function that is asked for one each time a connection is opened."""

AioPassword: TypeAlias = Password | Callable[[], Awaitable[str | bytes]]
"""For a client of ``echomq.aio`` the function may be ``async``."""


class _Options(TypedDict, total=False):
    username: str | None
    database: int | None
    client_name: str | None
    node_id: int | None
    node_lease: timedelta | int | None
    on_node_conflict: Literal["warn", "wait", "refuse"] | None
    timeout: timedelta | int | None
    connect: Literal["wait", "lazy", "once"] | None
    connect_timeout: timedelta | int | None
    reconnect_min: timedelta | int | None
    reconnect_max: timedelta | int | None
    heartbeat: timedelta | int | None
    max_record_bytes: int | None
    max_in_flight: int | None
    max_in_flight_bytes: int | None
    max_clock_ahead: timedelta | int | Literal["none"] | None
    protocol: Literal["auto", "2", "3"] | None
    claim_version: str | None
    tls_ca: str | PathLike[str] | None
    tls_certificate: str | PathLike[str] | None
    tls_key: str | PathLike[str] | None
    clock: int | None


class Options(_Options, total=False):
    """What ``Client`` takes by keyword; the README has the table. ``None`` leaves an option out."""

    password: Password | None


class AioOptions(_Options, total=False):
    """What ``aio.Client`` takes by keyword, as ``Options``."""

    password: AioPassword | None


class ConsumerOptions(TypedDict, total=False):
    """What ``Stream.consumer`` takes by keyword; the README has the table. ``None`` leaves an option out."""

    start: Required[str | datetime]
    consumer: str | None
    count: int | None
    page_bytes: int | None
    beat: timedelta | int | None
    min_idle: timedelta | int | None
    max_attempts: int | Literal["none"] | None
    retry: timedelta | int | tuple[timedelta | int, timedelta | int] | Literal["none"] | None
    concurrency: int | None
    order_by: str | None
    on_foreign: Literal["deliver", "skip", "fail"] | None
    max_n: int | None
    max_wait: timedelta | int | None
