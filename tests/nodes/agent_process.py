"""An agent in a process of its own, as on another node: `python -m tests.nodes.agent_process PORT KEY NAME`."""

import sys

if __name__ == "__main__":
    from engine.runtime.rank import fork_server

    fork_server.start(spread=True)
    from engine.runtime.nodes.agent import NodeAgent, connect

    fork_server.wait_until_loaded()
    link = connect("127.0.0.1", int(sys.argv[1]), bytes.fromhex(sys.argv[2]))
    link.send(sys.argv[3])
    NodeAgent(link, "lo").serve()
