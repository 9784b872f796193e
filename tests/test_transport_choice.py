"""Which transport ranks with GPUs take: what stands against each, without a GPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ecsim.parallel import transport_cuda
from ecsim.parallel.transport import TransportError

pytest.importorskip("mpi4py", reason="mpi4py is not installed")


class Comm:
    """Two ranks of which the other has, in place of this one's, the GPU and the obstacles given."""

    size, rank = 2, 0

    def __init__(self, bus, **against) -> None:
        self.bus, self.against = bus, against

    def allgather(self, mine):
        (host, _), found = mine
        return [mine, ((host, self.bus), {**found, **self.against})]


@pytest.fixture
def choose(monkeypatch):
    """A choice where this rank has NCCL and an MPI that takes device pointers, or not."""
    taken = {name: (lambda comm, timer, xp, name=name: name) for name in ("nccl", "cuda-aware", "host")}
    for name, kind in (("nccl", "NcclTransport"), ("cuda-aware", "CudaAwareTransport"), ("host", "StagedTransport")):
        monkeypatch.setattr(transport_cuda, kind, taken[name])
    runtime = SimpleNamespace(deviceGetPCIBusId=lambda device: "bus 0")
    xp = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))

    def chosen(comm, wanted="auto", nccl=True, aware=True):
        monkeypatch.setattr(transport_cuda, "nccl_of", lambda xp: object() if nccl else None)
        monkeypatch.setattr(transport_cuda, "mpi_takes_device_pointers", lambda: aware)
        return transport_cuda.connect_devices(comm, None, xp, 0, wanted)

    return chosen


def test_the_fastest_that_all_ranks_have_is_taken(choose):
    assert choose(Comm("bus 1")) == "nccl"
    assert choose(Comm("bus 1"), nccl=False) == "cuda-aware"
    assert choose(Comm("bus 1"), nccl=False, aware=False) == "host"
    assert choose(Comm("bus 1", nccl="none there")) == "cuda-aware"
    assert choose(Comm("bus 1", nccl="none there", **{"cuda-aware": "not so there"})) == "host"


def test_ranks_that_share_a_gpu_do_without_nccl(choose):
    assert choose(Comm("bus 0")) == "cuda-aware"
    assert choose(Comm("bus 0"), aware=False) == "host"
    with pytest.raises(TransportError, match="several ranks share a GPU"):
        choose(Comm("bus 0"), "nccl")


@pytest.mark.parametrize(("wanted", "have", "text"), [
    ("nccl", {"nccl": False}, "CuPy finds no NCCL"),
    ("cuda-aware", {"aware": False}, "does not say that it is CUDA-aware")])
def test_what_is_asked_for_and_not_there_is_refused(choose, wanted, have, text):
    assert choose(Comm("bus 1"), wanted) == wanted
    with pytest.raises(TransportError, match=text):
        choose(Comm("bus 1"), wanted, **have)
    with pytest.raises(TransportError, match="only the other"):
        choose(Comm("bus 1", **{wanted: "only the other"}), wanted)
    assert choose(Comm("bus 1"), "host", nccl=False, aware=False) == "host"


def test_an_mpi_that_does_not_answer_is_not_cuda_aware(monkeypatch):
    monkeypatch.setattr(transport_cuda.ctypes, "CDLL", lambda path: SimpleNamespace())
    assert not transport_cuda.mpi_takes_device_pointers()
    for answer in (0, 1):
        library = SimpleNamespace(MPIX_Query_cuda_support=lambda answer=answer: answer)
        monkeypatch.setattr(transport_cuda.ctypes, "CDLL", lambda path, library=library: library)
        assert transport_cuda.mpi_takes_device_pointers() is bool(answer)
