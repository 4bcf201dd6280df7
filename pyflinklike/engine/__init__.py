# SPDX-License-Identifier: Apache-2.0
"""How it is done: it knows neither Spark nor Kafka nor pandas, and nothing here is public."""
