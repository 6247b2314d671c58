"""Records of answers: what an engine appends to a file as they come. Of one size, so that a kill costs the last one."""

from __future__ import annotations

import struct
from enum import IntEnum

RECORD = struct.Struct("<IIqqqqqqqqq5s5sB")
"""Session, seq; due, sent, first byte, done (-1: never), in us since the begin; the lag by engine, gate and server, in
us; rows (-1: none counted), bytes; the SQLSTATE that came and the one that was expected (zero bytes: none); `Skip`."""
CONNECTION_FAILURE = b"08006"
"""SQLSTATE of a statement whose connection ended before the answer."""
REFUSED_CONNECTION = b"08001"
"""SQLSTATE of a session that could not be opened."""


class Skip(IntEnum):
    """Why a statement was not sent."""

    SENT = 0
    REFUSED = 1
    """The trace refuses it, or its whole kind."""
    NOT_CONNECTED = 2
    """Its session could not be opened."""
    CONNECTION_LOST = 3
    """Its session ended before it."""
    RUN_ENDED = 4
    """The run ended before it was due, or before it was answered."""
    PIPELINE_FAILED = 5
    """A statement before it in its pipeline failed."""
