//! Events as OCSF, held against the schema: a line of each, which the agent's own tests write.

use ocsf_types::{ApiActivity, BaseEvent, DetectionFinding, NetworkActivity};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// What the schema's type keeps of it: attributes of its own, of the right types.
fn through<T: Serialize + DeserializeOwned>(line: &str) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_str::<T>(line)?)
}

/// Attributes that must be there: where (of every class, or of one), and which. Where that is not there, nor need they be.
const REQUIRED: [(Option<u64>, &str, &[&str]); 11] = [
    (None, "", &["activity_id", "category_uid", "class_uid", "metadata", "severity_id", "time", "type_uid"]),
    (None, "/metadata", &["product", "version"]),
    (None, "/device", &["type_id"]),
    (None, "/finding_info", &["uid"]),
    (None, "/finding_info/analytic", &["type_id"]),
    (None, "/api", &["operation"]),
    (None, "/api/request", &["uid"]),
    (None, "/connection_info", &["direction_id"]),
    (Some(2004), "", &["finding_info"]),
    (Some(6003), "", &["actor", "api", "src_endpoint"]),
    (Some(4001), "", &["src_endpoint", "dst_endpoint"]),
];

/// Of these at least one must be there.
const ONE_OF: [(&str, &[&str]); 7] = [
    ("/metadata/product", &["name", "uid"]),
    ("/device", &["hostname", "ip", "name", "uid"]),
    ("/actor", &["process", "user", "session", "app_name"]),
    ("/actor/process", &["pid"]),
    ("/actor/user", &["name", "uid"]),
    ("/src_endpoint", &["hostname", "ip", "name", "svc_name"]),
    ("/dst_endpoint", &["hostname", "ip", "name", "svc_name"]),
];

/// The numbers that an attribute can have up to one, beside 99, which is what has no number.
const NUMBERS: [(Option<u64>, &str, u64); 14] = [
    (Some(0), "/activity_id", 0),
    (Some(2004), "/activity_id", 3),
    (Some(6003), "/activity_id", 4),
    (Some(4001), "/activity_id", 7),
    (None, "/severity_id", 6),
    (Some(0), "/status_id", 2),
    // A finding can be suppressed or resolved as well.
    (Some(2004), "/status_id", 4),
    (Some(6003), "/status_id", 2),
    (Some(4001), "/status_id", 2),
    (None, "/action_id", 4),
    (None, "/disposition_id", 27),
    (None, "/device/type_id", 15),
    (None, "/finding_info/analytic/type_id", 11),
    (None, "/connection_info/direction_id", 4),
];

/// By the schema itself: what its types keep, what it requires, and which numbers it knows.
#[test]
fn every_event_conforms_to_ocsf() {
    for line in include_str!("../../../docs/reference/ocsf.examples.jsonl").lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let class = value["class_uid"].as_u64().unwrap();
        let kept = match class {
            0 => through::<BaseEvent>(line),
            2004 => through::<DetectionFinding>(line),
            4001 => through::<NetworkActivity>(line),
            6003 => through::<ApiActivity>(line),
            _ => panic!("{class}"),
        };
        assert_eq!(kept.unwrap(), value);
        for (_, at, names) in REQUIRED.iter().filter(|(of, ..)| of.is_none_or(|of| of == class)) {
            let Some(object) = value.pointer(at) else { continue };
            let missing: Vec<_> = names.iter().filter(|name| object.get(name).is_none()).collect();
            assert!(missing.is_empty(), "{at}: {missing:?} {line}");
        }
        for (at, names) in ONE_OF {
            let Some(object) = value.pointer(at) else { continue };
            assert!(names.iter().any(|name| object.get(name).is_some()), "{at}: {names:?} {line}");
        }
        for (_, at, most) in NUMBERS.iter().filter(|(of, ..)| of.is_none_or(|of| of == class)) {
            let Some(number) = value.pointer(at) else { continue };
            assert!(number.as_u64().is_some_and(|number| number <= *most || number == 99), "{at}: {line}");
        }
        let [category, activity, kind] =
            ["category_uid", "activity_id", "type_uid"].map(|name| value[name].as_u64().unwrap());
        assert_eq!((category, kind), (class / 1000, class * 100 + activity), "{line}");
    }
}
