# SPDX-License-Identifier: Apache-2.0
"""Replicas of running queries, read from their checkpoints."""
