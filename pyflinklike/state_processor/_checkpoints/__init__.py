# SPDX-License-Identifier: Apache-2.0
"""State of checkpoints as DataFrames."""
