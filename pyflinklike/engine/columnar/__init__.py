# SPDX-License-Identifier: Apache-2.0
"""State and batches as columns."""
