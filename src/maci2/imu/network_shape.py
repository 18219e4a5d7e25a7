"""What training and run time must agree on about the network's input."""

BLOCK = 9
"""Samples that share one correction and one variance."""

CONTEXT = 12
"""Samples that a block's features see before its first sample and after it: the look-ahead."""

RECEPTIVE_FIELD = 2 * CONTEXT + 1
"""Samples that one block's features are made from, without the GRU's memory."""
