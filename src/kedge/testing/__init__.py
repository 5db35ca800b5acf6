"""What tests need, shipped to users: conformance kits for what they may replace, and a simulated world."""
