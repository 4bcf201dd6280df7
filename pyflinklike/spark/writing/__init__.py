# SPDX-License-Identifier: Apache-2.0
"""Savepoints as directories: taken from a checkpoint, and begun with, by the executors."""
