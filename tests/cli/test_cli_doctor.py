"""What `synthdp doctor` tests beside the noise: each check passes here, and fails where it must."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from synthdp.cli.security_checks import OPENDP_FAULTS, file_system_check, modes_check, opendp_check, security_checks
from synthdp.privacy.noise import version_of


def test_this_installation_passes(tmp_path: Path) -> None:
    checks = {check.name: check for check in security_checks(tmp_path, opendp=version_of("opendp"))}
    assert set(checks) == {"entropy source", "OpenDP", "loopback", "file modes", "file system", "ledger"}
    assert {name for name, check in checks.items() if not check.passed} <= {"file system"}  # a scratch folder in memory
    assert list(tmp_path.iterdir()) == []


def test_a_version_with_a_known_fault_fails() -> None:
    assert [opendp_check(version).passed for version in (*OPENDP_FAULTS, "0.16.0")] == [False] * len(OPENDP_FAULTS) + [
        True
    ]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_a_folder_that_everybody_may_write_fails(tmp_path: Path) -> None:
    for mode, passes in ((0o700, True), (0o755, True), (0o777, False), (0o1777, True)):
        tmp_path.chmod(mode)
        assert modes_check(tmp_path).passed is passes
    tmp_path.chmod(0o700)
    assert not modes_check(tmp_path / "none").passed


@pytest.mark.parametrize(("kind", "passes"), [("ext4", True), ("nfs4", False), ("tmpfs", False), ("cifs", False)])
def test_the_file_system_of_the_longest_mount_point_counts(tmp_path: Path, kind: str, passes: bool) -> None:
    mounts, folder = tmp_path / "mounts", tmp_path / "my ledgers"
    folder.mkdir()
    place = str(folder.resolve()).replace(" ", "\\040")
    mounts.write_text(f"proc / proc rw 0 0\nx {place} {kind} rw 0 0\n/dev/sda {tmp_path.resolve()} ext3 rw 0 0\n")
    found = file_system_check(folder / "deeper", str(mounts))
    assert (found.passed, kind in found.detail) == (passes, True)


def test_a_folder_without_room_for_a_ledger_fails(tmp_path: Path) -> None:
    checks = {check.name: check.passed for check in security_checks(tmp_path / "none", opendp="0.16.0")}
    assert not checks["ledger"]
