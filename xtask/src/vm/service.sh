# The life of the service, under systemd in a guest: `package` is installed, and everything that docs/guide/install.md says of the
# unit is tried. The first thing that is not so ends it.
fail() { echo "FAILED $1"; journalctl -u mcpwarden -n 30 --no-pager; finish 1; }
# within SECONDS COMMAND: as long as the command fails, and then no longer. The processor is emulated.
within() {
    left=$1; shift
    until eval "$*" >/dev/null 2>&1; do
        left=$((left - 1)); [ $left -gt 0 ] || return 1
        sleep 1
    done
}
of() { systemctl show -P "$1" mcpwarden; }
is_ready() { [ "$(of ActiveState)" = active ] && mcpwarden status --json >/dev/null; }
# The BPF programs of this kernel, by tag: systemd has some of its own.
programs() {
    python3 - <<'END'
import ctypes, os, re, struct
bpf = lambda command, *words: ctypes.CDLL(None, use_errno=True).syscall(321, command, attributes(words), 12)
def attributes(words):
    global held
    held = ctypes.create_string_buffer(struct.pack("III", *words, *[0] * (3 - len(words))))
    return held
id = 0
while bpf(11, id) == 0:
    id = struct.unpack_from("I", held, 4)[0]
    descriptor = bpf(13, id)
    if descriptor >= 0:
        print(re.search(r"prog_tag:\s*(\w+)", open(f"/proc/self/fdinfo/{descriptor}").read())[1])
        os.close(descriptor)
END
}
seen() { mcpwarden events --type "$1" --json | grep -c "$2" || true; }

programs | sort -u > /tmp/before
# The processor is emulated: to verify programs takes the kernel a minute.
drop_ins=/etc/systemd/system/mcpwarden.service.d
mkdir -p $drop_ins
printf '[Service]\nTimeoutStartSec=600s\n' > $drop_ins/emulated.conf
# Images for containers forbid packages to start services; and the index of all manuals takes minutes here.
rm -f /usr/sbin/policy-rc.d
DEBIAN_FRONTEND=noninteractive dpkg --no-triggers -i "$package" || fail "it cannot be installed"
[ "$(of ActiveState)" = active ] || fail "it is not active once it is installed: $(of ActiveState)"
[ "$(of StatusText)" = watching ] || fail "the manager was told: $(of StatusText)"
is_ready || fail "it does not answer"
programs | sort -u | comm -13 /tmp/before - > /tmp/ours
[ -s /tmp/ours ] || fail "it has no programs in the kernel"
echo "installed, started, READY with $(wc -l < /tmp/ours) programs"

# It sees a server, as the user that it is.
said=$(mcpwarden inspect --as-root --quiet -- "$server" 2>&1) || [ $? = 1 ] || fail "the server cannot be inspected: $said"
within 30 'mcpwarden tools --json | grep -q "\"tool_name\""' || fail "it saw no tools: $(mcpwarden status)"
echo "it sees a server: $(mcpwarden tools --json | wc -l) tools"

# What is denied is denied, with the capabilities of the unit.
python3 -m http.server --bind 127.0.0.1 8099 >/dev/null 2>&1 &
listener=$!
reach() { python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8099), 5)' 2>&1; }
within 30 'reach' || fail "nobody listens: $(reach)"
mcpwarden block 127.0.0.1:8099 --for 10m >/dev/null || fail "nothing can be blocked"
reach | grep -q 'PermissionError' || fail "what is blocked can be reached"
mcpwarden unblock 127.0.0.1:8099 >/dev/null && reach || fail "what is not blocked any more cannot be reached: $(reach)"
kill $listener
echo "it denies a connection, and then no more"

# Members of the group may ask it, and others may not.
groupadd -f others; useradd -g others -G mcpwarden member; useradd -g others stranger
ask() { setpriv --reuid="$1" --regid=others --init-groups mcpwarden "$2" 2>&1; }
ask member status >/dev/null || fail "a member of the group cannot ask: $(ask member status)"
ask member events >/dev/null || fail "a member of the group cannot read: $(ask member events)"
ask stranger status >/dev/null && fail "a stranger can ask"
ask stranger events >/dev/null && fail "a stranger can read"
mcpwarden run --output json >/dev/null 2>/tmp/second && fail "a second agent runs beside it"
echo "its group asks and reads, others do not; a second agent is refused: $(tail -1 /tmp/second)"

# A reload, and one of what cannot be used.
config=/etc/mcpwarden/config.yaml
cp $config /tmp/config
printf 'sinks: [{ kind: file, path: /var/log/mcpwarden/events.jsonl }, { kind: journald }]\n' > $config
systemctl reload mcpwarden || fail "it cannot be reloaded"
within 30 '[ "$(seen agent_config_reloaded SIGHUP)" -ge 1 ]' || fail "it was not reloaded"
echo 'unknown: 1' > $config
systemctl reload mcpwarden
within 30 'of StatusText | grep -q "still counts"' || fail "the manager was told: $(of StatusText)"
[ "$(of ActiveState)" = active ] || fail "what cannot be used ends it"
printf 'sinks: [{ kind: file, path: /var/log/mcpwarden/events.jsonl }, { kind: journald }]\n' > $config
systemctl reload mcpwarden
within 30 '[ "$(of StatusText)" = watching ]' || fail "the manager was told: $(of StatusText)"
within 30 'grep -q agent_config /var/log/mcpwarden/events.jsonl' || fail "its sink has no file"
within 30 'journalctl -t mcpwarden MCPWARDEN_TYPE=agent_config_reloaded --no-pager | grep -q reloaded' || fail "its sink has no journal"
echo "it is reloaded, and goes by what it had where it cannot be"

# Killed: it is back, and the audit trail holds.
killed() { [ "$(of NRestarts)" -ge "$1" ] && is_ready; }
kill -9 "$(of MainPID)"
within 300 'killed 1' || fail "it does not come back when it is killed"
mcpwarden audit verify || fail "the audit trail is broken"
programs | sort -u | comm -12 /tmp/ours - > /tmp/again
cmp -s /tmp/ours /tmp/again || fail "it has other programs than before: $(cat /tmp/again)"
echo "killed: it is back, with the same programs"

# Hung: the watchdog ends it.
printf '[Service]\nWatchdogSec=5s\n' > $drop_ins/watchdog.conf
systemctl daemon-reload && systemctl restart mcpwarden
within 300 is_ready || fail "it does not start with a watchdog of 5 s"
sleep 15
[ "$(of NRestarts)" = 0 ] || fail "the watchdog is not fed"
kill -STOP "$(of MainPID)"
within 300 'killed 1' || fail "the watchdog does nothing"
journalctl -u mcpwarden --no-pager | grep -q 'Watchdog timeout' || fail "it was not the watchdog"
echo "hung: the watchdog ended it, and it is back"

# Stopped: nothing is left in the kernel, and nothing went wrong.
systemctl stop mcpwarden
[ "$(of Result)" = success ] || fail "it did not end well: $(of Result)"
programs | sort -u | comm -12 /tmp/ours - > /tmp/left
[ ! -s /tmp/left ] || fail "programs are left: $(cat /tmp/left)"
mcpwarden audit verify || fail "the audit trail is broken"
ask member events >/dev/null || fail "a member of the group cannot read when it is stopped: $(ask member events)"
echo "stopped: no program is left, the audit trail holds, and its group reads it"

# What a feature takes more, its drop-in adds.
printf 'enforcement: { stdio: neutralize }\n' > $config
systemctl start mcpwarden || fail "it does not start with the gate"
mcpwarden status | grep -q 'refused, not neutralized' || fail "it says of the gate: $(mcpwarden status)"
cp /usr/share/mcpwarden/systemd/neutralize.conf $drop_ins/
systemctl daemon-reload && systemctl restart mcpwarden && is_ready || fail "it does not start with its drop-in: $(mcpwarden status)"
mcpwarden status | grep -q 'not neutralized\|not stopped' && fail "it says of the gate: $(mcpwarden status)"
systemctl stop mcpwarden
rm $drop_ins/neutralize.conf && systemctl daemon-reload
echo "with neutralize.conf: calls can be neutralized, and without it that is said"

# What persists is pinned from within the unit's view of the files, stays when it is stopped, and goes with the package.
python3 -m http.server --bind 127.0.0.1 8099 >/dev/null 2>&1 &
listener=$!
within 30 'reach' || fail "nobody listens: $(reach)"
printf 'network: { deny: ["127.0.0.1:8099"] }\nenforcement: { network: deny, persist: true }\n' > $config
systemctl start mcpwarden && is_ready || fail "it does not start where it is to persist"
systemctl stop mcpwarden
reach | grep -q 'PermissionError' || fail "what was denied can be reached when it is stopped"
systemctl start mcpwarden && is_ready || fail "it does not start again"
mcpwarden events --type agent_started --json | tail -1 | grep -q '"resumed":true' || fail "it does not go on with what was left"
systemctl stop mcpwarden
reach | grep -q 'PermissionError' || fail "what was denied can be reached when it is stopped again"
echo "with persist: what was denied stays denied when it is stopped, and another goes on with it"

systemctl start mcpwarden && is_ready || fail "it does not start again"
DEBIAN_FRONTEND=noninteractive dpkg --no-triggers -P mcpwarden || fail "it cannot be purged"
[ "$(systemctl is-active mcpwarden)" != active ] || fail "it runs on when its package is gone"
programs | sort -u | comm -12 /tmp/ours - > /tmp/left
[ ! -s /tmp/left ] || fail "programs are left: $(cat /tmp/left)"
reach || fail "what was denied cannot be reached when its package is gone: $(reach)"
kill $listener
echo "purged: nothing is left"
finish 0
