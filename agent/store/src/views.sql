-- What the events tell of, one row each. Views and no tables: nothing has to be kept in step with the trail, and the
-- indices of `events` find what they are asked for. Each version of the schema makes all of them anew.
--
-- Connections are text (`->`, not `->>`): some of their numbers are beyond those that SQLite has, and would be rounded.
DROP VIEW IF EXISTS servers;
CREATE VIEW servers AS
    SELECT server AS server_id, text ->> 'server_type' AS server_type, session AS session_id,
        text -> 'connection' AS connection, text ->> 'identity' AS identity, text ->> 'executable' AS executable,
        text ->> 'argv' AS argv, text ->> 'url' AS url, text ->> 'pid' AS pid, uid, time_ns AS started_ns, seq
    FROM (SELECT *, CAST(body AS TEXT) AS text FROM events WHERE type = 'mcp_server_started');

DROP VIEW IF EXISTS sessions;
CREATE VIEW sessions AS
    SELECT session AS session_id, min(time_ns) AS first_ns, max(time_ns) AS last_ns, count(*) AS events,
        count(DISTINCT server) AS servers, sum(type = 'mcp_tool_called') AS calls,
        -- One that is muted has no severity.
        sum(type = 'mcp_detection' AND severity IS NOT NULL) AS detections
    FROM events WHERE session IS NOT NULL GROUP BY session;

DROP VIEW IF EXISTS mcp_tools;
CREATE VIEW mcp_tools AS
    SELECT tool AS tool_name, server AS server_id, text ->> 'server_type' AS server_type,
        text ->> 'tool_hash' AS tool_hash, min(time_ns) AS first_seen_ns, max(time_ns) AS last_seen_ns,
        max(severity) AS max_severity, text ->> 'risk_level' AS risk_level, text ->> 'category' AS category
    FROM (SELECT *, CAST(body AS TEXT) AS text FROM events WHERE type = 'mcp_tool_seen')
    GROUP BY server, tool, text ->> 'tool_hash';

DROP VIEW IF EXISTS calls;
CREATE VIEW calls AS
    SELECT seq, time_ns, session AS session_id, server AS server_id, tool AS tool_name,
        text -> 'connection' AS connection, text -> 'jsonrpc_id' AS jsonrpc_id, text ->> 'category' AS category,
        text ->> 'action' AS action, text ->> 'enforced' AS enforced, text ->> 'guard' AS guard,
        text ->> 'reason' AS reason
    FROM (SELECT *, CAST(body AS TEXT) AS text FROM events WHERE type = 'mcp_tool_called');

DROP VIEW IF EXISTS detections;
CREATE VIEW detections AS
    SELECT seq, time_ns, session AS session_id, server AS server_id, tool AS tool_name,
        coalesce(severity, CASE found ->> 'severity'
            WHEN 'low' THEN 0 WHEN 'medium' THEN 1 WHEN 'high' THEN 2 WHEN 'critical' THEN 3 END) AS severity,
        found ->> 'category' AS category, found ->> 'pattern' AS pattern, text ->> 'subject' AS subject,
        found ->> 'field' AS field, text ->> 'action' AS action, severity IS NULL AS muted,
        text ->> '$.mute.mute_id' AS mute_id
    FROM (SELECT *, CAST(body AS TEXT) AS text,
            -- Where the first versions had it.
            coalesce(CAST(body AS TEXT) -> 'detection', CAST(body AS TEXT)) AS found
        FROM events WHERE type = 'mcp_detection');

DROP VIEW IF EXISTS connections;
CREATE VIEW connections AS
    SELECT seq, time_ns, type, session AS session_id, server AS server_id, uid, text ->> 'pid' AS pid,
        text ->> 'executable' AS executable, text ->> 'remote_addr' AS remote_addr,
        text ->> 'remote_name' AS remote_name, text ->> 'protocol' AS protocol, text ->> 'action' AS action,
        text ->> 'enforced' AS enforced, text ->> 'reason' AS reason
    FROM (SELECT *, CAST(body AS TEXT) AS text FROM events
          WHERE type IN ('mcp_network_connection', 'mcp_server_egress'));
