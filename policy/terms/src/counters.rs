//! Counters: what happened so far, in numbers that only grow.

/// Defines a struct of counters once: its fields, and their names.
#[macro_export]
macro_rules! counters {
    ($struct:ident { $($(#[$doc:meta])* $name:ident,)* }) => {
        /// What happened so far, in numbers. They only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $struct {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl $struct {
            /// All of them by name, for `agent_stopped` and metrics.
            pub fn to_map(&self) -> std::collections::BTreeMap<String, u64> {
                [$((stringify!($name).to_owned(), self.$name),)*].into()
            }
        }
    };
}
