"""``python unread.py``: rank 1 fails while the launcher does not read for a second; rank 0 waits for it."""

from __future__ import annotations

import os
import signal
import subprocess

from ecsim.parallel.launch import World, fail, world

if __name__ == "__main__":
    here = world()
    World.fail_together = lambda self: False
    if here.rank == 1:
        launcher = os.getppid()
        os.kill(launcher, signal.SIGSTOP)
        subprocess.Popen(["sh", "-c", f"sleep 1; kill -CONT {launcher}"], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
        fail("the last words", 3)
    here.comm.Barrier()
    print("not reached")
