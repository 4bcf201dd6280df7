# SPDX-License-Identifier: Apache-2.0
"""How a key group is made durable: as a log of segments, of which savepoints consist, too.

A host keeps the log (`storage`); a worker keeps the state after it (`working_state`).
"""
