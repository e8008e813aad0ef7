//! The least a static program can do for the same job: what `scripts/bench` measures against.

fn main() {}
