"""Ranks that end: in which order a message is read and the job aborted, and who waits for whom."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from ecsim.arrays import fingerprint
from ecsim.output.hold import Hold
from ecsim.output.rundir import create_run_directory, read_deck_text
from ecsim.parallel import launch


@contextmanager
def stderr_unread(monkeypatch):
    """stderr as a pipe that nobody reads yet; its reading end."""
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        yield read
        monkeypatch.undo()
    os.close(read)


def read_later(read, seconds, events):
    def look():
        time.sleep(seconds)
        events.append(os.read(read, 1000).decode())

    threading.Thread(target=look).start()


def test_a_job_is_aborted_only_when_its_message_has_been_read_and_does_not_go_on(monkeypatch):
    events = []
    comm = SimpleNamespace(Abort=lambda code: events.append(("abort", code)))
    world = SimpleNamespace(comm=comm, rank=1, size=2, is_root=False, fail_together=lambda: False)
    monkeypatch.setattr(launch, "world", lambda: world)
    monkeypatch.setattr(os, "_exit", lambda code: events.append(("exit", code)))
    with stderr_unread(monkeypatch) as read:
        read_later(read, 0.3, events)
        launch.fail("the last words", 3)
    assert events == ["rank 1 of 2: the last words\n", ("abort", 3), ("exit", 3)]


def test_nobody_waits_for_ever_for_a_reader(monkeypatch):
    with stderr_unread(monkeypatch):
        sys.stderr.write("unread")
        sys.stderr.flush()
        begun = time.monotonic()
        launch._until_read(sys.stderr, seconds=0.2)
    assert 0.2 <= time.monotonic() - begun < 2.0


def test_a_file_and_a_closed_stream_are_not_waited_for(tmp_path):
    with open(tmp_path / "log", "w") as file:
        file.write("text")
        file.flush()
        begun = time.monotonic()
        launch._until_read(file)
    launch._until_read(file)
    launch._until_read(None)
    assert time.monotonic() - begun < 1.0


class Failing:
    """A communicator on which the others arrive after so many looks, and rank 0 may say that it is closing."""

    def __init__(self, arrives_after, says_closing=False) -> None:
        self.looks, self.arrives_after, self.says_closing, self.barriers = 0, arrives_after, says_closing, 0

    def Ibarrier(self):
        self.barriers += 1
        return SimpleNamespace(Test=self._look)

    def _look(self):
        self.looks += 1
        return self.looks > self.arrives_after

    def Iprobe(self, source, tag):
        return self.says_closing

    def recv(self, source, tag):
        self.says_closing = False


def of_two(failing):
    return launch.World(comm=object(), rank=1, size=2, failing=failing)


def test_ranks_wait_longer_for_rank_0_once_it_says_that_it_is_closing():
    assert not of_two(Failing(20)).fail_together(0.05)
    assert of_two(Failing(20, says_closing=True)).fail_together(0.05)


def test_who_has_given_up_once_is_out_of_step_for_good():
    """What it waited for may complete later, and is then no sign that all fail now."""
    failing = Failing(1_000)
    here = of_two(failing)
    assert not here.fail_together(0.05)
    failing.arrives_after = 0
    assert not here.fail_together(10.0) and failing.barriers == 1


@pytest.mark.parametrize("digests", [["a", "b"], ["a", "a", "b"]])
def test_other_values_on_other_ranks_are_named(digests):
    comm = SimpleNamespace(allgather=lambda mine: digests)
    with pytest.raises(launch.LaunchError, match=f"ranks 0 and {len(digests) - 1} were given different decks"):
        launch.World(comm=comm, size=len(digests), failing=Failing(0)).same("decks", "text")


def test_a_fingerprint_sees_every_value_and_its_place():
    one = {"name": "ions", "x": np.arange(6.0).reshape(3, 2), "q": 1.0}
    others = [{**one, "name": "ion"}, {**one, "q": 2.0}, {**one, "x": one["x"].reshape(2, 3)},
              {**one, "x": one["x"] + 0.1}, {**one, "x": one["x"].astype(np.float32)}, {**one, "x": np.empty((0, 2))}]
    assert fingerprint([one]) == fingerprint([{**one, "x": one["x"].copy()}])
    assert len({fingerprint([given]) for given in [one, *others]}) == 7


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("wrote", [True, False])
def test_a_rank_that_fails_alone_clears_only_the_directory_that_rank_0_has_taken(tmp_path, same, wrote):
    """The same path may be another directory on its host, with an earlier run in it."""
    rank_0, rank_1 = Hold(), Hold()
    here = tmp_path / "here" / "run"
    taken = rank_0.take(here)
    rank_0.create("text = 1\n")
    there = here if same else tmp_path / "there" / "run"
    if not same:
        create_run_directory(there, "text = 2\n")
        (there / "notes.txt").write_text("mine")
    rank_1.stand_by(there, (taken[0] if same else [there], taken[1]), wrote)
    rank_1.abandon_on_all(SimpleNamespace(announce_closing=lambda: None, fail_together=lambda: False))
    if same:
        assert not any(tmp_path.iterdir())
    else:
        assert read_deck_text(there).endswith("text = 2\n") and (there / "notes.txt").exists()
        assert read_deck_text(here).endswith("text = 1\n")
