"""Reading an HDF5 file that may be damaged, and may carry the mark of an open writer: its run goes on, or was killed.

HDF5's own way, ``swmr=True``, takes damage for what is just being written and waits for its end without end. Here HDF5
is shown the file without the mark, so that what does not fit its checksum is an error at once. Its heaps of texts have
no checksum, and some damage there sends HDF5 round in circles: they are looked at before it gets them.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

SIGNATURE = b"\x89HDF\r\n\x1a\n"
HEAP = b"GCOL\1\0\0\0"
FLAGS, END, SUM, SIZE = 11, slice(28, 36), slice(44, 48), 48


def has_writer(path: Path) -> bool:
    """Whether HDF5's mark of an open writer is in the superblock."""
    with open(path, "rb") as file:
        head = file.read(FLAGS + 1)
    return len(head) == FLAGS + 1 and bool(head[FLAGS])


class Unmarked(io.RawIOBase):
    """A file for HDF5 to read; a marked one as if it had been closed at this moment, with an end where it ends now.

    Raises OSError if the superblock of a marked file is damaged, or no such as ecsim writes.
    """

    def __init__(self, path: Path) -> None:
        self._place, self._handle = 0, os.open(path, os.O_RDONLY)
        try:
            self._end = os.fstat(self._handle).st_size
            head = os.pread(self._handle, SIZE, 0)
            self._head = _unmarked(head, self._end) if len(head) > FLAGS and head[FLAGS] else head
        except OSError:
            self.close()
            raise

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a byte; returns which."""
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._end}[whence]
        return self._place

    def tell(self) -> int:
        """At which byte the next read begins."""
        return self._place

    def readinto(self, buffer) -> int:
        """Fill a buffer from here; raises OSError where the file is too short by now, or a heap damaged."""
        view, done = memoryview(buffer).cast("B"), 0
        if self._place >= self._end:
            raise OSError("it refers to what lies behind its end")
        while done < len(view):
            got = os.preadv(self._handle, [view[done:]], self._place + done)
            if not got:
                raise OSError("the file ends too early")
            done += got
        if self._place < SIZE:
            head = self._head[self._place:self._place + done]
            view[:len(head)] = head
        at = (content := view.tobytes()).find(HEAP)
        while at >= 0:
            self._check_heap(self._place + at)
            at = content.find(HEAP, at + 1)
        self._place += done
        return done

    def _check_heap(self, place: int) -> None:
        """Raise OSError unless the objects of a heap follow each other up to its end."""
        size = int.from_bytes(os.pread(self._handle, 8, place + 8), "little")
        heap, at = os.pread(self._handle, min(size, self._end), place), 16
        while at + 16 <= len(heap):
            number, length = int.from_bytes(heap[at:at + 2], "little"), int.from_bytes(heap[at + 8:at + 16], "little")
            at += 16 + (length + 7) // 8 * 8 if number else max(length, 1)
            if at > size or not (number or length):
                break
        else:
            if len(heap) == size:
                return
        raise OSError("a heap of texts is damaged")

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            os.close(self._handle)
        super().close()


def _unmarked(head: bytes, end: int) -> bytes:
    """The superblock without the mark and with another end. Raises OSError if it is damaged."""
    if len(head) < SIZE or not head.startswith(SIGNATURE) or checksum(head[:SUM.start]) != head[SUM]:
        raise OSError("its superblock is damaged")
    new = bytearray(head)
    new[FLAGS], new[END] = 0, end.to_bytes(8, "little")
    new[SUM] = checksum(new[:SUM.start])
    return bytes(new)


def checksum(data: bytes | bytearray) -> bytes:
    """HDF5's checksum of metadata, Jenkins' lookup3, of at least one byte."""

    def turned(value: int, bits: int) -> int:
        """A word of 32 bits rotated to the left."""
        return (value << bits | value >> 32 - bits) & 0xFFFFFFFF

    state = [(0xDEADBEEF + len(data)) & 0xFFFFFFFF] * 3
    for begin in range(0, len(data), 12):
        block = data[begin:begin + 12].ljust(12, b"\0")
        state = [(s + int.from_bytes(block[k:k + 4], "little")) & 0xFFFFFFFF
                 for s, k in zip(state, (0, 4, 8), strict=True)]
        if begin + 12 < len(data):                      # between blocks: mix
            for k, bits in enumerate((4, 6, 8, 16, 19, 4)):
                a, b, c = k % 3, (k + 1) % 3, (k + 2) % 3
                state[a] = (state[a] - state[c]) & 0xFFFFFFFF ^ turned(state[c], bits)
                state[c] = (state[c] + state[b]) & 0xFFFFFFFF
    for k, bits in enumerate((14, 11, 25, 16, 4, 14, 24)):   # after the last: final mix
        c, b = (2 + k) % 3, (1 + k) % 3
        state[c] = ((state[c] ^ state[b]) - turned(state[b], bits)) & 0xFFFFFFFF
    return state[2].to_bytes(4, "little")
