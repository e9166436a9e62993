"""A random walk beside the real thing: `make walk`, and a short one among the tests.

Real clusters of mixed releases from 3.7 to 4.4 are rolled, stopped, frozen, given other voters,
unregistered, configured and finalized by chance. After each step the product collects and judges,
and every READY, BLOCKED and quoted answer is put to the active controller, validating only.

    wire.py        requests to one listener, byte by byte
    world.py       the cluster under our hands
    steps.py       what may happen to it
    returning.py   what `can-roll` promises of a node, beside the node that is started
    comparing.py   the product's sentences beside the controller's
    applying.py    a plan applied for real, beside the metadata log
    walking.py     the loop; what it counts
    cases.py       a disagreement on disk; cases/ are those that were found and fixed
"""
