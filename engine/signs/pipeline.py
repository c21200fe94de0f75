"""Exhibits of RPC pipeline parallelism."""

from engine.signs.sign import Number, Sign

_SYSTEM = "pipeline"
_TUTORIAL = "PyTorch's tutorial on pipeline parallelism by RPC"

SIGNS = (
    Sign(
        "optimizer_trains_nothing",
        "An optimizer that trains nothing",
        _SYSTEM,
        "The official example that belongs to the tutorial, as it is today",
        wrong="Backward goes through distributed autograd, which keeps gradients in its context. The optimizer is a "
        "plain one and looks into `.grad`, where "
        "nothing is: it skips every parameter, and says nothing.",
        right=(
            "The optimizer is given the context; ours computes forward and backward of each stage itself and has "
            "the gradients where they are."
        ),
        seen="The loss of the same batch, step after step: the published example's never changes.",
        x="Step",
        y="Training loss",
        numbers=(Number("moved", "Weights moved by"), Number("loss", "Last loss")),
        guard="tests/experiments/pipeline/test_pipeline.py::test_a_plain_optimizer_would_find_no_gradient_under_distributed_autograd",
        listens=True,
    ),
    Sign(
        "sizes_for_counts",
        "Sizes taken for counts",
        _SYSTEM,
        f"{_TUTORIAL}; the published times come from a discussion of its example",
        wrong="The number that the sweep calls splits is handed to `split`, which takes the size of a piece: 1, 2, 4 "
        "and 8 made 120, 60, 30 and 15 "
        "micro-batches.",
        right="Splits are a number of micro-batches, cut as evenly as it goes.",
        seen="The two lines cross the picture in opposite directions, and so does the conclusion: not more splits "
        "were faster, but fewer, larger "
        "micro-batches. The unpipelined point was never measured.",
        x="Splits, as the sweep calls them",
        y="Micro-batches",
        numbers=(
            Number("micro_batches", "Micro-batches at splits = 1", "micro-batches"),
            Number("images_each", "Images in each", "images"),
            Number("ms_per_image", "Forward and backward of an image", "ms"),
            Number("asked", "Asked for", "micro-batches"),
        ),
        guard="tests/pipelining/test_schedules.py::test_a_batch_is_cut_as_evenly_as_it_goes",
    ),
    Sign(
        "norm_by_micro_batch",
        "Batch-norm that sees micro-batches",
        _SYSTEM,
        _TUTORIAL,
        wrong=(
            "Each micro-batch is normalized by its own mean and variance, so the gradient of a batch depends on "
            "how it is cut."
        ),
        right=(
            "With fixed statistics it does not: that is how ours is tested. Training may still use micro-batches' "
            "own, and the form says what that means."
        ),
        seen="How far the gradient is from the unsplit net's, for each number of splits.",
        x="Splits",
        y="Off the unsplit gradient (%)",
        numbers=(Number("off", "Furthest off", "%"), Number("splits", "Most splits", "splits")),
        guard="tests/experiments/pipeline/test_pipeline.py::test_gradients_are_those_of_the_net_in_one_piece_for_every_number_of_splits",
    ),
    Sign(
        "half_initialized",
        "Only the first shard is initialized",
        _SYSTEM,
        _TUTORIAL,
        wrong=(
            "The loop that gives convolutions their first weights stands in the first shard's constructor alone; "
            "the second keeps torch's defaults."
        ),
        right="The whole net is made, then cut, so that its stages begin with the weights of the unsplit net.",
        seen="The deviation of each layer's first weights; 1 is He's initialization, which keeps the size of "
        "signals from layer to layer. From the cut on "
        "they shrink.",
        x="Layer",
        y="Deviation of weights, of He's",
        numbers=(Number("least", "Smallest deviation, of He's"), Number("signal", "Signal behind the last layer")),
        guard="tests/experiments/pipeline/test_pipeline_parts.py::test_layers_one_after_another_are_the_net",
    ),
)
