# SPDX-License-Identifier: Apache-2.0
"""Replicas of running queries: what is fetched of a checkpoint, and where a key lies in it."""
