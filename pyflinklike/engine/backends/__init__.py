# SPDX-License-Identifier: Apache-2.0
"""State backends: where the working state of an operator lives."""
