//! What is said of a message, once its method and a name are known or it ends.

use super::{
    ARGUMENT, ARGUMENT_KEY, ASKED, ASKED_TWICE, DEFERRED, Decision, HASH_START, KEY, LOCATED,
    LONG_NAME_BYTES, METHOD, Marks, NAME, NAMED, NOWHERE, OUTSIDE, PARAM_KEY, SILENT, Scan, URI,
};
use crate::outcome::{CONDITIONAL, DENY};
use crate::table::{
    CLASS_AS_PROMPT, CLASS_AS_TOOL, METHOD_OTHER, METHOD_PROMPT, METHOD_RESOURCE, METHOD_TOOL, METHODS,
    Subject, View,
};

impl Scan {
    /// A string that is read for something has ended.
    #[inline(always)]
    pub(super) fn close(&mut self, table: &View<'_>, subject: &Subject, marks: &Marks) -> Decision {
        self.mode = OUTSIDE;
        let end = table.end(self.state, CLASS_AS_TOOL);
        match self.reads {
            KEY => self.key = end as u8,
            PARAM_KEY => self.close_param_key(end, subject),
            METHOD => return self.close_method(end, subject, marks),
            ARGUMENT_KEY => self.close_argument_key(end, table),
            ARGUMENT => return self.close_argument(end, table, subject, marks),
            NAME | URI => return self.close_name(end, table, subject, marks),
            _ => {}
        }
        SILENT
    }

    #[inline(always)]
    pub(super) fn close_method(&mut self, method: u16, subject: &Subject, marks: &Marks) -> Decision {
        if self.flags & ASKED != 0 {
            self.flags |= ASKED_TWICE;
        }
        self.flags |= ASKED;
        let method = method & (METHODS as u16 - 1);
        self.methods |= 1 << method;
        let any = subject.any[method as usize & (METHODS - 1)];
        let is_call = method == METHOD_TOOL && self.flags & NAMED != 0;
        if any != 0 {
            return Decision { outcome: any, place: marks.method, is_call, ..SILENT };
        }
        let outcome = match method {
            METHOD_TOOL => self.tool,
            METHOD_PROMPT => self.prompt,
            METHOD_RESOURCE => self.resource,
            METHOD_OTHER.. => 0,
        };
        // Of several names only the last could be neutralized here, and a reader may take another.
        let place = if self.named_twice != 0 { NOWHERE } else { self.place(marks) };
        if outcome & CONDITIONAL != 0 {
            return self.defer(subject, marks);
        }
        Decision { outcome, place, is_call, ..SILENT }
    }

    #[inline(always)]
    fn close_name(&mut self, end: u16, table: &View<'_>, subject: &Subject, marks: &Marks) -> Decision {
        let unknown = self.stale != 0 || self.length > LONG_NAME_BYTES;
        let [_, long_tool, long_prompt, long_resource] = subject.long;
        let (mut outcome, mut is_call) = (0, false);
        if self.flags & (NAMED | LOCATED) != 0 {
            self.named_twice = 1;
        }
        if self.reads == URI {
            let end = if unknown { long_resource } else { end };
            self.resource = self.with_another(LOCATED, self.resource, end, long_resource);
            self.flags |= LOCATED;
            if self.methods & 1 << METHOD_RESOURCE != 0 {
                outcome = end;
            }
        } else {
            let end = if unknown { long_tool } else { end };
            let prompt = if unknown { long_prompt } else { table.end(self.state, CLASS_AS_PROMPT) };
            self.tool = self.with_another(NAMED, self.tool, end, long_tool);
            self.prompt = self.with_another(NAMED, self.prompt, prompt, long_prompt);
            self.flags |= NAMED;
            if self.methods & 1 << METHOD_TOOL != 0 {
                if end & CONDITIONAL != 0 {
                    return self.defer(subject, marks);
                }
                outcome = end;
                is_call = true;
            }
            if self.methods & 1 << METHOD_PROMPT != 0 {
                outcome = outcome.max(prompt);
            }
        }
        Decision { outcome, place: self.place(marks), is_call, ..SILENT }
    }

    /// What is said of several names, the method of which is not known yet: of two that are let through in different ways nobody
    /// knows which a reader takes.
    #[inline(always)]
    fn with_another(&self, flag: u16, known: u16, another: u16, long: u16) -> u16 {
        if self.flags & flag == 0 {
            another
        } else if known == another || (known | another) & DENY != 0 {
            known.max(another)
        } else {
            known.max(another).max(long)
        }
    }

    /// A call that names nothing names the empty string; one that names something by other than a string (a number, parameters by
    /// their places) names what some readers can tell, and this one cannot: as a name that is too long.
    #[inline(always)]
    pub(super) fn end_message(&mut self, table: &View<'_>, subject: &Subject, marks: &Marks) -> Decision {
        let (mut outcome, mut is_call) = (0, false);
        if self.flags & NAMED == 0 {
            if self.methods & 1 << METHOD_TOOL != 0 {
                let [_, long_tool, ..] = subject.long;
                outcome = table.end(subject.name, CLASS_AS_TOOL).max(long_tool);
                is_call = true;
                self.hash = HASH_START;
            }
            if self.methods & 1 << METHOD_PROMPT != 0 {
                outcome = outcome.max(table.end(subject.name, CLASS_AS_PROMPT));
            }
        }
        if self.flags & LOCATED == 0 && self.methods & 1 << METHOD_RESOURCE != 0 {
            outcome = outcome.max(table.end(subject.uri, CLASS_AS_TOOL));
        }
        let place = if self.flags & ASKED_TWICE == 0 { marks.method } else { NOWHERE };
        if outcome & CONDITIONAL != 0 {
            self.tool = outcome;
            self.flags |= DEFERRED;
        }
        if self.flags & DEFERRED != 0 {
            return self.at_last(subject, marks);
        }
        Decision { outcome, place, is_call, ..SILENT }
    }

    /// What neutralizes the message: its name, or, where that lies in an earlier write, its method.
    #[inline(always)]
    pub(super) fn place(&self, marks: &Marks) -> u32 {
        if marks.name != NOWHERE {
            marks.name
        } else if self.flags & ASKED_TWICE == 0 {
            marks.method
        } else {
            NOWHERE
        }
    }
}
