//! Nothing but its test: the events of mcpwarden as OCSF, read back by types that are generated from the OCSF schema.
