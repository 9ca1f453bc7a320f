"""The vocabulary of causality: values and their rules, no policy and no IO."""
