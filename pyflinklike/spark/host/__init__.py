# SPDX-License-Identifier: Apache-2.0
"""What runs inside Spark's tasks: the streaming host and the batch host."""
