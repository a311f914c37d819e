"""Versions on a receipt."""

from importlib.metadata import version

from synthdp.privacy.noise import noise_versions, version_of


def test_a_receipt_names_the_versions_that_are_installed() -> None:
    assert dict(noise_versions())["opendp"] == version("opendp")


def test_a_package_that_is_not_there_is_called_so() -> None:
    assert version_of("no-package-of-this-name") == "not installed"
