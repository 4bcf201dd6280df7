# SPDX-License-Identifier: Apache-2.0
"""Savepoints as directories of Parquet files, which any tool reads without Spark or Java."""
