"""`python -m engine.worker`: the process that carries out one run. Thin, because a spawned rank imports it
once more.
"""

if __name__ == "__main__":
    from engine.runtime.rank import fork_server
    from engine.runtime.rank.fork_server import run_is_waiting
    from engine.umask import set_private

    set_private()  # for the ranks too
    fork_server.start(hurry=run_is_waiting())  # it loads torch beside us, so before we load it ourselves

    from engine.runtime.worker.worker import main

    main()
