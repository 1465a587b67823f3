"""The pure part: values and rules, without input or output, clock or randomness."""
