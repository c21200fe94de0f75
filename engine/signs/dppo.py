"""Exhibits of DPPO."""

from engine.signs.sign import Number, Sign

_SYSTEM = "dppo"
_CODE = "The public reader-writer code of DPPO that the note on bounded queues starts from"

SIGNS = (
    Sign(
        "unguarded_counter",
        "A counter that nobody guards",
        _SYSTEM,
        _CODE,
        wrong=(
            "All collectors raise one counter by `counter += 1`: read, add, write. What another one counts in "
            "between is lost."
        ),
        right="Counts that several processes raise are raised under a lock.",
        seen="Four real processes count their steps in shared memory. Without a lock the count falls behind the "
        "steps made, each time by another number; "
        "with it none is lost.",
        x="Steps made",
        y="Steps counted",
        numbers=(Number("lost", "Lost", "steps"), Number("steps", "Made", "steps")),
        guard="tests/experiments/dppo/test_dppo.py::test_the_queue_is_first_in_first_out_and_counts_what_it_holds",
    ),
    Sign(
        "half_published_policy",
        "A policy published in halves",
        _SYSTEM,
        _CODE,
        wrong="The learner writes layer by layer into the one copy of the policy that collectors read: who begins a "
        "batch meanwhile plays with layers of "
        "two policies.",
        right=(
            "There are two copies. The learner fills the one that nobody reads, and a version, told last, makes it "
            "the one that is read."
        ),
        seen=(
            "A collector begins a batch after each layer that is written. Three of four begin with a mixture, "
            "which no version number belongs to."
        ),
        x="Batch",
        y="Versions apart in one policy",
        numbers=(Number("mixed", "Mixed policies", "batches"), Number("batches", "Begun", "batches")),
        guard="tests/experiments/dppo/test_dppo.py::test_weights_are_taken_whole_while_another_process_publishes",
    ),
    Sign(
        "steps_thrown_away",
        "Three steps of four thrown away",
        _SYSTEM,
        _CODE,
        wrong=(
            "One counter counts everyone's steps; who makes the last one of a batch hands in its own buffer, and "
            "everyone else's is emptied."
        ),
        right="Each collector fills batches of its own, and a bounded queue holds them until they are learned from.",
        seen="Of the steps that four collectors play, the published code learns from about a quarter.",
        x="Steps played",
        y="Steps learned from",
        numbers=(Number("used", "Learned from", "%"), Number("collected", "Played", "steps")),
        guard="tests/experiments/dppo/test_dppo.py::test_a_bounded_queue_uses_every_step_and_synchronizes_once_in_a_queueful",
    ),
    Sign(
        "queue_holds_process",
        "A queue that holds its process",
        _SYSTEM,
        f"{_CODE}, where its threads become processes",
        wrong="Batches go through `multiprocessing.Queue`. A thread of the process feeds them into a pipe, and the "
        "process can't end before that thread "
        "has: with a batch larger than the pipe, and nobody who reads, never.",
        right=(
            "Batches lie in slots of shared memory, whose counts a lock guards; a process that has filled one can go."
        ),
        seen="How long a real process is there after it has put one batch that nobody takes. Small ones fit into "
        "the pipe, which is why it works on the "
        "desk; the show gives up after 2 s.",
        x="Batch (KB)",
        y="Seconds until the process has ended",
        numbers=(
            Number("stuck", "Processes that could not end", "processes"),
            Number("processes", "Processes", "processes"),
        ),
        guard="tests/experiments/dppo/test_dppo.py::test_a_stop_in_any_phase_ends_every_process_and_keeps_what_was_recorded",
    ),
    Sign(
        "update_waits_forever",
        "An update that waits for ever",
        _SYSTEM,
        _CODE,
        wrong=(
            "The update thread waits for the event that a batch is full. When the collectors have ended none will "
            "be, and the program can't end."
        ),
        right="Whoever waits looks for the end of the run as well.",
        seen=(
            "Threads that are still there. The run is over when both collectors have ended; the published learner "
            "stays."
        ),
        x="Time (ms)",
        y="Threads alive",
        numbers=(Number("left", "Left after the end", "threads"), Number("threads", "Started", "threads")),
        guard="tests/experiments/dppo/test_dppo.py::test_a_stop_in_any_phase_ends_every_process_and_keeps_what_was_recorded",
    ),
)
