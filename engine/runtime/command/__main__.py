"""`python -m engine.runtime.command`: the worker of one run of a command, or of an experiment of the lab's own. It
starts when its run does, in the time that loading no torch takes.
"""

if __name__ == "__main__":
    from engine.home import set_private

    set_private()

    from engine.runtime.command import own_method, run
    from engine.runtime.worker.session import execute_given_run, home_of_worker

    execute_given_run(
        home_of_worker(),
        lambda store, of, *more: (run if of.command else own_method).execution_of(store, of, *more),
    )
