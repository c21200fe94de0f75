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
        wrong="Handlers in several RPC threads run `p.grad += g` without a lock. torch lets go of Python's lock (the "
        "GIL) while it adds, so two threads "
        "read and write the same numbers: one overwrites what the other has just added.",
        right="Adding happens under one lock.",
        seen="Both an overlap and an interruption in the middle lose adds, and both need an add that lasts: none "
        "are lost at 20,000 numbers (the largest "
        "tensor of the published net has 16,000), and most rounds lose some at 4 million, the size of "
        "ResNet-50's large layers. A round loses adds to a "
        "few numbers only. Chance decides: on an idle machine with many cores a run may lose none, which the "
        "page then says.",
        x="Numbers in the tensor",
        y="Rounds that lost an add",
        numbers=(
            Number("short", "Rounds that lost an add, 4 million numbers", "rounds"),
            Number("rounds", "Rounds", "rounds"),
        ),
        guard="tests/experiments/servers/test_servers.py::test_no_add_is_lost_and_no_snapshot_is_torn_under_eight_hammering_trainers",
    ),
    Sign(
        "gradients_set_to_none",
        "Gradients set to None",
        _SYSTEM,
        _TUTORIAL,
        wrong="The server adds into `parameter.grad` and empties it by `zero_grad()`, which since torch 2.0 sets it "
        "to None: the second round has nothing "
        "to add to.",
        right=(
            "The sums keep their memory and are filled with zeros; ours is one vector that lives as long as the server."
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
        wrong="The handler returns the server's own weights. The transport reads them after the handler has "
        "returned, while other handlers write the next "
        "update into them: what arrives is half one version and half another.",
        right="The reply is a copy made under the lock that updates take, with its version number.",
        seen="Each fetch of the published code spans several versions; a whole one spans none. (22 of 22 were torn "
        "in a trial over RPC. Here the transport "
        "is played by a copy in two pieces, with an update in between.)",
        x="Fetch",
        y="Versions apart in one reply",
        numbers=(Number("torn", "Torn replies", "fetches"), Number("fetches", "Fetched", "fetches")),
        guard="tests/experiments/servers/test_servers.py::test_no_add_is_lost_and_no_snapshot_is_torn_under_eight_hammering_trainers",
    ),
    Sign(
        "module_as_reply",
        "The whole module, each round",
        _SYSTEM,
        _TUTORIAL,
        wrong="Every fetch pickles the module: tensor by tensor (320 of them in the published ResNet-50, 94 MB), "
        "with the classes round them, which the "
        "other end must be able to import.",
        right="The weights travel as one vector, whose layout both ends know.",
        seen="Tensors that are packed, sent and unpacked by themselves in each round, for three ResNets. The bytes "
        "are nearly the same both ways; the work is "
        "not, as the times beside it say of the smallest of them.",
        x="Layers of the ResNet",
        y="Tensors in one reply",
        numbers=(
            Number("tensors", "Tensors in a reply of ResNet-10", "tensors"),
            Number("megabytes", "Its size", "MB"),
            Number("milliseconds", "Packing and unpacking it", "ms"),
        ),
        guard="tests/runtime/transport/test_request_reply.py::test_every_question_is_answered_once_with_a_whole_vector",
    ),
    Sign(
        "buffers_left_behind",
        "Batch-norm's statistics never travel",
        _SYSTEM,
        _TUTORIAL,
        wrong="Trainers push gradients of parameters. The running means and variances of batch-norm are buffers, "
        "have no gradient, and stay in the "
        "trainers: the server's net, which is tested and kept, normalizes by the numbers it was born with.",
        right="The statistics travel with the gradients, and the server keeps their mean.",
        seen="Both nets were trained by the same gradients. The one without its statistics is tested the worse.",
        x="Round",
        y="Test accuracy of the server's net (%)",
        numbers=(Number("accuracy", "Test accuracy", "%"), Number("apart", "Running means, server to trainer")),
        guard="tests/experiments/servers/test_server_runs.py::test_running_statistics_travel_with_the_weights",
    ),
    Sign(
        "waits_for_the_gone",
        "Waiting for one who has gone",
        _SYSTEM,
        f"{_TUTORIAL}; the batched REINFORCE beside it has the same",
        wrong="A round is complete when N gradients are in, whoever is left, and no call has a time-out: a trainer "
        "that died, or only has fewer batches, "
        "leaves all others waiting for ever.",
        right="A trainer takes its leave and rounds shrink; one that is silent for longer than `timeout_s` ends a "
        "synchronous run with its name, and an "
        "asynchronous one goes on.",
        seen="Trainer1 of four has 3 batches, the others 8. The published server stops after 3 updates and would "
        "stand so for ever; the show ends it after "
        "2 s.",
        x="Time (ms)",
        y="Updates made",
        numbers=(
            Number("waiting", "Still waiting at the end", "trainers"),
            Number("updates", "Updates made", "updates"),
        ),
        guard="tests/experiments/servers/test_servers.py::test_the_last_partial_batch_is_flushed_when_the_others_leave",
    ),
)
