# SPDX-License-Identifier: Apache-2.0
"""PyFlink's modules under PyFlink's names: for `pyflink.X` import `pyflinklike.pyflink.X`."""

from pyflinklike.pyflink._names import add_modules

add_modules()
