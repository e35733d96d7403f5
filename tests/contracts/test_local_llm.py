"""The demo model's weights: absent, missing or changed, the operator is told and nothing starts."""

import hashlib
from pathlib import Path

import pytest

from core.domain.errors import Misconfigured
from core.providers.local_llm import check_weights, find_weights


def test_without_the_packages_the_operator_is_told_what_to_install() -> None:
    with pytest.raises(Misconfigured) as caught:
        find_weights(package="no_such_package_of_weights")
    assert "requirements-llm.lock" in str(caught.value)


def test_a_package_without_the_weights_is_refused() -> None:
    with pytest.raises(Misconfigured, match=r"weights missing|not installed"):
        find_weights(package="json")


def test_changed_weights_are_refused(tmp_path: Path) -> None:
    weights = tmp_path / "weights.gguf"
    weights.write_bytes(b"good")
    right = hashlib.sha256(b"good").hexdigest()
    check_weights(weights, right)
    weights.write_bytes(b"evil")
    with pytest.raises(Misconfigured, match="weights changed"):
        check_weights(weights, right)
