# SPDX-License-Identifier: Apache-2.0
"""The command line: `pyflinklike state ...` looks into checkpoints and savepoints.

A command asks a checkpoint or a savepoint, through one interface, `Answers`.  Spark reads a
checkpoint, Arrow alone a savepoint.  A command's modules, and Spark, are imported only when the
command is called, so that `--help` is fast and a savepoint needs no Java.
"""
