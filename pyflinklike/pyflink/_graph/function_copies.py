# SPDX-License-Identifier: Apache-2.0
"""Functions as they are when a program declares them, whatever it changes afterwards.

PyFlink pickles a function when it is declared, with all that it refers to.  So a lambda of a loop
keeps the value that the loop's variable has then, and a function that appends to a list of the
program appends to its own copy.  Functions are captured here, too, whichever host runs the job.
"""

from __future__ import annotations

from typing import TypeVar

import cloudpickle

from pyflinklike._messages import short_repr, shown_error
from pyflinklike.errors import DeclarationTypeError

__all__ = ["copy_function", "own_copy"]

F = TypeVar("F")


def copy_function(function: F) -> F:
    """Return a function with copies of all that it refers to.

    Raises:
        DeclarationTypeError: The function refers to something that cannot be pickled.
    """
    try:
        return own_copy(function)
    except Exception as error:
        msg = (
            "a function must be one that cloudpickle can write, with all that it refers to, got "
            f"{short_repr(function)}: {shown_error(error)}; make connections, locks and files in open()"
        )
        raise DeclarationTypeError(msg) from error


def own_copy(function: F) -> F:
    """Return a copy, since each parallel instance has its own."""
    # cloudpickle writes functions of the main program and lambdas by value, which pickle cannot.
    copy: F = cloudpickle.loads(cloudpickle.dumps(function))
    return copy
