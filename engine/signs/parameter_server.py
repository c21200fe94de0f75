"""Exhibits of the batch-updating parameter server."""

from engine.signs.sign import Number, Sign

_SYSTEM = "parameter_server"
_TUTORIAL = "PyTorch's tutorial on batch RPC processing: the parameter server"
_BLOG = "The blog series on parallel SGD: the MNIST parameter server"

SIGNS = (
    Sign(
        "adds_outside_lock",
        "Gradients added outside the lock",
        _SYSTEM,
        _BLOG,
        wrong=(
            "Handlers in several RPC threads run `p.grad += g` without a lock. torch releases the GIL while it "
            "adds, so two threads read and write the same numbers and one overwrites the other's addition."
        ),
        right="Additions run under one lock.",
        seen=(
            "Both overlap and preemption lose additions, and both need a long addition: none are lost at 20,000 "
            "numbers (the largest tensor of the published network has 16,000), while most rounds lose some at 4 "
            "million, the size of ResNet-50's large layers. Each round loses additions to a few numbers only. The "
            "fault is random: on an idle machine with many cores a run may lose none, and the page then reports "
            "that."
        ),
        x="Numbers in the tensor",
        y="Rounds with lost additions",
        numbers=(
            Number("short", "Rounds with lost additions, 4 million numbers", "rounds"),
            Number("rounds", "Rounds", "rounds"),
        ),
        guard="tests/experiments/servers/test_servers.py::test_no_add_is_lost_and_no_snapshot_is_torn_under_eight_hammering_trainers",
    ),
    Sign(
        "gradients_set_to_none",
        "Gradients set to None",
        _SYSTEM,
        _TUTORIAL,
        wrong=(
            "The server adds into `parameter.grad` and clears it with `zero_grad()`, which sets it to None since "
            "torch 2.0: the second round has nothing to add to."
        ),
        right=(
            "The sums keep their memory and are filled with zeros; the engine uses one vector for the server's "
            "lifetime."
        ),
        seen="The published code makes one update and fails from the second round on.",
        x="Round",
        y="Updates made",
        numbers=(Number("updates", "Updates made", "updates"), Number("rounds", "Rounds", "rounds")),
        guard="tests/experiments/servers/test_server_runs.py::test_n_trainers_of_batch_b_are_one_process_of_batch_n_times_b",
    ),
    Sign(
        "live_reply",
        "The live model as the reply",
        _SYSTEM,
        _TUTORIAL,
        wrong=(
            "The handler returns the server's own weights. The transport reads them after the handler has "
            "returned, while other handlers write the next update into them: the reply mixes two versions."
        ),
        right="The reply is a copy made under the update lock, with its version number.",
        seen=(
            "Each fetch of the published code spans several versions; a consistent one spans none. (22 of 22 were "
            "torn in a trial over RPC. Here a copy in two pieces, with an update in between, simulates the "
            "transport.)"
        ),
        x="Fetch",
        y="Version spread within one reply",
        numbers=(Number("torn", "Torn replies", "fetches"), Number("fetches", "Fetches", "fetches")),
        guard="tests/experiments/servers/test_servers.py::test_no_add_is_lost_and_no_snapshot_is_torn_under_eight_hammering_trainers",
    ),
    Sign(
        "module_as_reply",
        "The whole module in each round",
        _SYSTEM,
        _TUTORIAL,
        wrong=(
            "Every fetch pickles the module tensor by tensor (320 in the published ResNet-50, 94 MB), including "
            "its classes, which the receiver must be able to import."
        ),
        right="The weights are sent as one vector whose layout both ends know.",
        seen=(
            "Tensors packed, sent and unpacked individually in each round, for three ResNets. The bytes are "
            "nearly equal in both versions; the work is not, as the times for the smallest network show."
        ),
        x="Layers of the ResNet",
        y="Tensors per reply",
        numbers=(
            Number("tensors", "Tensors per reply (ResNet-10)", "tensors"),
            Number("megabytes", "Reply size", "MB"),
            Number("milliseconds", "Packing and unpacking", "ms"),
        ),
        guard="tests/runtime/transport/test_request_reply.py::test_every_question_is_answered_once_with_a_whole_vector",
    ),
    Sign(
        "buffers_left_behind",
        "Batch-norm statistics not sent",
        _SYSTEM,
        _TUTORIAL,
        wrong=(
            "Trainers push gradients of parameters. The running means and variances of batch norm are buffers "
            "without gradients and stay in the trainers: the server's network, which is tested and saved, "
            "normalizes with its initial values."
        ),
        right="The statistics are sent with the gradients, and the server keeps their mean.",
        seen=(
            "Both networks were trained with the same gradients. The one without the statistics has the lower accuracy."
        ),
        x="Round",
        y="Test accuracy of the server's network (%)",
        numbers=(
            Number("accuracy", "Test accuracy", "%"),
            Number("apart", "Distance of running means, server to trainer"),
        ),
        guard="tests/experiments/servers/test_server_runs.py::test_running_statistics_travel_with_the_weights",
    ),
    Sign(
        "waits_for_the_gone",
        "Waiting for a trainer that left",
        _SYSTEM,
        f"{_TUTORIAL}; the tutorial's batched REINFORCE has the same fault",
        wrong=(
            "A round is complete when N gradients have arrived, however many trainers are left, and no call has a "
            "timeout: a trainer that died, or that has fewer batches, leaves all others waiting forever."
        ),
        right=(
            "A trainer signs off and rounds shrink. A trainer that is silent for longer than `timeout_s` ends a "
            "synchronous run with an error that names it; an asynchronous run continues."
        ),
        seen=(
            "Trainer1 of four has 3 batches, the others 8. The published server stops after 3 updates and would "
            "wait forever; the exhibit ends it after 2 s."
        ),
        x="Time (ms)",
        y="Updates made",
        numbers=(
            Number("waiting", "Still waiting at the end", "trainers"),
            Number("updates", "Updates made", "updates"),
        ),
        guard="tests/experiments/servers/test_servers.py::test_the_last_partial_batch_is_flushed_when_the_others_leave",
    ),
)
