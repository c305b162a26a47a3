"""Validation of servers' addresses, and which of them are local."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

from theory.errors import ParameterError

__all__ = ["hosts_in_clear", "http_address", "is_local", "proxy_of", "split_endpoint"]

_MOST_HOST, _MOST_LABEL = 253, 63
"""Most characters of a host's name, and of each of its parts (RFC 1035)."""


def http_address(text: str) -> SplitResult | None:
    """Return the parts of a valid http(s) address; None for other texts.

    >>> http_address("http://localhost:8000/v1").port
    8000
    >>> [http_address(text) for text in ("ftp://a", "http://", "http://a:99999", "http://a b", "http://" + "a" * 64)]
    [None, None, None, None, None]
    """
    if not (text.isascii() and text.isprintable()) or " " in text:
        return None
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    named = 0 < len(host) <= _MOST_HOST and all(0 < len(label) <= _MOST_LABEL for label in host.rstrip(".").split("."))
    return parts if parts.scheme in ("http", "https") and named and port != 0 else None


def is_local(parts: SplitResult) -> bool:
    """Whether an address is this machine's own."""
    return parts.hostname in ("localhost", "127.0.0.1", "::1")


def hosts_in_clear(endpoints: Iterable[str]) -> tuple[str, ...]:
    """Return the other machines, as host and port, to which these ``URL[#model]`` send a key without encryption."""
    addresses = [urlsplit(split_endpoint(endpoint)[0]) for endpoint in endpoints]
    return tuple(dict.fromkeys(one.netloc for one in addresses if one.scheme == "http" and not is_local(one)))


def proxy_of(address: str) -> str | None:
    """Return the proxy of an http(s) address by the environment; this machine's own addresses have none."""
    from urllib.request import getproxies, proxy_bypass

    parts, proxies = urlsplit(address), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy is None or is_local(parts) or proxy_bypass(parts.netloc):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def split_endpoint(text: str) -> tuple[str, str]:
    """Split ``URL[#model]``; the URL is returned as the root of the API, ending in ``/v1``.

    Raises
    ------
    ParameterError : no http(s) URL, or one with a user, a password or a query, which may contain secrets.

    >>> split_endpoint("http://localhost:8000#Qwen/Qwen3-8B")
    ('http://localhost:8000/v1', 'Qwen/Qwen3-8B')
    """
    address, _, model = text.strip().partition("#")
    if "@" in address or "?" in address:  # the value is not shown: it may be a secret
        rule = "must not carry a user, password or query; name the variable that holds the key with --api-key-env"
        raise ParameterError("url", "(hidden)", rule)
    parts = http_address(address)
    if parts is None or not model.isprintable():
        raise ParameterError("url", text, "must be http://HOST[:PORT][/PATH][#MODEL], or https")
    path = parts.path.rstrip("/")
    path = path if path.endswith("/v1") else f"{path}/v1"
    return f"{parts.scheme}://{parts.netloc}{path}", model
