"""Networks by seven methods: step sizes chosen on a validation split, then accuracy on a test."""
