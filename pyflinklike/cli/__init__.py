# SPDX-License-Identifier: Apache-2.0
"""The command line: `pyflinklike state ...` looks into savepoints.

entry                begins, and makes sentences and exit codes of errors
looking              what all commands have in common
commands, further    those that show, and those that compare and copy
sources, asking      opens what is looked into, and what is asked of it
saved, differing     a savepoint, and what differs between two
shapes, printing     values as JSON and as text; tables and lines
"""
