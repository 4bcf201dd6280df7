# SPDX-License-Identifier: Apache-2.0
"""Savepoints on Spark: taken from a checkpoint, edited, written, and the start of a query."""
