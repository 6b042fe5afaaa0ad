-- Whose each event is, for the shares of users in the database; NULL: the agent's, or nobody's that is known.
ALTER TABLE events ADD COLUMN owner INTEGER;
CREATE INDEX events_by_owner ON events (owner);
-- What each owner has in `events`; -1: NULL.
CREATE TABLE shares (owner INTEGER PRIMARY KEY, events INTEGER NOT NULL, bytes INTEGER NOT NULL);
INSERT INTO shares SELECT -1, count(*), sum(length(body)) FROM events HAVING count(*) > 0;
-- What retention left of events that it removed from between others: `before` is the hash of the event before the first.
CREATE TABLE removals (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    before BLOB NOT NULL,
    hash BLOB NOT NULL,
    time_ns INTEGER NOT NULL,
    signature BLOB NOT NULL
);
-- The age of the trail, by the clock since boot, when its last event was this one; and when that clock was read last.
CREATE TABLE ages (seq INTEGER PRIMARY KEY, age_ns INTEGER NOT NULL);
CREATE TABLE clock (boot_id TEXT NOT NULL, boot_ns INTEGER NOT NULL, age_ns INTEGER NOT NULL);
