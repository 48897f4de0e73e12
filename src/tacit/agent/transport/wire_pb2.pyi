from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Greeting(_message.Message):
    __slots__ = ("name", "parts", "without", "met", "heard", "key", "keys", "absences", "ledger", "seen", "renewals", "standing", "said", "contradictions")
    class PartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_FIELD_NUMBER: _ClassVar[int]
    MET_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    ABSENCES_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    RENEWALS_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    SAID_FIELD_NUMBER: _ClassVar[int]
    CONTRADICTIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    parts: _containers.ScalarMap[str, bytes]
    without: _containers.RepeatedScalarFieldContainer[str]
    met: _containers.RepeatedCompositeFieldContainer[Met]
    heard: int
    key: Key
    keys: _containers.RepeatedCompositeFieldContainer[Key]
    absences: _containers.RepeatedCompositeFieldContainer[Absence]
    ledger: LedgerHead
    seen: LedgerHead
    renewals: bytes
    standing: Standing
    said: _containers.RepeatedCompositeFieldContainer[Said]
    contradictions: _containers.RepeatedCompositeFieldContainer[Contradiction]
    def __init__(self, name: _Optional[str] = ..., parts: _Optional[_Mapping[str, bytes]] = ..., without: _Optional[_Iterable[str]] = ..., met: _Optional[_Iterable[_Union[Met, _Mapping]]] = ..., heard: _Optional[int] = ..., key: _Optional[_Union[Key, _Mapping]] = ..., keys: _Optional[_Iterable[_Union[Key, _Mapping]]] = ..., absences: _Optional[_Iterable[_Union[Absence, _Mapping]]] = ..., ledger: _Optional[_Union[LedgerHead, _Mapping]] = ..., seen: _Optional[_Union[LedgerHead, _Mapping]] = ..., renewals: _Optional[bytes] = ..., standing: _Optional[_Union[Standing, _Mapping]] = ..., said: _Optional[_Iterable[_Union[Said, _Mapping]]] = ..., contradictions: _Optional[_Iterable[_Union[Contradiction, _Mapping]]] = ...) -> None: ...

class Incarnation(_message.Message):
    __slots__ = ("member", "number", "nonce", "signature")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    member: int
    number: int
    nonce: bytes
    signature: bytes
    def __init__(self, member: _Optional[int] = ..., number: _Optional[int] = ..., nonce: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Twin(_message.Message):
    __slots__ = ("older", "newer", "signature")
    OLDER_FIELD_NUMBER: _ClassVar[int]
    NEWER_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    older: Incarnation
    newer: Incarnation
    signature: bytes
    def __init__(self, older: _Optional[_Union[Incarnation, _Mapping]] = ..., newer: _Optional[_Union[Incarnation, _Mapping]] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Standing(_message.Message):
    __slots__ = ("own", "known", "twins")
    OWN_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    TWINS_FIELD_NUMBER: _ClassVar[int]
    own: Incarnation
    known: _containers.RepeatedCompositeFieldContainer[Incarnation]
    twins: _containers.RepeatedCompositeFieldContainer[Twin]
    def __init__(self, own: _Optional[_Union[Incarnation, _Mapping]] = ..., known: _Optional[_Iterable[_Union[Incarnation, _Mapping]]] = ..., twins: _Optional[_Iterable[_Union[Twin, _Mapping]]] = ...) -> None: ...

class Said(_message.Message):
    __slots__ = ("member", "tick", "digest", "signature")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    member: int
    tick: int
    digest: bytes
    signature: bytes
    def __init__(self, member: _Optional[int] = ..., tick: _Optional[int] = ..., digest: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Contradiction(_message.Message):
    __slots__ = ("one", "other")
    ONE_FIELD_NUMBER: _ClassVar[int]
    OTHER_FIELD_NUMBER: _ClassVar[int]
    one: Said
    other: Said
    def __init__(self, one: _Optional[_Union[Said, _Mapping]] = ..., other: _Optional[_Union[Said, _Mapping]] = ...) -> None: ...

class LedgerHead(_message.Message):
    __slots__ = ("population", "book", "rows", "head", "signature")
    POPULATION_FIELD_NUMBER: _ClassVar[int]
    BOOK_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    population: bytes
    book: bytes
    rows: int
    head: bytes
    signature: bytes
    def __init__(self, population: _Optional[bytes] = ..., book: _Optional[bytes] = ..., rows: _Optional[int] = ..., head: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Absence(_message.Message):
    __slots__ = ("witness", "absent", "without", "tick", "signature")
    WITNESS_FIELD_NUMBER: _ClassVar[int]
    ABSENT_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    witness: int
    absent: int
    without: _containers.RepeatedScalarFieldContainer[int]
    tick: int
    signature: bytes
    def __init__(self, witness: _Optional[int] = ..., absent: _Optional[int] = ..., without: _Optional[_Iterable[int]] = ..., tick: _Optional[int] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Met(_message.Message):
    __slots__ = ("member", "signature", "heard")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    member: int
    signature: bytes
    heard: int
    def __init__(self, member: _Optional[int] = ..., signature: _Optional[bytes] = ..., heard: _Optional[int] = ...) -> None: ...

class Key(_message.Message):
    __slots__ = ("member", "public", "signature")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    member: int
    public: bytes
    signature: bytes
    def __init__(self, member: _Optional[int] = ..., public: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Question(_message.Message):
    __slots__ = ("run", "sender", "tick", "phase", "shares", "standing")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    sender: int
    tick: int
    phase: int
    shares: _containers.RepeatedScalarFieldContainer[bytes]
    standing: Standing
    def __init__(self, run: _Optional[bytes] = ..., sender: _Optional[int] = ..., tick: _Optional[int] = ..., phase: _Optional[int] = ..., shares: _Optional[_Iterable[bytes]] = ..., standing: _Optional[_Union[Standing, _Mapping]] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("run", "sender", "tick", "phase", "shape", "payload", "standing", "own", "said", "contradictions", "totals")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    SAID_FIELD_NUMBER: _ClassVar[int]
    CONTRADICTIONS_FIELD_NUMBER: _ClassVar[int]
    TOTALS_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    sender: int
    tick: int
    phase: int
    shape: _containers.RepeatedScalarFieldContainer[int]
    payload: bytes
    standing: Standing
    own: Said
    said: _containers.RepeatedCompositeFieldContainer[Said]
    contradictions: _containers.RepeatedCompositeFieldContainer[Contradiction]
    totals: bytes
    def __init__(self, run: _Optional[bytes] = ..., sender: _Optional[int] = ..., tick: _Optional[int] = ..., phase: _Optional[int] = ..., shape: _Optional[_Iterable[int]] = ..., payload: _Optional[bytes] = ..., standing: _Optional[_Union[Standing, _Mapping]] = ..., own: _Optional[_Union[Said, _Mapping]] = ..., said: _Optional[_Iterable[_Union[Said, _Mapping]]] = ..., contradictions: _Optional[_Iterable[_Union[Contradiction, _Mapping]]] = ..., totals: _Optional[bytes] = ...) -> None: ...
