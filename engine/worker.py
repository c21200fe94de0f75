"""`python -m engine.worker`: the process that carries out one run. Thin, because a spawned rank imports it once more."""

if __name__ == "__main__":
    from engine.runtime import fork_server

    fork_server.start()  # it loads torch beside us, so before we load it ourselves

    from engine.runtime.worker import main

    main()
