//! What may be recorded of values.
