"""Groups of real processes beside a raw mesh and ZeroMQ (``python -m benchmarks.mesh``)."""
