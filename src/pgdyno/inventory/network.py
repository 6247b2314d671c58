"""Network interfaces from sysfs: driver, speed, and which adapter and port a virtual function belongs to. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath

from pgdyno.capture.texts import Capture
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import NetworkInterface

_NET = "sys/class/net"


def read_network(capture: Capture) -> tuple[NetworkInterface, ...] | Unknown:
    """Return the interfaces but the loopback."""
    names = capture.members(_NET)
    if not names:
        return capture.reason(_NET)
    return tuple(_interface(capture, name) for name in names if name != "lo")


def _interface(capture: Capture, name: str) -> NetworkInterface:
    base = f"{_NET}/{name}"
    speed = capture.number(f"{base}/speed")
    state = capture.word(f"{base}/operstate")
    return NetworkInterface(
        name=name,
        driver=_driver(capture, base),
        speed_mbit=Unknown("the driver does not tell it") if speed == -1 or isinstance(speed, Unknown) else speed,
        mtu=capture.number(f"{base}/mtu"),
        physical_port=_port(capture, base),
        physical_function=_link(capture, f"{base}/device/physfn", "it is not a virtual function"),
        up=state == "up" if state in ("up", "down", "lowerlayerdown", "dormant") else _unclear(state),
    )


def _driver(capture: Capture, base: str) -> str | Unknown:
    driver = _link(capture, f"{base}/device/driver", "no device is behind it")
    card = (capture.maybe(f"{base}/device/card_type") or capture.maybe(f"{base}/card_type") or "").strip()
    # OSA adapters and HiperSockets have one driver, qeth; the card type tells them apart
    return f"{driver} ({card})" if card and isinstance(driver, str) else driver


def _port(capture: Capture, base: str) -> str | Unknown:
    for name in ("phys_port_name", "phys_port_id"):
        port = capture.word(f"{base}/{name}")
        if isinstance(port, str):
            switch = capture.word(f"{base}/phys_switch_id")
            return f"{switch}:{port}" if isinstance(switch, str) else port
    return Unknown("the driver does not name the port")


def _link(capture: Capture, key: str, why: str) -> str | Unknown:
    leads_to = (capture.maybe(f"{key}.link") or "").strip()
    return PurePosixPath(leads_to).name if leads_to else Unknown(why)


def _unclear(state: str | Unknown) -> Unknown:
    return state if isinstance(state, Unknown) else Unknown(f'the kernel calls its state "{state}"')
