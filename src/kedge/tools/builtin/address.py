"""Which network addresses a plan may reach: only public ones, unless the user says otherwise.

The name is looked up once, what came back is judged, and the connection goes to exactly that address:
looking it up a second time would let a name answer "public" first and "this machine" later.
"""

from __future__ import annotations

import ipaddress
import socket

from kedge.base.errors import ToolError

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_PROTOCOLS = ipaddress.ip_network("192.0.0.0/24")  # in part "global" to the library

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def resolve(host: str, port: int, *, allow_private: bool) -> list[tuple[socket.AddressFamily, str]]:
    """The addresses behind a name, each as family and text, all of them allowed; or ToolError."""
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        passing = error.errno == socket.EAI_AGAIN
        raise ToolError(
            f"the name {host!r} cannot be looked up: {error.strerror}",
            "transient" if passing else "permanent",
        ) from error
    except UnicodeError as error:
        raise ToolError(f"{host!r} is not a host name: {error}", "invalid_input") from error
    found = list(dict.fromkeys((family, str(place[0])) for family, _, _, _, place in answers))
    if not allow_private:
        for _, text in found:
            # One private address among public ones is refused as well: it is what an attack looks like.
            if not is_public(ipaddress.ip_address(text)):
                raise ToolError(
                    f"{host!r} is at {text}, which is not a public address",
                    "permission",
                    remedy="whoever runs this can allow private addresses",
                )
    return found


def is_public(address: Address) -> bool:
    """Is it in the public internet? An IPv6 address that carries an IPv4 one inside is judged by that."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.is_site_local:  # given up long ago, and "global" to the library
            return False
    elif address in _PROTOCOLS:
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved
