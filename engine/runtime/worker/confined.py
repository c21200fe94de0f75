"""`python -m engine.runtime.worker.confined FOLDER`: executes one run of an experiment of the lab's own, without the
store.

Its worker starts it confined, with the run's copy of the code among the paths of modules, and stores what it appends to
the file of records. Small, because spawned ranks import it again.
"""

import os
import signal
import sys
from functools import partial
from pathlib import Path


def execute(path: str) -> None:
    """Execute the run whose folder this is, and record how it ended."""
    from engine.home import Home
    from engine.runtime.rank.rank import RunContext
    from engine.runtime.usage import Disturbance
    from engine.runtime.worker.job_folder import JobFolder
    from engine.runtime.worker.records import RecordFile
    from engine.runtime.worker.sink import StopSwitch, retry_while_busy
    from engine.runtime.worker.worker import MethodExecution, warm_up
    from engine.system.checkpoint_state import RESUMED
    from engine.system.run_files import log_to_stdout

    log_to_stdout()
    switch = StopSwitch()
    folder = JobFolder(Path(path), Path(path).parent)
    spec = folder.spec()
    records = RecordFile(folder)
    warm_up()
    gpus = [gpu for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
    cores = tuple(spec.core_ids)
    context = partial(
        RunContext.of,
        folder=folder.run,
        gpus=gpus,
        began=spec.began,
        resume_from=folder.run / RESUMED if spec.resumes else None,
        time_before_s=spec.time_before_s,
        uid=spec.run_uid,
        host_network_refused=spec.host_network_refused,
        end_when_hung=spec.end_when_hung,
    )
    execution = MethodExecution(
        *(spec.experiment, spec.config, Home(folder.path), records, switch),
        *(Disturbance(max(1, len(cores)), cores), context),
        began=spec.began,
    )
    status, cause, error = execution.outcome(lambda: ("cancelled", "The run was asked to stop.", ""))
    assert status in ("finished", "failed", "cancelled"), status
    final = status
    retry_while_busy(lambda: records.end(final, cause, error, execution.execution_time_s))
    sys.stdout.flush()
    os._exit(0)  # the run's end is recorded: exit handlers of libraries add nothing


if __name__ == "__main__":
    from engine.home import set_private
    from engine.runtime.rank import fork_server
    from engine.system.processes import MARK

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_private()
    fork_server.fork_this_process(os.environ[MARK])
    execute(sys.argv[1])
