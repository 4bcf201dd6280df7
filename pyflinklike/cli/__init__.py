# SPDX-License-Identifier: Apache-2.0
"""The command line: `pyflinklike state ...` looks into checkpoints and savepoints.

entry                 begins, and makes sentences and exit codes of errors
looking               what all commands have in common
commands, further     those that show, and those that compare and copy
serving               the one that answers over HTTP
sources               what is looked into, and what both kinds of it have in common
checkpoints, saved    the two kinds
frames, files         what the one asks of Spark; what both write
sessions              Spark for a command
shapes, printing      values as JSON and as text; tables and lines
"""
