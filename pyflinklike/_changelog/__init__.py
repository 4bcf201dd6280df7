# SPDX-License-Identifier: Apache-2.0
"""The log of a key group: segments and a head, which make its state durable.

A host keeps the log; a worker keeps the working state that the log leads to.  A savepoint consists of segments, too.
"""
