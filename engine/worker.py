"""`python -m engine.worker`: the process that executes one run. Small, because spawned ranks import it again."""

if __name__ == "__main__":
    import atexit
    import gc
    import os
    import sys

    from engine.home import set_private
    from engine.runtime.rank import fork_server

    set_private()  # for the ranks too
    fork_server.fork_this_process()

    gc.disable()  # imports make little garbage, and searches for it take a tenth of the time
    from engine.runtime.worker.worker import main

    gc.enable()
    main()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(0)  # Python would first destroy every object: seconds with torch, for which a cancelled run would wait
