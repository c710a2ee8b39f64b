"""Which network addresses a tool may reach: public ones, and those that the host lists.

A rule judges the address that a connection is about to be made to, never a name, so that neither an
unusual spelling (decimal, octal, IPv4 inside IPv6) nor a name that resolves to something else the second
time gets past it. Link-local and metadata addresses, which hand out credentials, are never allowed
wholesale: the host lists them one by one.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_NUMERIC = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "::1/128",
        "fc00::/7",
    )
)  # fmt: skip
# Cloud metadata services: AWS, GCP, Azure (its wire server is a public address), Alibaba, Oracle.
_METADATA = tuple(
    ipaddress.ip_network(text)
    for text in (
        "169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "fd20:ce::254/128", "168.63.129.16/32",
        "100.100.100.200/32", "192.0.0.0/24",
    )
)  # fmt: skip
_LOOPBACK = tuple(ipaddress.ip_network(text) for text in ("127.0.0.0/8", "::1/128"))
_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))


@dataclass(frozen=True, slots=True)
class Allowed:
    """A network that the host lists."""

    network: IPNetwork
    port: int | None = None
    """None = any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AddressRules:
    """What may be connected to.

    >>> rules = AddressRules.of(["127.0.0.1:8080"])
    >>> rules.allows("127.0.0.1", 8080), rules.allows("127.0.0.1", 22), rules.allows("1.1.1.1", 443)
    (True, False, True)
    """

    listed: tuple[Allowed, ...] = ()
    allow_private: bool = False
    """Whether private and loopback addresses need no listing; metadata addresses always do."""

    @classmethod
    def of(cls, allow_addresses: Iterable[str] = (), *, allow_private: bool = False) -> AddressRules:
        """Return the rules of a host's list: addresses, networks or "localhost", each with or without a port.

        Raises
        ------
        ValueError
            If an entry is none of these.
        """
        listed = [allowed for entry in allow_addresses for allowed in _read_entry(entry)]
        return cls(listed=tuple(listed), allow_private=allow_private)

    def allows(self, address: str, port: int) -> bool:
        """Return whether a connection to this address and port may be made."""
        try:
            outer = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        inner = unwrapped(outer)
        for allowed in self.listed:
            if allowed.port in (None, port) and (inner in allowed.network or outer in allowed.network):
                return True
        if _within(inner, _METADATA):
            return False
        if self.allow_private and _within(inner, _PRIVATE):
            return True
        return is_public(inner)


def _read_entry(entry: str) -> list[Allowed]:
    text, port = entry.strip(), None
    found = re.fullmatch(r"\[(?P<six>[^]]*)\](?::(?P<port>\d{1,5}))?|(?P<four>[^:]*):(?P<tail>\d{1,5})", text)
    if found:
        text = found["six"] if found["six"] is not None else found["four"]
        digits = found["port"] or found["tail"]
        port = int(digits) if digits else None
    if text.lower() == "localhost":
        return [Allowed(network, port) for network in _LOOPBACK]
    try:
        return [Allowed(ipaddress.ip_network(text, strict=False), port)]
    except ValueError:
        form = "an address, a network or localhost, optionally with a port"
        raise ValueError(f"allow_addresses must hold {form}, got {entry!r}") from None


def _within(address: IPAddress, networks: Iterable[IPNetwork]) -> bool:
    return any(address in network for network in networks)


def unwrapped(address: IPAddress) -> IPAddress:
    """Return the IPv4 address that an IPv6 address carries, or the address itself.

    >>> [str(unwrapped(ipaddress.ip_address(a))) for a in ("::ffff:10.0.0.1", "2002:a00:1::", "::1")]
    ['10.0.0.1', '10.0.0.1', '::1']
    """
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    # NAT64, and the old IPv4-compatible form ::a.b.c.d.
    if _within(address, _NAT64) or 0xFFFF < int(address) <= 0xFFFFFFFF:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_public(address: IPAddress) -> bool:
    """Return whether an address is one that anybody's packets may reach.

    >>> [is_public(ipaddress.ip_address(a)) for a in ("1.1.1.1", "10.1.2.3", "0.0.0.0", "::", "ff02::1")]
    [True, False, False, False, False]
    """
    inside = address.is_private or address.is_loopback or address.is_link_local or address.is_unspecified
    odd = address.is_multicast or address.is_reserved or getattr(address, "is_site_local", False)
    return address.is_global and not inside and not odd and not _within(address, _METADATA)


def literal_address(host: str) -> IPAddress | None:
    """Return the address that a host is, where it is one and no name; localhost is 127.0.0.1.

    >>> literal_address("::1"), literal_address("example.com")
    (IPv6Address('::1'), None)
    """
    if is_localhost(host):
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_localhost(host: str) -> bool:
    """Return whether a name is localhost or below it."""
    return host == "localhost" or host.endswith(".localhost")


def is_loopback(address: str) -> bool:
    """Return whether an address stays on this machine."""
    return unwrapped(ipaddress.ip_address(address.partition("%")[0])).is_loopback


def host_problem(host: str) -> str | None:
    """Return why a text is no host: a name in ASCII, or an address in its usual form.

    >>> [host_problem(h) is None for h in ("api.example.com", "127.0.0.1", "::1")]
    [True, True, True]
    >>> [host_problem(h) is None for h in ("0177.0.0.1", "2130706433", "127.1", "0x7f.1", "a..b")]
    [False, False, False, False, False]
    """
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return "has a host that is no IPv6 address"
        return "has a host with a zone" if "%" in host else None
    labels = host.removesuffix(".").split(".")
    if _NUMERIC.fullmatch(labels[-1]):  # what resolvers read as an address, in any spelling
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            return "has a host that is an unusual spelling of an address"
        return None
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return "has a host that is no ASCII host name"
    return None
