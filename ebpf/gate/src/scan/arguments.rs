//! What the arguments of a call tell, where these decide.
//!
//! Each bit is what one test says of the text of one argument at the top. A key that is there twice, in another case or not in quotes,
//! another `arguments` or `params`, a text that is no UTF-8: where readers differ, nobody can tell, and neither of
//! a value that is no text.

use super::{
    ARGUMENTS, ASKED_TWICE, DEFERRED, DOUBT, Decision, EXPECT_KEY, HAS_ARGUMENTS, HAS_OBJECT, Marks, NOWHERE,
    SILENT, Scan,
};
use crate::outcome::{CONDITIONAL, DENY};
use crate::table::{CLASS_AS_PROMPT, KEY_ARGUMENTS, KEY_ARGUMENTS_LIKE, Subject, View};

/// The unit of [`Scan::length_units`]. Bytes.
const UNIT: u32 = 8;
/// Of a longer message nobody can tell: the engine looks at 256 KiB of arguments. What begins a chunk may not be counted.
const LONGEST: u32 = (256 << 10) - (4 << 10);
const LONGEST_UNITS: u16 = (LONGEST / UNIT) as u16;

impl Scan {
    /// So many bytes are about to be read. A message that comes in writes of less than `UNIT` counts for more than it is.
    #[inline(always)]
    pub fn expect(&mut self, bytes: u32) {
        self.length_units = self.length_units.saturating_add(bytes.div_ceil(UNIT) as u16);
    }

    /// The key of a member of `params` has ended.
    #[inline(always)]
    pub(super) fn close_param_key(&mut self, key: u16, subject: &Subject) {
        self.param = key as u8;
        if subject.arguments == 0 {
            return;
        }
        match key {
            KEY_ARGUMENTS => self.has_arguments(),
            KEY_ARGUMENTS_LIKE => self.flags |= DOUBT,
            _ => {}
        }
    }

    /// The message has `arguments`, of whatever kind.
    #[inline(always)]
    pub(super) fn has_arguments(&mut self) {
        if self.flags & HAS_ARGUMENTS != 0 {
            self.flags |= DOUBT;
        }
        self.flags |= HAS_ARGUMENTS;
    }

    /// The first bracket of `arguments`.
    #[inline(always)]
    pub(super) fn open_arguments(&mut self) {
        self.flags |= HAS_OBJECT | ARGUMENTS | EXPECT_KEY;
        self.param = 0;
    }

    /// The key of an argument has ended: `bits` are those of its text, 0 where nothing goes by that.
    #[inline(always)]
    pub(super) fn close_argument_key(&mut self, bits: u16, table: &View<'_>) {
        self.param = 0;
        // A key with a byte in it that is no UTF-8 could be the key and text of another.
        if bits != 0 && table.end(self.state, CLASS_AS_PROMPT) == 0 {
            self.param = 1;
            if self.keyed & bits != 0 {
                self.flags |= DOUBT;
            }
            self.keyed |= bits;
        }
    }

    /// The text of an argument has ended.
    #[inline(always)]
    pub(super) fn close_argument(
        &mut self,
        bits: u16,
        table: &View<'_>,
        subject: &Subject,
        marks: &Marks,
    ) -> Decision {
        self.param = 0;
        self.bits ^= bits;
        self.told |= table.end(self.state, CLASS_AS_PROMPT);
        if self.flags & DEFERRED == 0 || self.tool & CONDITIONAL == 0 {
            return SILENT;
        }
        self.so_far(subject, marks)
    }

    /// The method and a name are known, and the arguments of such a call decide.
    #[inline(always)]
    pub(super) fn defer(&mut self, subject: &Subject, marks: &Marks) -> Decision {
        self.flags |= DEFERRED;
        // Of several names nobody knows which a reader takes: that is said at the end.
        if self.tool & CONDITIONAL == 0 {
            return SILENT;
        }
        self.so_far(subject, marks)
    }

    /// What is said before the end: no argument that follows lets a call through that is denied by those before it.
    #[inline(always)]
    fn so_far(&self, subject: &Subject, marks: &Marks) -> Decision {
        Decision {
            outcome: self.tool,
            place: self.place_of_name(marks),
            is_call: false,
            bits: self.bits ^ subject.absent,
            unknown: if self.is_doubtful() { !0 } else { !self.told },
        }
    }

    /// What is said at the end.
    #[inline(always)]
    pub(super) fn at_last(&self, subject: &Subject, marks: &Marks) -> Decision {
        let no_object = self.flags & (HAS_ARGUMENTS | HAS_OBJECT) == HAS_ARGUMENTS;
        Decision {
            outcome: self.tool,
            place: self.place_of_name(marks),
            is_call: true,
            bits: self.bits ^ subject.absent,
            unknown: if self.is_doubtful() || no_object { !0 } else { self.keyed & !self.told },
        }
    }

    #[inline(always)]
    fn is_doubtful(&self) -> bool {
        self.flags & (DOUBT | ASKED_TWICE) != 0 || self.named_twice != 0 || self.length_units > LONGEST_UNITS
    }

    /// What neutralizes the message, where it has one name.
    #[inline(always)]
    fn place_of_name(&self, marks: &Marks) -> u32 {
        if self.named_twice != 0 { NOWHERE } else { self.place(marks) }
    }

    /// What a choice of the table makes of a decision: to be asked of each before anything else is read.
    #[inline(always)]
    pub fn resolve(&mut self, table: &View<'_>, said: Decision) -> Decision {
        if said.outcome & CONDITIONAL == 0 {
            return said;
        }
        let choice = table.choice(said.outcome);
        let mut outcome = choice.outcome(said.bits, said.unknown);
        if said.is_call && outcome == choice.undecided {
            outcome = choice.at_last;
        }
        if outcome & DENY != 0 {
            // It is not said again at the end.
            self.flags &= !DEFERRED;
            Decision { outcome, is_call: true, ..said }
        } else if said.is_call {
            Decision { outcome, ..said }
        } else {
            SILENT
        }
    }
}
