"""Whether memory ran out, told from what a process wrote or raised, with the limit that it met and the cure.
Torch-free.
"""

import re
import resource

LIMITS = ((resource.RLIMIT_AS, "ulimit -v"), (resource.RLIMIT_DATA, "ulimit -d"))
_OUT_OF_MEMORY = re.compile(
    r"can(?:no|')t allocate memory|bad_alloc|\bMemoryError\b|failed to map segment", re.IGNORECASE
)
_NO_THREAD = re.compile(r"can't start new thread|pthread_create failed|Thread creation failed", re.IGNORECASE)
"""For want of address space for its stack, where that is limited; else of the number of threads."""


def memory_cause(text: str) -> str:
    """Return that memory ran out, the limit and the cure, as sentences with a space before them; empty where `text`
    shows no sign of that.
    """
    limit = limit_met(text)
    if not limit and not _OUT_OF_MEMORY.search(text):
        return ""
    return (
        f" Memory ran out.{f'{limit} Otherwise use' if limit else ' Use'} fewer ranks, a smaller batch_size or a "
        "smaller net, or free memory on the machine."
    )


def limit_met(text: str) -> str:
    """Return the limit alone, where `text` shows that memory ran out and there is one."""
    limit = memory_limit()
    return f" {limit}" if limit and (_OUT_OF_MEMORY.search(text) or _NO_THREAD.search(text)) else ""


def memory_limit() -> str:
    """Return the limit that this process, and so its children, have on memory, with the way to raise it; empty without
    one.
    """
    for kind, name in LIMITS:
        soft = resource.getrlimit(kind)[0]
        if soft != resource.RLIM_INFINITY:
            return (
                f"Each process is limited to {soft / 1e9:.1f} GB of address space ({name}): raise that where "
                f"the runner is started ({name} unlimited,"
                " or LimitAS=infinity in its systemd unit) and restart the runner."
            )
    return ""


def words_of(error: BaseException) -> str:
    """Return the types and messages of an error and of those that it came from."""
    before = error.__cause__ or error.__context__
    return f"{type(error).__name__}: {error}" + (f"\n{words_of(before)}" if before else "")
