//! Verbs that say what a tool does with their objects alone: `place` an order, `press` a key, `wire` money, `hand` it to
//! somebody. "Places near a station", "the type of a file" and `resolve-library-id` are none.

use super::words::{Form, Word, forms};
use crate::terms::ToolCategory::{self, Send, Write};

/// Verbs, what they have behind them, and what both say.
struct Phrase {
    verbs: &'static [&'static str],
    objects: &'static [&'static str],
    category: ToolCategory,
    side_effect: &'static str,
}

/// How many words behind a verb its object may be.
const MAX_OBJECT: usize = 4;
/// Behind these another clause or thing begins.
const ENDS: [&str; 8] = [",", "and", "or", "of", "that", "which", "by", "from"];
/// Who reads what a tool returns: what is streamed to these goes to nobody else.
const READERS: [&str; 12] = [
    "you",
    "client",
    "caller",
    "model",
    "user",
    "console",
    "terminal",
    "stdout",
    "assistant",
    "agent",
    "them",
    "it",
];

const PHRASES: &[Phrase] = &[
    // `make_outbound_call` (elevenlabs/elevenlabs-mcp), `make_call` (servers for Twilio and Vapi)
    Phrase {
        verbs: &["make", "place", "initiate"],
        objects: &["call", "calls"],
        category: Send,
        side_effect: "network.http",
    },
    // `call_phone_number` (servers for Twilio, Vapi and Android): who is called is told something.
    Phrase {
        verbs: &["call", "phone", "ring"],
        objects: &["phone", "telephone", "landline", "mobile", "contact"],
        category: Send,
        side_effect: "network.http",
    },
    // `dial_number` (servers for Twilio and Android); an address is dialled, too, and that is to connect
    Phrase {
        verbs: &["dial", "call", "phone", "ring"],
        objects: &["number", "numbers", "extension", "person", "somebody", "someone", "customer"],
        category: Send,
        side_effect: "network.http",
    },
    // `place_stock_order` (alpacahq/alpaca-mcp-server), `place_order` (zerodha/kite-mcp-server)
    Phrase {
        verbs: &["place", "make"],
        objects: &["order", "orders", "bid", "bids", "trade", "trades", "bet", "booking", "reservation"],
        category: Write,
        side_effect: "fs.write",
    },
    // What `create_payment` and `transfer` of servers for Stripe, PayPal and banks say that they do.
    Phrase {
        verbs: &["make", "initiate", "process"],
        objects: &["payment", "payments", "purchase", "purchases", "donation", "deposit", "refund", "payout"],
        category: Write,
        side_effect: "payments",
    },
    Phrase {
        verbs: &["wire"],
        objects: &["money", "funds", "amount", "sum", "payment", "dollars", "euros", "transfer"],
        category: Write,
        side_effect: "payments",
    },
    // `browser_press_key` (microsoft/playwright-mcp)
    Phrase {
        verbs: &["press"],
        objects: &[
            "key",
            "keys",
            "button",
            "buttons",
            "enter",
            "hotkey",
            "combination",
            "shortcut",
            "ctrl",
            "alt",
            "shift",
            "escape",
            "tab",
        ],
        category: Write,
        side_effect: "fs.write",
    },
    // `browser_type`: "Type text into editable element" (microsoft/playwright-mcp)
    Phrase {
        verbs: &["type"],
        objects: &["text", "into", "characters", "keys", "string", "password", "keystrokes"],
        category: Write,
        side_effect: "fs.write",
    },
    // `resolve_review_thread` (github/github-mcp-server); not `resolve-library-id` (upstash/context7)
    Phrase {
        verbs: &["resolve", "unresolve"],
        objects: &[
            "issue",
            "issues",
            "thread",
            "threads",
            "incident",
            "incidents",
            "alert",
            "alerts",
            "ticket",
            "tickets",
            "conversation",
            "conversations",
            "comment",
            "comments",
            "discussion",
            "case",
        ],
        category: Write,
        side_effect: "fs.write",
    },
    // Sharing of files and repositories (servers for Google Drive, GitHub): `share_file` gives access.
    Phrase {
        verbs: &["give"],
        objects: &["access", "permission", "permissions", "role", "roles", "rights", "ownership"],
        category: Write,
        side_effect: "fs.write",
    },
    // Who is pinged is notified: servers for Slack and Discord; hosts are pinged, too.
    Phrase {
        verbs: &["ping"],
        objects: &[
            "team",
            "user",
            "users",
            "person",
            "people",
            "channel",
            "member",
            "members",
            "someone",
            "everyone",
            "group",
            "colleague",
            "owner",
        ],
        category: Send,
        side_effect: "network.http",
    },
    // `rollback` in two words: servers for Helm, Argo CD and Vercel
    Phrase { verbs: &["roll"], objects: &["back"], category: Write, side_effect: "fs.write" },
    // mkfs and its relatives behind servers for shells of administrators
    Phrase {
        verbs: &["format"],
        objects: &["disk", "disks", "drive", "drives", "partition", "volume", "usb"],
        category: Write,
        side_effect: "fs.delete",
    },
    // Formatters write what they format: `format_file`, `format_document` of servers for editors
    Phrase {
        verbs: &["format"],
        objects: &["file", "files", "document", "workspace"],
        category: Write,
        side_effect: "fs.write",
    },
    // `read_to_webhook` and its like: the destination says that it is sent
    Phrase { verbs: &["stream", "hand"], objects: &["to"], category: Send, side_effect: "network.http" },
];

/// Whether a word is one of the verbs, or a form of one.
pub(super) fn is_verb(word: &str) -> bool {
    let mut verbs = PHRASES.iter().flat_map(|phrase| phrase.verbs);
    verbs.any(|verb| shares_stem(verb, word))
}

/// What a verb and the words behind it say.
pub(super) fn meaning<'a>(verb: &str, behind: impl Iterator<Item = &'a str> + Clone) -> Option<Word> {
    let of = |phrase: &&Phrase| phrase.verbs.iter().any(|known| shares_stem(known, verb));
    for phrase in PHRASES.iter().filter(of) {
        let Some(form) = form(phrase.verbs, verb) else { continue };
        let mut words = behind.clone().take_while(|word| !ENDS.contains(word)).take(MAX_OBJECT);
        let Some(object) = words.find(|word| phrase.objects.contains(word)) else { continue };
        let is_read_by = object == "to" && {
            let mut to = behind.clone().skip_while(|word| *word != "to").skip(1);
            to.find(|word| !matches!(*word, "the" | "a" | "an" | "your"))
                .is_none_or(|reader| READERS.contains(&reader))
        };
        if is_read_by || form == Form::Participle {
            continue;
        }
        return Some(Word {
            category: phrase.category,
            side_effect: Some(phrase.side_effect),
            form,
            is_noun: true,
            is_thing: true,
            is_in_names: true,
        });
    }
    None
}

/// Whether a word may be a form of a verb: most are not, and are looked at no further.
fn shares_stem(verb: &str, word: &str) -> bool {
    let stem = verb.strip_suffix('e').unwrap_or(verb);
    word.starts_with(stem)
}

fn form(verbs: &[&str], word: &str) -> Option<Form> {
    verbs.iter().flat_map(|verb| forms(verb)).find(|(text, _)| text == word).map(|(_, form)| form)
}
