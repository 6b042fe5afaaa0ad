//! Mutes of detections: what operators mute and unmute, what ends by time, and what follows for tools that are held.

use super::command::{CommandError, MuteDetections};
use super::timers::Due;
use super::{Engine, Output, Parts};
use crate::event::{DetectionMuted, DetectionUnmuted, Event, EventBody, Mute, MuteEnd, MuteSource};
use crate::mutes::{MuteError, server_of};
use crate::terms::Timestamp;

impl Engine {
    /// Goes by the mutes of another configuration from now on.
    pub(super) fn configure_mutes(&mut self) {
        // Texts that are no globs were refused with the configuration.
        if self.mutes.configure(&self.config.muted).unwrap_or(true) {
            // The gate's table may be made before anything is due.
            self.connections.mark_tools(&self.mutes);
            self.timers.set(Timestamp(0), Due::Mutes);
        }
    }

    /// Mutes detections, in place of a mute for the same.
    ///
    /// # Errors
    /// Why they are not muted; nothing changes then.
    pub(super) fn mute(
        &mut self,
        new: &MuteDetections<'_>,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Result<(), CommandError> {
        let Parts { mut cx, ev, .. } = self.parts(out);
        let mute = ev.mute(&mut cx, new)?;
        let replaced = self.mutes.admit(&mute, now).inspect_err(|error| {
            self.counters.mutes_refused += u64::from(*error == MuteError::Full);
        })?;
        self.evaluator.keep_mute(&mute, replaced.as_deref())?;
        self.mutes.add(mute.clone(), now)?;
        self.counters.mutes_made += 1;
        self.timers.set(mute.until.unwrap_or(now), Due::Mutes);
        self.report_mute(&mute, now, DetectionMuted { mute: mute.clone() }.into(), out);
        self.mutes_changed(now, out);
        Ok(())
    }

    /// Has detections be alerts again.
    ///
    /// # Errors
    /// There is no such mute, or it cannot be forgotten.
    pub(super) fn unmute(
        &mut self,
        id: &str,
        by: &str,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Result<(), CommandError> {
        let mute = self.mutes.find(id)?.clone();
        self.evaluator.forget_mute(id)?;
        self.mutes.remove(id);
        self.counters.mutes_ended += 1;
        let (ended, unmuted_by) = (MuteEnd::Unmuted, Some(by.to_owned()));
        let body = DetectionUnmuted { ended, unmuted_by, mute: mute.clone() }.into();
        self.report_mute(&mute, now, body, out);
        self.mutes_changed(now, out);
        Ok(())
    }

    /// Ends the mutes that are over by `now`.
    pub(super) fn end_mutes(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        for mute in self.mutes.expire(now) {
            self.counters.mutes_ended += 1;
            if mute.source == MuteSource::Operator {
                // What the store does not take is over by its time all the same.
                let _ = self.evaluator.forget_mute(&mute.mute_id);
            }
            let body =
                DetectionUnmuted { ended: MuteEnd::Expired, unmuted_by: None, mute: mute.clone() }.into();
            self.report_mute(&mute, mute.until.unwrap_or(now).min(now), body, out);
        }
        if let Some(next) = self.mutes.next_end() {
            self.timers.set(next, Due::Mutes);
        }
        self.mutes_changed(now, out);
    }

    /// All mutes that are in force: of the configuration, and of operators.
    pub fn mutes(&self) -> impl Iterator<Item = &Mute> {
        self.mutes.iter()
    }

    fn report_mute(&mut self, mute: &Mute, time: Timestamp, body: EventBody, out: &mut Vec<Output>) {
        let reporter = &mut self.parts(out).cx.reporter;
        reporter.emit(Event { server_id: server_of(mute), ..Event::agent(time, body) });
    }

    /// Has everything known of tools be marked anew, and the tools be held whose detections are alerts again.
    fn mutes_changed(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        self.connections.mark_tools(&self.mutes);
        let Parts { mut cx, ev, .. } = self.parts(out);
        if cx.config.inspection.is_some() {
            ev.review_muted(&mut cx, now);
        }
        cx.reporter.gate_is_stale(Some(now));
    }
}
