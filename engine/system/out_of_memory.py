"""Detect out-of-memory errors in a process's output, with the limit and the cure. Torch-free."""

import re
import resource

LIMITS = ((resource.RLIMIT_AS, "ulimit -v"), (resource.RLIMIT_DATA, "ulimit -d"))
_OUT_OF_MEMORY = re.compile(
    r"can(?:no|')t allocate memory|bad_alloc|\bMemoryError\b|failed to map segment", re.IGNORECASE
)
_NO_THREAD = re.compile(r"can't start new thread|pthread_create failed|Thread creation failed", re.IGNORECASE)
"""Caused by limited address space for the thread's stack, otherwise by the number of threads."""


def memory_cause(text: str) -> str:
    """Return the message that memory ran out, with limit and cure and a leading space; empty if `text` shows no sign of
    it.
    """
    limit = limit_met(text)
    if not limit and not _OUT_OF_MEMORY.search(text):
        return ""
    return (
        f" Out of memory.{f'{limit} Otherwise use' if limit else ' Use'} fewer ranks, a smaller batch_size or a "
        "smaller net, or free memory on the machine."
    )


def limit_met(text: str) -> str:
    """Return only the limit, if there is one and `text` shows that memory ran out."""
    limit = memory_limit()
    return f" {limit}" if limit and (_OUT_OF_MEMORY.search(text) or _NO_THREAD.search(text)) else ""


def memory_limit() -> str:
    """Return the memory limit of this process and its children, and how to raise it; empty without one."""
    for kind, name in LIMITS:
        soft = resource.getrlimit(kind)[0]
        if soft != resource.RLIM_INFINITY:
            return (
                f"Each process is limited to {soft / 1e9:.1f} GB of address space ({name}). Raise it before "
                f"starting the runner ({name} unlimited, or LimitAS=infinity in its systemd unit), and "
                "restart the runner."
            )
    return ""


def words_of(error: BaseException) -> str:
    """Return the types and messages of an error and its causes."""
    before = error.__cause__ or error.__context__
    return f"{type(error).__name__}: {error}" + (f"\n{words_of(before)}" if before else "")
