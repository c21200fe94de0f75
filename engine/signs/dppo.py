"""Exhibits of DPPO."""

from engine.signs.sign import Number, Sign

_SYSTEM = "dppo"
_CODE = "The public reader-writer code of DPPO that the note on bounded queues starts from"

SIGNS = (
    Sign(
        "unguarded_counter",
        "A counter without a lock",
        _SYSTEM,
        _CODE,
        wrong=(
            "All collectors increment one counter with `counter += 1`: read, add, write. Increments by other "
            "processes in between are lost."
        ),
        right="Counters shared by several processes are incremented under a lock.",
        seen=(
            "Four real processes count their steps in shared memory. Without a lock the count falls behind the "
            "steps, by a different number each time; with a lock none is lost."
        ),
        x="Steps made",
        y="Steps counted",
        numbers=(Number("lost", "Lost", "steps"), Number("steps", "Made", "steps")),
        guard="tests/experiments/dppo/test_dppo.py::test_the_queue_is_first_in_first_out_and_counts_what_it_holds",
    ),
    Sign(
        "half_published_policy",
        "A half-published policy",
        _SYSTEM,
        _CODE,
        wrong=(
            "The learner writes layer by layer into the only copy of the policy that collectors read: a collector "
            "that starts a batch in the meantime plays with layers of two policies."
        ),
        right=(
            "There are two copies. The learner writes the unused one, then a version number switches readers to it."
        ),
        seen=(
            "A collector starts a batch after each layer is written. Three of four batches start with a mixture "
            "that belongs to no version."
        ),
        x="Batch",
        y="Version spread within one policy",
        numbers=(Number("mixed", "Mixed policies", "batches"), Number("batches", "Batches started", "batches")),
        guard="tests/experiments/dppo/test_dppo.py::test_weights_are_taken_whole_while_another_process_publishes",
    ),
    Sign(
        "steps_thrown_away",
        "Three of four steps discarded",
        _SYSTEM,
        _CODE,
        wrong=(
            "One counter counts all collectors' steps. The collector that completes a batch submits its own "
            "buffer, and all other buffers are cleared."
        ),
        right=("Each collector fills its own batches, and a bounded queue holds them until they are trained on."),
        seen="The published code trains on about a quarter of the steps that four collectors play.",
        x="Steps played",
        y="Steps trained on",
        numbers=(Number("used", "Trained on", "%"), Number("collected", "Played", "steps")),
        guard="tests/experiments/dppo/test_dppo.py::test_a_bounded_queue_uses_every_step_and_synchronizes_once_in_a_queueful",
    ),
    Sign(
        "queue_holds_process",
        "A queue that blocks its process",
        _SYSTEM,
        f"{_CODE}, with processes instead of threads",
        wrong=(
            "Batches go through `multiprocessing.Queue`. A feeder thread writes them into a pipe, and the process "
            "can't exit before that thread: with a batch larger than the pipe and no reader, never."
        ),
        right=(
            "Batches are stored in slots of shared memory whose counters are protected by a lock; a process that "
            "has filled a slot can exit."
        ),
        seen=(
            "Time until a real process exits after it has put one batch that no one takes. Small batches fit into "
            "the pipe, which is why it works in small tests; the exhibit gives up after 2 s."
        ),
        x="Batch (KB)",
        y="Time to process exit (s)",
        numbers=(
            Number("stuck", "Processes that did not exit", "processes"),
            Number("processes", "Processes", "processes"),
        ),
        guard="tests/experiments/dppo/test_dppo.py::test_a_stop_in_any_phase_ends_every_process_and_keeps_what_was_recorded",
    ),
    Sign(
        "update_waits_forever",
        "An update that waits forever",
        _SYSTEM,
        _CODE,
        wrong=(
            "The update thread waits for the event that a batch is full. After the collectors have ended, the "
            "event never comes and the program can't exit."
        ),
        right="Every wait also checks for the end of the run.",
        seen=(
            "Number of live threads. The run is over when both collectors have ended; the published learner keeps "
            "waiting."
        ),
        x="Time (ms)",
        y="Live threads",
        numbers=(Number("left", "Left after the end", "threads"), Number("threads", "Started", "threads")),
        guard="tests/experiments/dppo/test_dppo.py::test_a_stop_in_any_phase_ends_every_process_and_keeps_what_was_recorded",
    ),
)
