"""`python -m engine.runtime.command`: the worker of one run of a command. It starts when its run does, in the time that
loading no torch takes.
"""

if __name__ == "__main__":
    from engine.home import set_private

    set_private()

    from engine.runtime.command.run import execution_of
    from engine.runtime.worker.session import execute_given_run, home_of_worker

    execute_given_run(home_of_worker(), execution_of)
