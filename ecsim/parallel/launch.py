"""Whether this process has peers, and how a job of many ranks fails together.

MPI is imported only where a launcher has started the process (or the caller has imported mpi4py itself). A launcher
that belongs to another MPI than mpi4py's starts processes that do not see each other; that is found out here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import signal
import stat
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "MPI_LOCALNRANKS")
RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
GRACE_SECONDS = 3.0      # in which a failure of all ranks is to come to all of them …
CLOSING_SECONDS = 30.0   # … or, once rank 0 has said that it is closing its files, so long
CLOSING = 1              # tag of that message
FEWEST_PROCESSORS = 3    # the program, the GPU's driver and NCCL have a busy thread each


class LaunchError(RuntimeError):
    """The process was started as one of many and cannot work as one; the message says why and what to do.

    differ : the peers are there, but were given something else.
    """

    def __init__(self, message: str, differ: bool = False) -> None:
        super().__init__(message)
        self.differ = differ


@dataclass(frozen=True)
class World:
    """The ranks of this job.

    comm : mpi4py communicator of all ranks, None for a process without peers.  rank, size : in it.
    local_rank, local_size : among the ranks on this host.  share : processors of this host that fall to this rank.
    processors : that this rank may use, 0 if unknown.  mpi : the MPI in one line.
    failing : communicator kept for `fail_together`.
    """

    comm: Any = None
    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    share: float = 1.0
    mpi: str = "not used (one process)"
    failing: Any = None
    processors: int = 0
    _gave_up: list = field(default_factory=list, compare=False, repr=False)

    @property
    def tied_down(self) -> str:
        """A warning for a rank that drives a GPU if its launcher keeps it on too few processors; else empty."""
        if not 0 < self.processors < FEWEST_PROCESSORS:
            return ""
        return (f"this rank is tied to {self.processors} processor{'s' * (self.processors > 1)}, and a GPU then waits "
                "for its host; start with mpirun --bind-to none")

    @property
    def threads(self) -> int:
        """Threads that fit beside the other ranks of this host; 0 (all there are) for a process without peers."""
        return 0 if self.comm is None else max(1, int(self.share))

    @property
    def is_root(self) -> bool:
        """Whether this is rank 0, which prints and writes."""
        return self.rank == 0

    def on_root(self, function: Callable[[], Any]) -> Any:
        """Call ``function`` on rank 0; what it returns is returned, and what it raises is raised, on every rank."""
        if self.comm is None:
            return function()
        outcome: tuple[Any, BaseException | None] = (None, None)
        if self.is_root:
            try:
                outcome = function(), None
            except Exception as error:
                outcome = None, error
        result, failure = self.comm.bcast(outcome, root=0)
        if failure is not None:
            raise failure
        return result

    def same(self, what: str, value: str | bytes) -> None:
        """Raise LaunchError, on all ranks, unless all are given the same value of ``what`` (collective)."""
        if self.comm is None:
            return
        data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")
        digests = self.comm.allgather(hashlib.sha256(data).digest())
        self._closing()         # of failures that were caught
        other = next((rank for rank, digest in enumerate(digests) if digest != digests[0]), None)
        if other is not None:
            raise LaunchError(f"ranks 0 and {other} were given different {what}; all ranks must be given the same",
                              differ=True)

    def announce_closing(self) -> None:
        """On rank 0, after an exception and before it closes files, which may take long: the others wait for it."""
        if self.comm is not None and self.is_root:
            for rank in range(1, self.size):
                self.failing.isend(None, rank, CLOSING)

    def fail_together(self, seconds: float = GRACE_SECONDS) -> bool:
        """Whether all ranks call this within ``seconds``: then each may end in order, else the job must be aborted.

        Who has waited in vain is not in step with the others any more: the answer stays no.
        """
        if self.comm is None:
            return True
        if self._gave_up:
            return False
        request, deadline = self.failing.Ibarrier(), time.monotonic() + seconds
        while not request.Test():
            if self._closing():
                deadline = time.monotonic() + CLOSING_SECONDS
            if time.monotonic() > deadline:
                self._gave_up.append(request)
                return False
            time.sleep(0.01)
        return True

    def _closing(self) -> bool:
        """Whether rank 0 has said so since this was last asked."""
        said = False
        while not self.is_root and self.failing.Iprobe(source=0, tag=CLOSING):
            self.failing.recv(source=0, tag=CLOSING)
            said = True
        return said


def announced(environment: Mapping[str, str]) -> int | None:
    """How many ranks (at least) a launcher says it has started; None if there was no launcher, 0 if it does not say."""
    sizes = [int(environment[name]) for name in SIZES if environment.get(name, "").isdigit()]
    if sizes:
        return max(sizes)
    if not any(environment.get(name, "").isdigit() for name in RANKS):
        return None
    rank = launched_rank(environment)
    return 1 + rank if rank else 0


def launched_rank(environment: Mapping[str, str]) -> int:
    """Rank that a launcher has given this process, 0 if it does not say."""
    return max((int(environment[name]) for name in RANKS if environment.get(name, "").isdigit()), default=0)


@cache
def world() -> World:
    """The World of this process; asked for the first time, it starts MPI where there is a launcher (collective).

    Raises LaunchError if mpi4py is missing, or if its MPI does not see the peers that the launcher has started.
    """
    count = announced(os.environ)
    if "mpi4py.MPI" not in sys.modules:
        if count is None or count == 1:
            return World()
        if importlib.util.find_spec("mpi4py") is None:
            raise LaunchError(
                f"an MPI launcher has started {count or 'several'} processes, but mpi4py is not installed: each would "
                "run the whole deck. Install the extra 'mpi' (pip install 'ecsim[mpi]'), or start one process")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)     # mpi4py's own word on what check_peers explains
        from mpi4py import MPI

    comm = MPI.COMM_WORLD
    check_peers(count, comm.size, MPI.Get_library_version())
    if comm.size == 1:
        return World(mpi=_first_line(MPI.Get_library_version()))
    return _join(MPI, comm)


def check_peers(count: int | None, size: int, library: str) -> None:
    """Raise LaunchError if a launcher has started ``count`` ranks and mpi4py's MPI sees one."""
    if size == 1 and (count or 1) > 1:
        raise LaunchError(
            f"the launcher has started {count} processes, but mpi4py's MPI ({_first_line(library)}) sees one: they "
            "belong to different MPIs, and each would run the whole deck. Use the mpiexec of mpi4py's MPI (with the "
            f"'mpich' package: {os.path.join(os.path.dirname(sys.executable), 'mpiexec')}), or install an mpi4py "
            "that is built for the MPI of your mpirun (pip install --no-binary mpi4py mpi4py)")


def _join(MPI, comm) -> World:
    """The World of several ranks; an uncaught exception on one of them ends the job from now on."""
    host = comm.Split_type(MPI.COMM_TYPE_SHARED)
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    holders = host.allgather(mine)
    share = sum(1.0 / sum(cpu in others for others in holders) for cpu in mine)
    joined = World(comm, comm.rank, comm.size, host.rank, host.size, share, _first_line(MPI.Get_library_version()),
                   comm.Dup(), len(mine))
    host.Free()
    sys.excepthook = _end_the_job
    return joined


def _first_line(text: str) -> str:
    return " ".join(text.replace("\0", "").partition("\n")[0].replace("Version:", "").split())


def watch() -> None:
    """Where a launcher has started several processes, let an exception that one of them meets early end the job too.

    Without it the others would wait for that one for ever once they start MPI.
    """
    if announced(os.environ) not in (None, 1) and sys.excepthook is sys.__excepthook__:
        sys.excepthook = _end_early


def _end_early(kind, value, trace) -> None:
    """Before this rank has met the others: its traceback, and an end that launchers take for the end of the job."""
    if issubclass(kind, KeyboardInterrupt):
        return sys.__excepthook__(kind, value, trace)
    _print_last(f"rank {launched_rank(os.environ)}: {_traceback(kind, value, trace)}")
    MPI = sys.modules.get("mpi4py.MPI")
    if MPI is not None and MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.COMM_WORLD.Abort(1)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)   # an exit code does not impress all launchers before MPI is there
    os.kill(os.getpid(), signal.SIGTERM)


def _end_the_job(kind, value, trace) -> None:
    """Instead of the usual end of a process by an exception: its traceback once, and the end of all ranks."""
    fail(_traceback(kind, value, trace), 1)


def _traceback(kind, value, trace) -> str:
    return "".join(traceback.format_exception(kind, value, trace)).rstrip()


def fail(message: str, code: int) -> int:
    """Print ``message`` on stderr and return ``code``, once for the job if all ranks fail; else end the job with it."""
    try:
        here = world()
    except LaunchError:
        if launched_rank(os.environ):
            return code
        here = World()
    if here.comm is None:
        print(message, file=sys.stderr, flush=True)
    elif not here.fail_together():
        _print_last(f"rank {here.rank} of {here.size}: {message}")
        here.comm.Abort(code)
        os._exit(code)      # where it returns, as MPICH's may before the job has ended
    else:
        _tell_each(here, here.failing.gather(message, root=0))
    return code


def _tell_each(here: World, messages: list[str] | None) -> None:
    """On rank 0: its message, and those of other ranks that end otherwise (the same exception has other tracebacks)."""
    told: set[str] = set()
    for rank, message in enumerate(messages or []):
        last = message.rpartition("\n")[2]
        if last not in told:
            told.add(last)
            print(f"rank {rank} of {here.size}: {message}" if rank else message, file=sys.stderr, flush=True)


def _print_last(message: str) -> None:
    """Print on stderr, as far as that can be written, and wait until it is read."""
    with suppress(OSError, ValueError, AttributeError):
        print(message, file=sys.stderr, flush=True)
    _until_read(sys.stderr)


def _until_read(stream: Any, seconds: float = GRACE_SECONDS) -> None:
    """Wait until the launcher has read its pipe: what it has not read when the job is aborted is lost.

    Returns after ``seconds`` in any case, and at once for a stream that is not a pipe or not one of the system's.
    """
    try:
        import fcntl
        import termios

        pipe = stream.fileno()
        deadline = time.monotonic() + seconds
        while stat.S_ISFIFO(os.fstat(pipe).st_mode) and time.monotonic() < deadline:
            if not int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder):
                return
            time.sleep(0.01)
    except (ImportError, AttributeError, OSError, ValueError):
        return


def alone(function: Callable[[], int]) -> int:
    """Call ``function`` on rank 0 while the others wait; its exit code is everyone's."""
    try:
        here = world()
    except LaunchError as error:
        return fail(f"ecsim: {error}", 2)
    code = function() if here.is_root else 0
    return code if here.comm is None else here.comm.bcast(code, root=0)
