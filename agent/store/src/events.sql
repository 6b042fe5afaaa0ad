-- Events, and what retention left of those that are gone. Described in docs/store.md.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    time_ns INTEGER NOT NULL,
    type TEXT NOT NULL,
    severity INTEGER,
    session TEXT,
    server TEXT,
    tool TEXT,
    uid INTEGER,
    hash BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX events_by_time ON events (time_ns);
CREATE INDEX events_by_type ON events (type, time_ns);
CREATE INDEX events_by_session ON events (session, time_ns) WHERE session IS NOT NULL;
CREATE INDEX events_by_server ON events (server, time_ns) WHERE server IS NOT NULL;
CREATE INDEX events_by_severity ON events (severity, time_ns) WHERE severity IS NOT NULL;
CREATE TABLE checkpoint (
    seq INTEGER PRIMARY KEY,
    hash BLOB NOT NULL,
    time_ns INTEGER NOT NULL,
    signature BLOB NOT NULL
);
CREATE TABLE probe (filling BLOB NOT NULL);
