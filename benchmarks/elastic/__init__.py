"""What it costs that members come and go: ``python -m benchmarks.elastic``."""
