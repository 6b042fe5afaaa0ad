//! Rules on arguments that the gate cannot enforce.

use crate::config::{AllowDeny, Config, Step};
use crate::guard::CompiledConditions;

/// Tells `add` of each rule whose conditions the gate cannot tell, where what it cannot tell passes.
pub(super) fn not_enforced(config: &Config, add: &mut impl FnMut(Vec<Step>, &str)) {
    if config.enforcement.undecided != AllowDeny::Allow || config.policy.fail_closed {
        return;
    }
    for (path, rule) in config.tool_rules().filter(|(_, rule)| rule.has_conditions()) {
        if CompiledConditions::new(rule).is_ok_and(|conditions| !conditions.can_be_checked()) {
            let message = "the gate cannot tell this rule by the text of single arguments: a call that the rule denies \
                           passes, and is reported; with `enforcement.undecided: deny`, all calls that the rule decides \
                           about are stopped";
            add(path, message);
        }
    }
}
