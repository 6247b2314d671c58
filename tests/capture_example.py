"""The record of a capture that runs, for tests."""

from __future__ import annotations

from pgdyno.trace.capture_record import CapturedLog, CaptureRecord, SourceDatabase, SourceTable

RUNNING = CaptureRecord(
    version=1,
    id="capture-1",
    target="dba@db1:5432/app",
    host=None,
    system_identifier="7563912873465187236",
    server_version=180001,
    data_directory="/var/lib/postgresql/18/main",
    style="csvlog B",
    began_at="2026-11-26T08:00:00.000000+00:00",
    lsn="0/15D4B78",
    seconds=7200.0,
    max_bytes=20 << 30,
    clock_ahead_s=-0.004,
    round_trip_s=0.0003,
    settings={"log_timezone": "Europe/Zürich"},
    databases=(SourceDatabase("app", "UTF8", 1 << 30), SourceDatabase("secret", "LATIN1", None)),
    tables=(SourceTable("app", "public", "orders", 1 << 20, -1.0),),
    sequences={"app.public.orders_id_seq": 42},
    unread={"secret": "permission denied"},
    logs=(CapturedLog("/var/log/pg/a.csv", "csvlog", 17),),
)
