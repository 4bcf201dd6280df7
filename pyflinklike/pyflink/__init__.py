# SPDX-License-Identifier: Apache-2.0
"""PyFlink's modules under PyFlink's names: `pyflink.X` is `pyflinklike.pyflink.X` here."""
