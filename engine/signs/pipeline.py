"""Exhibits of RPC pipeline parallelism."""

from engine.signs.sign import Number, Sign

_SYSTEM = "pipeline"
_TUTORIAL = "PyTorch's tutorial on pipeline parallelism by RPC"

SIGNS = (
    Sign(
        "optimizer_trains_nothing",
        "An optimizer that trains nothing",
        _SYSTEM,
        "The official example of the tutorial, in its current version",
        wrong=(
            "Backward runs through distributed autograd, which keeps gradients in its context. The optimizer is a "
            "local one and reads `.grad`, which is empty: it silently skips every parameter."
        ),
        right=(
            "The optimizer gets the context; the engine runs forward and backward of each stage itself and has "
            "the gradients locally."
        ),
        seen="Loss of the same batch by step: in the published example it never changes.",
        x="Step",
        y="Training loss",
        numbers=(Number("moved", "Change of the weights"), Number("loss", "Final loss")),
        guard="tests/experiments/pipeline/test_pipeline.py::test_a_plain_optimizer_would_find_no_gradient_under_distributed_autograd",
        listens=True,
    ),
    Sign(
        "sizes_for_counts",
        "Sizes used as counts",
        _SYSTEM,
        f"{_TUTORIAL}; the published times come from a discussion of its example",
        wrong=(
            "The sweep's split count is passed to `split`, which expects the size of a piece: 1, 2, 4 and 8 made "
            "120, 60, 30 and 15 micro-batches."
        ),
        right="`splits` is the number of micro-batches, cut as evenly as possible.",
        seen=(
            "The two lines run in opposite directions, which reverses the conclusion: not more splits were "
            "faster, but fewer, larger micro-batches. The unpipelined point was never measured."
        ),
        x="Splits, as named by the sweep",
        y="Micro-batches",
        numbers=(
            Number("micro_batches", "Micro-batches at splits = 1", "micro-batches"),
            Number("images_each", "Images per micro-batch", "images"),
            Number("ms_per_image", "Forward and backward per image", "ms"),
            Number("asked", "Requested", "micro-batches"),
        ),
        guard="tests/pipelining/test_schedules.py::test_a_batch_is_cut_as_evenly_as_it_goes",
    ),
    Sign(
        "norm_by_micro_batch",
        "Batch norm by micro-batch",
        _SYSTEM,
        _TUTORIAL,
        wrong=(
            "Each micro-batch is normalized by its own mean and variance, so the gradient of a batch depends on "
            "the number of splits."
        ),
        right=(
            "With fixed statistics it doesn't, and the engine is tested this way. Training can still use "
            "per-micro-batch statistics; the form explains the consequence."
        ),
        seen="Distance of the gradient from the unsplit network's, by number of splits.",
        x="Splits",
        y="Gradient error (%)",
        numbers=(Number("off", "Largest error", "%"), Number("splits", "Largest number of splits", "splits")),
        guard="tests/experiments/pipeline/test_pipeline.py::test_gradients_are_those_of_the_net_in_one_piece_for_every_number_of_splits",
    ),
    Sign(
        "half_initialized",
        "Only the first shard is initialized",
        _SYSTEM,
        _TUTORIAL,
        wrong=(
            "The loop that initializes convolutions is only in the first shard's constructor; the second shard "
            "keeps torch's defaults."
        ),
        right=("The whole network is built, then cut, so its stages start with the weights of the unsplit network."),
        seen=(
            "Standard deviation of each layer's initial weights; 1 is He initialization, which preserves signal "
            "magnitude between layers. From the cut on, signals shrink."
        ),
        x="Layer",
        y="Weight deviation relative to He",
        numbers=(Number("least", "Smallest deviation relative to He"), Number("signal", "Signal after the last layer")),
        guard="tests/experiments/pipeline/test_pipeline_parts.py::test_layers_one_after_another_are_the_net",
    ),
)
