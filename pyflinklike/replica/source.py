# SPDX-License-Identifier: Apache-2.0
"""Where a replica has its images from."""

from __future__ import annotations

from typing import Protocol

from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.replica.held import Route
from pyflinklike.replica.image import Image
from pyflinklike.types import TypeInformation

__all__ = ["Source"]


class Source(Protocol):
    """Reads what a host keeps of an operator."""

    def latest(self) -> Image:
        """All of the last micro-batch that was committed.

        Raises:
            HostError: The host cannot read it.
            CorruptStateError: It is damaged.
        """

    def after(self, image: Image) -> Image | None:
        """The image of the last micro-batch, by what was written since another; None if it is that.

        Raises:
            HostError: The host cannot read it, or no longer has what was written since.
            CorruptStateError: What was written does not follow the image.
        """

    def key_type(self, record: OperatorRecord) -> TypeInformation:
        """The type of an operator's keys, in the form that its function sees."""

    def route(self, record: OperatorRecord) -> Route:
        """Finds the keys of an operator."""
