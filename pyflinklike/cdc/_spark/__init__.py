# SPDX-License-Identifier: Apache-2.0
"""Debezium's records as DataFrames."""
