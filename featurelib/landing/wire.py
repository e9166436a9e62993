"""The types of landing fields: what Kafka's wire can carry, with the words for it.

Bound and wording of a field stand side by side in its annotation, so that a reason never
promises another bound than the one that is checked.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

INT8_MAX = 2**7 - 1
INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
CLUSTER_LENGTH = 255  # characters
NAME_LENGTH = 32767  # bytes of UTF-8: a Kafka string has an int16 length

ClusterId = Annotated[
    str,
    Meta(min_length=1, max_length=CLUSTER_LENGTH, description="a text of 1 to 255 characters"),
]
Time = Annotated[
    datetime,
    Meta(tz=True, description="an ISO-8601 time with seconds and with Z or an offset"),
]
Text = Annotated[str, Meta(description="a text")]
FilledText = Annotated[str, Meta(min_length=1, description="a text that is not empty")]
Truth = Annotated[bool, Meta(description="true or false")]
NodeId = Annotated[int, Meta(ge=0, le=INT32_MAX, description="a whole number from 0 to 2147483647")]
NodeIdOrNone = Annotated[  # -1 = there is no such node
    int, Meta(ge=-1, le=INT32_MAX, description="a whole number from -1 to 2147483647")
]
Level = Annotated[int, Meta(ge=0, le=INT16_MAX, description="a whole number from 0 to 32767")]
Int8 = Annotated[
    int, Meta(ge=-INT8_MAX - 1, le=INT8_MAX, description="a whole number from -128 to 127")
]
Int16 = Annotated[
    int, Meta(ge=-INT16_MAX - 1, le=INT16_MAX, description="a whole number from -32768 to 32767")
]
Epoch = Annotated[  # -1 = unknown
    int,
    Meta(ge=-1, le=INT64_MAX, description="a whole number from -1 to 9223372036854775807"),
]
Count = Annotated[
    int, Meta(ge=0, le=INT64_MAX, description="a whole number from 0 to 9223372036854775807")
]
LineNumber = Annotated[
    int, Meta(ge=1, le=INT64_MAX, description="a whole number from 1 to 9223372036854775807")
]
ApiVersionsVersion = Annotated[
    int, Meta(ge=0, le=5, description="a version of ApiVersions from 0 to 5")
]
DescribeVersion = Annotated[
    int, Meta(ge=0, le=2, description="a version of this request from 0 to 2")
]
ConfigsVersion = Annotated[  # version 0 does not say where a value comes from
    int, Meta(ge=1, le=4, description="a version of this request from 1 to 4")
]
Listener = Annotated[Literal["broker", "controller"], Meta(description="broker or controller")]
EndpointType = Annotated[Literal[1, 2], Meta(description="1 (brokers) or 2 (controllers)")]
