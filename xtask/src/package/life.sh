# life.sh EARLIER PACKAGE: the life of a package, in a mount namespace and a layer that go with this process.
mount --make-rprivate /
layer=$(mktemp -d)
mount -t tmpfs none "$layer"
mkdir "$layer/upper" "$layer/work" "$layer/root"
mount -t overlay none -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
cd "$layer/root"
mount --rbind /dev dev
mount -t proc none proc
# Also hides a running systemd, so that its services stay alone.
mount -t tmpfs none run
mount -t tmpfs none tmp
cp "$1" tmp/earlier.deb
cp "$2" tmp/package.deb
# The mounts go with the namespace; the empty directory does not.
trap 'cd /; umount -R -l "$layer"; rmdir "$layer"' EXIT

cat > tmp/inside <<'END'
export DEBIAN_FRONTEND=noninteractive
fail() { echo "FAILED $1"; exit 1; }
# is PATH MODE OWNER:GROUP
is() {
    found=$(stat -c '%a %U:%G' "$1" 2>/dev/null) || found=nothing
    [ "$found" = "$2 $3" ] || fail "$1 is $found, not $2 $3"
}
# gone PATH...
gone() { for path; do [ ! -e "$path" ] && [ ! -L "$path" ] || fail "$path is still there"; done; }
state() { dpkg-query -W -f '${Version} ${db:Status-Status}' mcpwarden 2>/dev/null || echo none; }
config=/etc/mcpwarden/config.yaml
unit=/usr/lib/systemd/system/mcpwarden.service
wanted=/etc/systemd/system/multi-user.target.wants/mcpwarden.service

# What this machine has of it, or agents that were started by hand have left, is not in the layer.
dpkg --purge mcpwarden >/dev/null 2>&1 || true
rm -rf /etc/mcpwarden /var/lib/mcpwarden /var/log/mcpwarden
! getent group mcpwarden >/dev/null || groupdel mcpwarden

installed() {
    [ "$(state)" = "$1 installed" ] || fail "it is: $(state)"
    [ -z "$(dpkg --verify mcpwarden | grep -v " $config")" ] || fail "dpkg --verify: $(dpkg --verify mcpwarden)"
    is /usr/bin/mcpwarden 755 root:root
    is "$unit" 644 root:root
    is "$config" 644 root:root
    is /usr/lib/sysusers.d/mcpwarden.conf 644 root:root
    is /usr/lib/tmpfiles.d/mcpwarden.conf 644 root:root
    is /usr/share/man/man1/mcpwarden.1.gz 644 root:root
    is /usr/share/man/man1/mcpwarden-registry-show.1.gz 644 root:root
    is /usr/share/mcpwarden/systemd/neutralize.conf 644 root:root
    is /usr/share/bash-completion/completions/mcpwarden 644 root:root
    is /usr/share/mcpwarden/prometheus/mcpwarden.rules.yaml 644 root:root
    is /var/lib/mcpwarden 750 root:mcpwarden
    [ -L "$wanted" ] || fail "the service is not enabled"
    mcpwarden check-config --strict "$config" >/dev/null 2>&1 || fail "the configuration has warnings"
}

dpkg --force-depends -i /tmp/earlier.deb >/tmp/log 2>&1 || { cat /tmp/log; fail "install"; }
installed 0.0.1

# What an administrator does: it outlives the upgrade.
echo "# mine" >> "$config"
echo kept > /var/lib/mcpwarden/events.db
systemctl disable mcpwarden.service >/dev/null 2>&1
gone "$wanted"
dpkg --force-depends -i /tmp/package.deb >/tmp/log 2>&1 || { cat /tmp/log; fail "upgrade"; }
gone "$wanted"
systemctl enable mcpwarden.service >/dev/null 2>&1
installed "$(dpkg-deb -f /tmp/package.deb Version)"
grep -q '^# mine$' "$config" || fail "the configuration was overwritten"
[ "$(cat /var/lib/mcpwarden/events.db)" = kept ] || fail "the state is gone"

dpkg -r mcpwarden >/tmp/log 2>&1 || { cat /tmp/log; fail "remove"; }
gone /usr/bin/mcpwarden "$unit" /usr/share/mcpwarden /usr/share/doc/mcpwarden
is "$config" 644 root:root
[ "$(cat /var/lib/mcpwarden/events.db)" = kept ] || fail "the state went with the package"

dpkg -P mcpwarden >/tmp/log 2>&1 || { cat /tmp/log; fail "purge"; }
gone /etc/mcpwarden /var/lib/mcpwarden /var/log/mcpwarden "$wanted"
! getent group mcpwarden >/dev/null || fail "the group is still there"
[ "$(state)" = none ] || fail "it is: $(state)"
left=$(find /etc /usr /lib /var/lib -xdev -name '*mcpwarden*' 2>/dev/null | head -5)
[ -z "$left" ] || fail "left behind: $left"
echo "installed, upgraded, removed, purged: as it should be"
END
chroot . sh -eu /tmp/inside
