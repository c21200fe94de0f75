"""What a runner finds of runs that ended under the one before it: their processes are seen off, their memory is given
back. Torch-free.
"""

from engine.access.rules import Program
from engine.home import Home
from engine.runner.run_supervisor import Endings
from engine.store import Reader
from engine.upkeep.leftovers import clean, leftovers


def inherit(home: Home, endings: Endings) -> None:
    """Look after what the last runner left; what is still alive has as long to end as under a runner that watched it.
    Raises StoreError.
    """
    with Reader.open(home) as reader:
        found = leftovers(home, reader, grace_s=0.0)
    for run_id in sorted({one.run_id for one in found if one.kind == "process" and one.run_id}):
        endings.inherit(run_id)
    if forsaken := [one for one in found if one.kind == "shared memory" or (one.kind == "process" and not one.run_id)]:
        clean(home, forsaken, by=Program("runner"), grace_s=0.0)
