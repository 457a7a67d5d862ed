"""How much memory there is, and how a message says it."""

import os
from pathlib import Path


def available_memory() -> int | None:
    """Returns the bytes that the machine, or the container, can still give; None if unknown.

    Beyond Linux it is all that the machine has: more than that is too much for certain.
    """
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")]
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            found.append(int(limit) - _used_of(group))
    except (OSError, ValueError):
        pass
    found += _left_of_own_limit()
    if not found and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= os.sysconf_names.keys():
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(found, default=None)


def gigabytes(count: int) -> str:
    """Returns a number of bytes as messages have it: "1.5 GB"."""
    return f"{count / 1e9:.3g} GB"


def _used_of(group: Path) -> int:
    """What a container uses, without files that the kernel keeps for as long as there is room."""
    counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    files = int(counts.get("active_file", 0)) + int(counts.get("inactive_file", 0))
    return int((group / "memory.current").read_text()) - files


def _left_of_own_limit() -> list[int]:
    """What `ulimit -v`, where there is such a limit, leaves to this process."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError, ValueError):
        return []
    used = pages * resource.getpagesize()
    return [] if limit == resource.RLIM_INFINITY else [max(limit - used, 0)]
