"""`python -m engine.worker`: the process that executes one run. Small, because spawned ranks import it again."""

if __name__ == "__main__":
    from engine.runtime.rank import fork_server
    from engine.runtime.rank.fork_server import run_is_waiting
    from engine.umask import set_private

    set_private()  # for the ranks too
    fork_server.start(hurry=run_is_waiting())  # before our own import of torch, to load it in parallel

    from engine.runtime.worker.worker import main

    main()
