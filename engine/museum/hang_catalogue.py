"""The exhibits of hangs: why ranks stop making progress, and what the hang doctor says of each. Torch-free.

The function of the same name in `engine.experiments.hang_museum.hangs` is what the ranks run.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class HangExhibit:
    """One cause of a hang, as three ranks show it."""

    name: str
    title: str
    wrong: str
    """What one rank does."""
    right: str
    """How to avoid it."""
    verdict: str
    """The hang doctor's cause; for a hang that ends by itself, words of the error."""
    guilty: int = 1
    """The rank that is at fault."""
    listens: bool = False
    """Whether its ranks listen on the network."""


HANGS = (
    HangExhibit(
        "never_join",
        "Never joined",
        "One rank does not arrive where all wait for each other before training begins.",
        "Do slow work, such as a download, before the ranks start, or give joining a time limit.",
        "not joined",
    ),
    HangExhibit(
        "try_a_wrong_port",
        "Wrong port",
        "One rank tries to connect to a port where no process listens, again and again.",
        "Let the ranks get the address from one place, and bound the attempts.",
        "not joined",
        listens=True,
    ),
    HangExhibit(
        "return_early",
        "Exited",
        "One rank ends while the others still wait for it at a barrier.",
        "Leave the loop on all ranks at the same step.",
        "exited",
    ),
    HangExhibit(
        "stop_before_an_average",
        "Stopped",
        "One rank's process is stopped (SIGSTOP), by a debugger or a batch system; the others wait in an average.",
        "Continue the process (`kill -CONT`), or end the run.",
        "stopped",
        listens=True,
    ),
    HangExhibit(
        "wait_for_a_disk",
        "Waiting for a disk",
        "One rank's process waits in the kernel, as for a network file system that doesn't answer.",
        "Copy data to a local disk before training; a process in this state may not even react to SIGKILL.",
        "disk wait",
    ),
    HangExhibit(
        "run_out_of_memory",
        "Out of memory",
        "One rank gets no more memory and dies; the others would wait for it at the next barrier.",
        "Watch the ranks, and end the run with the first one that dies.",
        "memory",
    ),
    HangExhibit(
        "mix_up_collectives",
        "Order mismatch",
        "One rank broadcasts while the others average.",
        "Call collectives in the same order on all ranks: never within a condition that differs between them.",
        "order mismatch",
        listens=True,
    ),
    HangExhibit(
        "give_another_shape",
        "Shape mismatch",
        "One rank's vector in an average has one value more; plain gloo would abort another rank, or hang.",
        "Check sizes before the average.",
        "got 9 of float32",
        listens=True,
    ),
    HangExhibit(
        "give_another_type",
        "Data type mismatch",
        "One rank's vector in an average is of float64; plain gloo would mix up the bytes.",
        "Check data types before the average.",
        "got 8 of float64",
        listens=True,
    ),
    HangExhibit(
        "have_unequal_batches",
        "Unequal numbers of batches",
        "One rank has a batch less than the others, which wait for it in their last average.",
        "Give all ranks equally many batches: drop the rest, or pad it.",
        "unequal steps",
        listens=True,
    ),
    HangExhibit(
        "call_within_a_call",
        "Nested calls",
        "A handler of remote calls calls another rank and waits, on the only thread that could take the answer.",
        "Answer later, by a future, or have more threads than nested calls.",
        "nested calls",
        listens=True,
    ),
    HangExhibit(
        "keep_a_lock",
        "Lock kept",
        "One rank sleeps while it holds the lock that all others need.",
        "Do nothing slow under a lock, and use locks that the system frees when their holder dies.",
        "lock kept",
    ),
    HangExhibit(
        "fill_a_queue",
        "Full queue",
        "The rank that takes batches from a queue stops doing so; the others wait for room.",
        "Put with a time limit, and say who reads.",
        "full queue",
        guilty=0,
    ),
)


def hang(name: str) -> HangExhibit:
    """Return the exhibit of that name."""
    return next(each for each in HANGS if each.name == name)
