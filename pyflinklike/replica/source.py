# SPDX-License-Identifier: Apache-2.0
"""The protocol of what gives a replica its images."""

from __future__ import annotations

from typing import Protocol

from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.replica.held import Route
from pyflinklike.replica.image import Image
from pyflinklike.types import TypeInformation

__all__ = ["Source"]


class Source(Protocol):
    """Reads the stored state of one operator from a host."""

    def latest(self) -> Image:
        """Read the image of the last committed micro-batch.

        Raises:
            HostError: The host cannot read it.
            CorruptStateError: The stored state is damaged.
        """

    def after(self, image: Image) -> Image | None:
        """Make the image of the last micro-batch from an earlier image; None if that is the last.

        Raises:
            HostError: The host cannot read the writes since the image, or no longer has them.
            CorruptStateError: The writes do not follow the image.
        """

    def key_type(self, record: OperatorRecord) -> TypeInformation:
        """Return the type of an operator's keys, in the form that its function sees."""

    def route(self, record: OperatorRecord) -> Route:
        """Return the function that finds the keys of an operator."""
