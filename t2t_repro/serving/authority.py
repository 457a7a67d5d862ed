"""Where a server listens, as URLs and gRPC write it."""


def authority(host: str, port: int) -> str:
    """Host and port in one; an address of IPv6, which has colons of its own, gets brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
