# SPDX-License-Identifier: Apache-2.0
"""State of checkpoints as DataFrames: which operator at which batch, the jobs, and what users call."""
