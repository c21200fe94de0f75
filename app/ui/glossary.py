"""The glossary: each term of the console in at most two sentences. The only place of these definitions."""

TERMS = {
    "accuracy": "The share of images that a model classifies correctly. Test accuracy is measured on images that no "
    "trainer has seen.",
    "agent": "The process that chooses actions for all observers and learns from their rewards.",
    "all-reduce": "An exchange after which every process holds the same sum or average of what all of them sent.",
    "baseline": "The run that others are compared with. Each experiment can have one pinned baseline.",
    "bubble": "The share of a pipeline's time in which stages are idle. Equal stages have a bubble too: later stages "
    "wait for the first micro-batch, earlier ones for the last.",
    "collector": "A process that plays episodes with the current policy and sends the data to the learner.",
    "confidence interval": "A range, computed so that it contains the true mean in 95 % of repeated experiments; in "
    "about 90 % over 3 to 8 skewed values. It needs at least 3 seeds.",
    "disturbance": "The share of the CPU time of a run's cores that other programs, or the host of a virtual machine, "
    "took while its ranks worked. Above 5 % (an admin can set another share) a run is disturbed: its times are not "
    "reliable.",
    "duel": "A comparison of strategies with equal budgets, initial weights and seeds, and learning rates tuned on the "
    "same grid.",
    "efficiency": "The speed-up divided by the number of processes. It is 100 % if twice as many processes are "
    "twice as fast.",
    "environment step": "One action in an environment and its answer: the next observation and a reward.",
    "episode": "One game, from a reset of the environment to its end. Its return is the sum of its rewards.",
    "execution time": "The time from all ranks ready to all ranks finished. It excludes the start-up time.",
    "experiment": "A way to train a model with several processes, such as Hogwild!. A run is one execution of it.",
    "gradient": "The direction in which the loss grows fastest, computed from one mini-batch. An optimizer moves the "
    "weights against it.",
    "learner": "The process that updates the policy with the data of all collectors.",
    "loss": "The quantity that training minimizes. It measures how far the model's outputs are from the targets.",
    "micro-batch": "A part of a mini-batch that moves through a pipeline on its own, so that stages can work at the "
    "same time.",
    "mini-batch": "The samples that one gradient is computed from.",
    "observer": "A process that runs an environment and requests every action from the agent.",
    "oversubscribe": "To start a run on cores that other runs hold. The timings of all these runs become unreliable.",
    "parameter server": "A process that stores the weights. Trainers send it gradients and receive new weights.",
    "pass": "One pass over the training set, also called an epoch. Passes count the work of all trainers together.",
    "policy": "The function that chooses actions, here a neural network.",
    "preset": "A named set of settings: published as in the source, tuned for this program, quick for a first try.",
    "rank": "One process of a run. Each rank has a number and a role, such as trainer or server.",
    "runner": "The background process that starts queued runs when enough cores and GPUs are free.",
    "seed": "The number that the random order of data and the initial weights follow from. Runs that differ only in "
    "their seed show how much chance matters; runs with the same seed are compared with each other.",
    "smoothing": "An exponential moving average over a noisy curve. The raw curve stays visible.",
    "speed-up": "How many times faster several processes are than one. The ideal speed-up of 4 processes is 4.",
    "splits": "The number of micro-batches that a pipeline cuts each mini-batch into. More splits shrink the bubble, "
    "but each adds overhead.",
    "stage": "The layers of a model that one process of a pipeline holds.",
    "staleness": "The number of updates by other trainers between reading the weights and applying the gradient "
    "computed from them; Hogwild! and asynchronous SGD record it. Stale gradients can slow down learning.",
    "start-up time": "The time from the worker accepting the run to all ranks ready: starting processes and loading "
    "data.",
    "step": "One iteration of a rank's training loop. Methods do different work per step, so compare them over passes "
    "or time.",
    "straggler": "A process that is slower than the others. Synchronous methods wait for it at every update.",
    "sweep": "A set of runs over several values of one or two settings, usually with several seeds each.",
    "throughput": "The work of all ranks (samples trained on, or environment steps) divided by the execution time.",
    "total time": "The time for which a run holds its cores: start-up time, execution time and shutdown. Estimates "
    "before a launch state it.",
    "trainer": "A process that computes gradients on its mini-batches.",
    "tuning run": "A run of a duel that only finds a good learning rate. Its result does not count.",
    "uncontrolled difference": "A difference between the sides of a duel that its budget cannot equalize.",
    "universal scalability law": "A model of speed-up with two costs: work that only one process can do, and "
    "coordination between processes. It predicts the number of processes with the highest throughput.",
    "update": "One change of the shared weights. Methods differ in how many gradients make an update.",
    "utilization": "The share of time in which a core or GPU is busy.",
    "worker": "The process that starts the ranks of one run and writes their measurements.",
}
