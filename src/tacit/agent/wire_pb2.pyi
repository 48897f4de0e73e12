from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Greeting(_message.Message):
    __slots__ = ("sender", "parts", "heard")
    class PartsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    SENDER_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    sender: int
    parts: _containers.ScalarMap[str, bytes]
    heard: int
    def __init__(self, sender: _Optional[int] = ..., parts: _Optional[_Mapping[str, bytes]] = ..., heard: _Optional[int] = ...) -> None: ...

class Question(_message.Message):
    __slots__ = ("run", "sender", "tick")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    sender: int
    tick: int
    def __init__(self, run: _Optional[bytes] = ..., sender: _Optional[int] = ..., tick: _Optional[int] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("run", "sender", "tick", "shape", "payload")
    RUN_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    sender: int
    tick: int
    shape: _containers.RepeatedScalarFieldContainer[int]
    payload: bytes
    def __init__(self, run: _Optional[bytes] = ..., sender: _Optional[int] = ..., tick: _Optional[int] = ..., shape: _Optional[_Iterable[int]] = ..., payload: _Optional[bytes] = ...) -> None: ...

class Nothing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
