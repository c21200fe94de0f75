"""`python -m engine.worker`: the process that carries out one run. Thin, because a spawned rank imports it once more."""

if __name__ == "__main__":
    from engine.runtime.worker import main

    main()
