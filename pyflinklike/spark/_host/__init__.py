# SPDX-License-Identifier: Apache-2.0
"""The code in Spark's tasks: the streaming hosts and the batch host."""
