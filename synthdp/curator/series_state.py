"""The private files of a series of releases: exact sums, and noise that is on the disk before anyone is told.

The files are readable by their owner alone, and deleted after the last period.  `Journal` draws the noise on a lattice
that all periods of a plan share.  On the curator's side only.

Every record is written completely or not at all, and reaches the disk before the program continues.  With a key it is
encrypted.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from synthdp.arrays import NO_ARRAYS, AnyArray, IntArray, packed
from synthdp.curator.guarded_table import Answering
from synthdp.errors import DataError, FormatError, ParameterError, PrivacyError
from synthdp.files import sync_folder
from synthdp.measurements import Noise, NoiseLaw
from synthdp.privacy import noise
from synthdp.privacy.accounting import discrete_gaussian_sigma
from synthdp.privacy.calibration import FINEST, LEAST_SIGMA, Calibration, calibrate
from synthdp.privacy.loss import GaussianDP, PrivacyLoss
from synthdp.privacy.neighbors import Adjacency
from synthdp.queries.norms import Norms, root_up
from synthdp.queries.protocol import KeyStatistic, LinearQueries, Statistic, about_keys

WARNING = "PRIVATE: exact sums of private rows. Publish nothing of this folder; it is deleted after the last period.\n"
"""A warning in the folder of private files to whoever opens it."""

README, LOCK, SUFFIX = "PRIVATE.txt", "lock", ".private"
"""Names of the warning file and the lock file in the folder, and the suffix of the record files."""

_SEALED, _NONCE, _MAC = b"synthdp sealed 1\n", 16, 32
"""First bytes that mark an encrypted record, and lengths in bytes of its nonce and of its authentication code.  A
convention of the files."""


class PrivateState:
    """Named records of arrays on disk, in a folder that only its owner can read; they outlive the process.

    The folder stays on the curator's side.

    Parameters
    ----------
    folder
        Made when first written to.
    key
        A secret of at least 16 bytes that the records are encrypted with; ``None`` for none.
    """

    __slots__ = ("_key", "folder")

    def __init__(self, folder: Path, *, key: bytes | None = None) -> None:
        self.folder = folder
        self._key = None if key is None else hashlib.sha256(b"synthdp series" + key).digest()

    def has(self, name: str) -> bool:
        """Return whether a record of this name exists."""
        return self._path(name).is_file()

    def names(self, start: str) -> list[str]:
        """Return the sorted names of all records that begin with ``start``, such as the records of all periods."""
        return sorted(path.name.removesuffix(SUFFIX) for path in self.folder.glob(f"{start}*{SUFFIX}"))

    def read(self, name: str, *, starting: str = "") -> dict[str, AnyArray]:
        """Return a record as arrays by name; only the arrays whose names begin with ``starting``.

        The record stays on the curator's side.

        Raises
        ------
        FormatError
            If it is not there, was changed, or is encrypted with another key.
        """
        try:
            sealed = self._path(name).read_bytes()
        except OSError as error:
            raise FormatError(
                f"the series' private file '{self._path(name)}' cannot be read ({error.strerror}): "
                "restore the series' folder from a copy, or start a new series"
            ) from None
        try:
            with np.load(io.BytesIO(self._opened(sealed)), allow_pickle=False) as arrays:
                return {one: arrays[one] for one in arrays.files if one.startswith(starting)}
        except (*NO_ARRAYS, zipfile.BadZipFile):
            raise FormatError(
                "a record of the series' private state is damaged: restore the folder from a copy"
            ) from None

    def write(self, name: str, arrays: Mapping[str, AnyArray]) -> None:
        """Write a record of arrays whole or not at all, and wait until it is on the disk.

        A noisy answer must be on disk before it is told, or a crash would make fresh noise necessary.

        Raises
        ------
        DataError
            If it cannot be written.
        """
        content = packed(arrays, compressed=False)
        path = self._path(name)
        part = path.with_suffix(".part")
        try:
            self._make()
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(self._closed(content))
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
            sync_folder(self.folder)
        except OSError as error:
            raise DataError(
                f"the private state of the series cannot be written ({error.strerror}): check the "
                "permissions of the series' folder"
            ) from None

    def drop(self, name: str) -> None:
        """Delete a record that is not needed any more."""
        with contextlib.suppress(OSError):
            self._path(name).unlink()

    def forget(self) -> None:
        """Delete the folder and all records."""
        for path in sorted(self.folder.glob("*")):
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a file lock while a period is added, so that two processes cannot.

        Without file locks in the system, do nothing.

        Raises
        ------
        DataError
            If another process adds a period, or the folder cannot be written.
        """
        try:
            self._make()
            handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise DataError(
                f"the private state of the series cannot be written ({error.strerror}): check the "
                "permissions of the series' folder"
            ) from None
        try:
            _lock(handle)
            yield
        finally:
            os.close(handle)

    def _make(self) -> None:
        """Make the folder, readable by its owner only, with a warning file in it."""
        if not self.folder.is_dir():
            self.folder.mkdir(mode=0o700, parents=True)
            (self.folder / README).write_text(WARNING)
            (self.folder / README).chmod(0o600)

    def _path(self, name: str) -> Path:
        """Return the path of a record's file."""
        return self.folder / f"{name}{SUFFIX}"

    def _closed(self, content: bytes) -> bytes:
        """Return a record's bytes encrypted (XOR with a SHAKE-256 stream) and authenticated (HMAC).

        Unchanged without a key.
        """
        if self._key is None:
            return content
        nonce = os.urandom(_NONCE)
        hidden = _xored(content, self._key, nonce)
        return _SEALED + nonce + hmac.digest(self._key, nonce + hidden, "sha256") + hidden

    def _opened(self, content: bytes) -> bytes:
        """Return a record's decrypted bytes; raise FormatError if the key is wrong or the bytes were changed.

        Without a key bytes are returned as they are, but encrypted ones are refused.
        """
        if self._key is None:
            if content.startswith(_SEALED):
                raise FormatError(
                    "the private state of the series is encrypted: give the key with which the series was started"
                )
            return content
        start = len(_SEALED)
        nonce, rest = content[start : start + _NONCE], content[start + _NONCE :]
        mac, hidden = rest[:_MAC], rest[_MAC:]
        if not content.startswith(_SEALED) or not hmac.compare_digest(
            mac, hmac.digest(self._key, nonce + hidden, "sha256")
        ):
            raise FormatError(
                "key does not fit the private state of the series: give the key with which the series was started"
            )
        return _xored(hidden, self._key, nonce)


def _xored(content: bytes, key: bytes, nonce: bytes) -> bytes:
    """Return bytes XORed with a SHAKE-256 stream of key and nonce; the same call encrypts and decrypts."""
    stream = hashlib.shake_256(b"stream" + key + nonce).digest(len(content))
    return bytes(np.frombuffer(content, np.uint8) ^ np.frombuffer(stream, np.uint8))


def _lock(handle: int) -> None:
    """Lock a file for this process; raise DataError if another process has it.

    On a system without such locks, do nothing.
    """
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise DataError(
            "another process is adding a period to this series: wait until that process has ended"
        ) from None


class Journal(Answering):
    """Write every noisy answer of a series to disk before it is returned, and return it again after a crash.

    Fresh noise for a question asked again would cost the budget twice.

    Parameters
    ----------
    state
        The private files.
    secret
        Key of the hash by which a question that is asked again is recognised.
    prefix
        Beginning of the names of the answers' files; the question's number follows.
    factor
        (periods of the plan, periods of the plan) whole weights of periods in each answer; see `SeriesRoom.open_plan`.
    weight
        Number of times that each row counts.
    """

    __slots__ = ("_count", "_factor", "_prefix", "_secret", "_state", "_weight")

    def __init__(self, state: PrivateState, secret: bytes, prefix: str, *, factor: IntArray, weight: int) -> None:
        self._state, self._secret, self._prefix = state, secret, prefix
        self._factor, self._weight, self._count = factor, weight, 0

    def plan(
        self, queries: Statistic | KeyStatistic, loss: PrivacyLoss, *, adjacency: Adjacency, law: NoiseLaw | None
    ) -> Calibration:
        """Return the noise of a statistic for a budget in Gaussian DP.

        Sums over rows are asked again in later periods.  Their noise lies on one integer lattice of all periods, so
        sums are multiplied by a multiple of the factor's first entry.  A statistic that is asked once gets less noise
        for the same cost.  ParameterError is raised for another budget or law, and for record keys.
        """
        if not isinstance(loss, GaussianDP) or about_keys(queries) or law not in (None, NoiseLaw.GAUSSIAN):
            raise ParameterError(
                "a series takes only queries about declared columns, with Gaussian noise and a loss that is given as "
                "GaussianDP"
            )
        norms = adjacency.sensitivity(queries).times(self._weight)
        if isinstance(queries, LinearQueries):
            return lattice(norms, loss.mu, queries.k, int(self._factor[0, 0]))
        # asked once: it costs no unit more than a question of the same loss that is asked in every period
        column = math.sqrt(int((self._factor[:, 0] ** 2).sum())) / int(self._factor[0, 0])
        return calibrate(norms, GaussianDP(loss.mu * column), k=queries.k)

    def allow_others(self) -> None:
        """Raise PrivacyError: a series can only measure statistics, because only their noise can be shared by periods."""
        raise PrivacyError(
            "a series can measure sums over rows only: ask this question with a Curator outside the series"
        )

    def noised(self, plan: Calibration, exact: IntArray) -> IntArray:
        """Return exact integer sums, (k,), multiplied by the plan's resolution, with noise, after writing them to disk.

        If the question was answered before a crash, the noisy answer on disk is returned.

        Costs the loss of the plan, once.
        """
        name = f"{self._prefix}{self._count:06}"
        self._count += 1
        tag = np.frombuffer(hmac.digest(self._secret, repr(plan).encode() + exact.tobytes(), "sha256"), np.uint8)
        if self._state.has(name):
            told = self._state.read(name)
            if not np.array_equal(told["tag"], tag):
                raise PrivacyError(
                    "an interrupted attempt to add this period asked other questions: add the period with the same "
                    "version of synthdp and the same settings"
                )
            return np.asarray(told["noisy"], np.int64)
        linear = isinstance(plan, RepeatedNoise)
        inside = clipped(exact, self._factor, plan.resolution // int(self._factor[0, 0])) if linear else exact
        noisy = plan.noised(inside)
        self._state.write(name, {
            "tag": tag, "exact": exact if linear else np.zeros(0, np.int64), "noisy": noisy, "linear": np.array(linear),
            "resolution": np.array(plan.resolution), "sigma": np.array(plan.noise.scale),
            "moves": np.array(plan.resolution * plan.sensitivity),
        })  # fmt: skip
        return noisy


class RepeatedNoise(Calibration):
    """The noise of sums that are asked again in every period of a series; a separate type from sums asked once."""

    __slots__ = ()


def lattice(norms: Norms, mu: float, k: int, first: int) -> RepeatedNoise:
    """Return Gaussian noise of ``k`` sums for a budget ``mu``; sums are multiplied by its ``resolution`` before noise.

    The resolution is a multiple of ``first``, the first entry of the series' factor.  So the weighted sums of later
    periods are whole numbers too, and integer noise of one scale suits all periods.  ``norms`` bound a unit's change of
    the sums.
    """
    l2 = root_up(norms.l2_squared)
    wanted = min(max(LEAST_SIGMA * mu / l2, 1.0), float(FINEST))
    resolution = first * max(1, math.ceil(wanted / first))
    sigma = max(float(LEAST_SIGMA), discrete_gaussian_sigma(resolution * l2, mu=mu))
    if sigma > noise.LARGEST_SCALE:
        raise ParameterError(
            f"a loss of mu = {mu:.3g} needs more noise than can be drawn (a scale above 2**53): spend more budget, or lower "
            "max_rows_per_unit or the resolution of the query"
        )
    return RepeatedNoise(Noise(law=NoiseLaw.GAUSSIAN, scale=sigma, k=k), resolution, l2)


def clipped(sums: IntArray, factor: IntArray, multiplier: int) -> IntArray:
    """Return sums, (k,), clipped so that their later weighted sums stay within `noise.LARGEST_VALUE`.

    Weighted sums have the weights of a row of ``factor`` and are multiplied by ``multiplier``.  The bound depends on
    ``factor`` and ``multiplier`` only, so that all periods are clipped alike.
    """
    most = noise.LARGEST_VALUE // (multiplier * int(np.abs(factor).sum(axis=1).max()))
    return np.clip(sums, -most, most)
