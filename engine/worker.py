"""`python -m engine.worker`: the process that carries out one run. Thin, because a spawned rank imports it
once more.
"""

if __name__ == "__main__":
    from engine.runtime import fork_server
    from engine.runtime.launcher import a_run_waits
    from engine.umask import set_private

    set_private()  # for the ranks too
    fork_server.start(hurry=a_run_waits())  # it loads torch beside us, so before we load it ourselves

    from engine.runtime.worker import main

    main()
