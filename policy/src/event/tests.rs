use super::*;

#[test]
fn kinds_are_distinct() {
    let mut kinds = EventBody::KINDS.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), EventBody::KINDS.len());
}
