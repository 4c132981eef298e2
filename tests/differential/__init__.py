"""A differential fuzzer over the whole language: see CONTRIBUTING.md."""
