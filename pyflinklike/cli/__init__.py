# SPDX-License-Identifier: Apache-2.0
"""The command line: `pyflinklike state ...` looks into checkpoints and savepoints.

A command asks questions of a checkpoint or of a savepoint, which answer the same ones.  Spark answers
for a checkpoint, Arrow alone for a savepoint.  A command's modules, and Spark, are imported only
when the command is called.
"""
