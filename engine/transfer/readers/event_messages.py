"""Protobuf messages of TensorBoard's event files, as far as they hold scalars and hyperparameters.

Only the fields that are read are declared (numbers as in event.proto, summary.proto, tensor.proto and
plugin_data.proto); others are ignored. They use a separate descriptor pool, so that they don't conflict with a package
that defines them all.
"""

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_F = descriptor_pb2.FieldDescriptorProto
_DOUBLE, _FLOAT, _INT64, _INT32, _UINT64, _UINT32, _BOOL, _BYTES, _MESSAGE = (
    *(_F.TYPE_DOUBLE, _F.TYPE_FLOAT, _F.TYPE_INT64, _F.TYPE_INT32, _F.TYPE_UINT64, _F.TYPE_UINT32),
    *(_F.TYPE_BOOL, _F.TYPE_BYTES, _F.TYPE_MESSAGE),
)
_MESSAGES: dict[str, list[tuple[str, int, int, str]]] = {
    "Plugin": [("plugin_name", 1, _BYTES, ""), ("content", 2, _BYTES, "")],
    "Metadata": [("plugin_data", 1, _MESSAGE, "Plugin")],
    "Dim": [("size", 1, _INT64, "")],
    "Shape": [("dim", 2, _MESSAGE, "*Dim")],
    "Tensor": [
        ("dtype", 1, _INT32, ""),
        ("tensor_shape", 2, _MESSAGE, "Shape"),
        ("tensor_content", 4, _BYTES, ""),
        ("float_val", 5, _FLOAT, "*"),
        ("double_val", 6, _DOUBLE, "*"),
        ("int_val", 7, _INT32, "*"),
        ("int64_val", 10, _INT64, "*"),
        ("bool_val", 11, _BOOL, "*"),
        ("half_val", 13, _INT32, "*"),
        ("uint32_val", 16, _UINT32, "*"),
        ("uint64_val", 17, _UINT64, "*"),
    ],
    "Value": [
        ("tag", 1, _BYTES, ""),
        ("simple_value", 2, _FLOAT, "?"),
        ("image", 4, _BYTES, "?"),
        ("histo", 5, _BYTES, "?"),
        ("audio", 6, _BYTES, "?"),
        ("tensor", 8, _MESSAGE, "Tensor"),
        ("metadata", 9, _MESSAGE, "Metadata"),
    ],
    "Summary": [("value", 1, _MESSAGE, "*Value")],
    "Event": [("wall_time", 1, _DOUBLE, ""), ("step", 2, _INT64, ""), ("summary", 5, _MESSAGE, "Summary")],
    "HParam": [("number_value", 2, _DOUBLE, "?"), ("string_value", 3, _BYTES, "?"), ("bool_value", 4, _BOOL, "?")],
    "HParamEntry": [("key", 1, _BYTES, ""), ("value", 2, _MESSAGE, "HParam")],
    "Session": [("hparams", 1, _MESSAGE, "*HParamEntry")],
    "HParams": [("session_start_info", 3, _MESSAGE, "Session")],
}
"""Name, number and type of each field; then its message type, with the prefix `*` if repeated, `?` if its presence
matters.

Strings are read as bytes, since protobuf would reject a whole event for invalid UTF-8."""


@cache
def message(name: str) -> Any:
    """Return the class of a message."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"parallab.events.{name}"))


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="parallab/events.proto", package="parallab.events", syntax="proto2")
    for name, fields in _MESSAGES.items():
        made = file.message_type.add(name=name)
        for field, number, kind, more in fields:
            label = _F.LABEL_REPEATED if more.startswith("*") else _F.LABEL_OPTIONAL
            made.field.add(
                name=field,
                number=number,
                type=kind,
                label=label,
                type_name=f".parallab.events.{more.lstrip('*?')}" if kind == _MESSAGE else None,
            )
    return file
