"""Reading options and addresses."""
import ipaddress
import re
import socket

__all__ = ["parse_rendezvous_endpoint"]


def _parse_rendezvous_config(config_str):
    """{name: text} of name=text,..."""
    found = {}
    for part in config_str.strip().split(",") if config_str.strip() else ():
        key, _, value = (text.strip() for text in part.partition("="))
        if not key:
            raise ValueError("The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>.")
        if not value:
            raise ValueError(f"The rendezvous configuration option '{key}' must have a value specified.")
        found[key] = value
    return found


def _try_parse_port(port_str):
    return int(port_str) if port_str and re.fullmatch(r"[0-9]{1,5}", port_str) else None


def parse_rendezvous_endpoint(endpoint, default_port):
    """(host, port) of host:port, [address]:port, or a host alone."""
    endpoint = (endpoint or "").strip()
    if not endpoint:
        return "localhost", default_port
    if endpoint[0] == "[" and endpoint[-1] == "]":
        host, port = endpoint, None
    else:
        host, colon, port = endpoint.rpartition(":")
        host, port = (host, port) if colon else (endpoint, None)
    number = default_port if port is None else _try_parse_port(port)
    if number is None or number > 0xFFFF:
        raise ValueError(f"The port number of the rendezvous endpoint '{endpoint}' must be an integer between 0 and 65536.")
    host = re.sub(r"^\[(.*)\]$", r"\1", host)
    if not host or not re.fullmatch(r"[\w\.:-]+", host):
        raise ValueError(f"The hostname of the rendezvous endpoint '{endpoint}' must be a dot-separated list of labels, an IPv4 address, or an IPv6 address.")
    return host, number


def _addresses(host):
    try:
        return {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return set()


def _matches_machine_hostname(host):
    """Whether a name is this host's."""
    if host == "localhost":
        return True
    try:
        if ipaddress.ip_address(host).is_loopback:
            return True
    except ValueError:
        pass
    here = socket.gethostname()
    return host in (here, socket.getfqdn()) or bool(_addresses(host) & _addresses(here))


def _delay(seconds):
    """Sleep some seconds, or a random time between two."""
    import random
    import time
    time.sleep(seconds if isinstance(seconds, (int, float)) else random.uniform(*seconds))
