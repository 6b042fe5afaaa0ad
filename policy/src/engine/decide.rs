//! What somebody decides by hand about definitions: approved, denied, forgotten.

use std::collections::BTreeMap;

use super::io::{ByHand, Decide, Definitions, Output};
use super::record::tool_id;
use super::{Engine, Place};
use crate::event::{ApprovalDenied, ApprovalGranted, DefinitionApproved, Event, EventBody, PinsReset, Whose};
use crate::registry::{Item, ItemKind, PinKey, PinRecord, RegistryError};
use crate::terms::{ServerId, Timestamp};

/// Whose definitions are meant, where the server is, and their pins.
type Meant = (PinKey, Option<Place>, BTreeMap<Item, PinRecord>);

impl Engine {
    /// Does what somebody has decided, and says it; or says why it is not done.
    pub(super) fn decide(&mut self, decide: Decide<'_>, now: Timestamp, out: &mut Vec<Output>) {
        if let Err(error) = self.decide_by_hand(decide, now, out) {
            out.push(Output::Failed(error));
        }
    }

    fn decide_by_hand(
        &mut self,
        decide: Decide<'_>,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Result<(), RegistryError> {
        let (key, place, pins) = self.meant(&decide)?;
        if decide.decision == ByHand::Forget {
            return self.forget_pins(&decide, (key, place, pins), now, out);
        }
        for (item, record) in pins {
            let hash = match decide.what {
                Definitions::Tool { hash, .. } => hash.unwrap_or(&record.current),
                Definitions::All if needs(&item, &record, decide.decision) => &record.current,
                Definitions::All => continue,
            };
            self.decide_one(&decide, (&key, place.as_ref()), (item, hash), now, out)?;
        }
        Ok(())
    }

    fn decide_one(
        &mut self,
        decide: &Decide<'_>,
        (key, place): (&PinKey, Option<&Place>),
        (item, hash): (Item, &str),
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Result<(), RegistryError> {
        let grant = decide.decision == ByHand::Approve;
        if grant {
            self.registry.approve(key, &item, hash, decide.by, now)?;
            self.counters.approvals_granted += 1;
        } else {
            self.registry.deny(key, &item, hash, decide.by, now)?;
            self.counters.approvals_denied += 1;
        }
        let place = self.approvals.close(key, &item, Some(hash)).or(place.cloned());
        let (tool_name, by, tool_hash) = (item.name, decide.by.to_owned(), hash.to_owned());
        let whose = Whose::from(key);
        let tool_id = tool_id(&key.server, &tool_name);
        let body: EventBody = match (item.kind, grant) {
            (ItemKind::Tool, true) => ApprovalGranted { tool_name, tool_id, tool_hash, whose, by }.into(),
            (ItemKind::Tool, false) => ApprovalDenied { tool_name, tool_id, tool_hash, whose, by }.into(),
            (kind, _) => DefinitionApproved { kind, name: tool_name, hash: tool_hash, whose, by }.into(),
        };
        self.say_decided(&key.server, place, now, body, out);
        Ok(())
    }

    fn forget_pins(
        &mut self,
        decide: &Decide<'_>,
        (key, place, pins): Meant,
        now: Timestamp,
        out: &mut Vec<Output>,
    ) -> Result<(), RegistryError> {
        let items: Vec<Item> = pins.into_keys().collect();
        let pins = self.registry.reset(&key, &items)? as u64;
        for item in &items {
            self.approvals.close(&key, item, None);
        }
        let tool_name = match decide.what {
            Definitions::Tool { name, .. } => Some(Item::tool(name).name),
            Definitions::All => None,
        };
        let whose = Whose::from(&key);
        let reset = PinsReset { tool_name, pins, whose, by: decide.by.to_owned() };
        self.say_decided(&key.server, place, now, reset.into(), out);
        Ok(())
    }

    /// Says something of a server that need not be connected.
    fn say_decided(
        &self,
        server: &ServerId,
        place: Option<Place>,
        now: Timestamp,
        body: EventBody,
        out: &mut Vec<Output>,
    ) {
        match place {
            Some(place) => self.say(place, now, body, out),
            None => {
                let event = Event { server_id: Some(server.clone()), ..Event::agent(now, body) };
                out.push(Output::Event(event));
            }
        }
    }

    /// Whose definitions are meant. A look-alike is never approved with the server that it looks like: where several have
    /// offered the tool, it must be said which.
    fn meant(&mut self, decide: &Decide<'_>) -> Result<Meant, RegistryError> {
        let mut meant: BTreeMap<PinKey, Option<Place>> = BTreeMap::new();
        meant.extend(self.registry.pinned(decide.server)?.into_iter().map(|key| (key, None)));
        let waiting = self.approvals.places(decide.server);
        meant.extend(waiting.map(|(key, place)| (key.clone(), Some(place.clone()))));
        for (connection, key) in self.registry.servers(decide.server) {
            meant.insert(key.clone(), self.place(connection));
        }
        meant.retain(|key, _| {
            decide.uid.is_none_or(|uid| key.uid == Some(uid))
                && decide.program.is_none_or(|program| key.program == program)
        });
        let mut offered = Vec::new();
        for (key, place) in meant {
            let mut pins = self.registry.pins(&key)?;
            if let Definitions::Tool { name, .. } = decide.what {
                let tool = Item::tool(name);
                pins.retain(|item, _| *item == tool);
            }
            if !pins.is_empty() {
                offered.push((key, place, pins));
            }
        }
        if offered.len() > 1 {
            let identities = offered.iter().map(|(key, ..)| match key.uid {
                Some(uid) => format!("user {uid}, {}", key.program),
                None => key.program.clone(),
            });
            let (server, identities) = (decide.server.to_string(), identities.collect());
            return Err(RegistryError::Ambiguous { server, identities });
        }
        offered.pop().ok_or_else(|| RegistryError::Unknown {
            server: decide.server.to_string(),
            name: match decide.what {
                Definitions::Tool { name, .. } => Item::tool(name).name,
                Definitions::All => "anything".to_owned(),
            },
        })
    }
}

/// Whether a decision about everything changes anything for this.
fn needs(item: &Item, record: &PinRecord, decision: ByHand) -> bool {
    let is_approved =
        record.approved.is_some() && record.hash == record.current && !record.denies(&record.current);
    record.listed
        && match decision {
            ByHand::Approve => !is_approved,
            _ => item.kind == ItemKind::Tool && !record.denies(&record.current),
        }
}
