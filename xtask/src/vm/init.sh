#!/bin/busybox sh
# The first program of a guest: mounts the host's files, with a layer above them for what is written, and goes there.
bb=/bin/busybox
$bb mount -t proc proc /proc
$bb mount -t sysfs sys /sys
$bb mount -t devtmpfs dev /dev
# In whatever order they need each other.
while :; do
    before=$($bb wc -l < /proc/modules)
    for module in /modules/*.ko; do $bb insmod "$module" 2>/dev/null; done
    [ "$($bb wc -l < /proc/modules)" = "$before" ] && break
done
$bb mount -t virtiofs -o ro host /host || exit 1
$bb mount -t tmpfs -o size=75% layer /layer
$bb mkdir /layer/upper /layer/work
$bb mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work overlay /root || exit 1
for at in proc sys dev; do $bb mount --move /$at /root/$at; done
if [ -f /unit ]; then
    # What this machine has in there is nobody's business here, and would be looked through.
    $bb mount -t tmpfs tmp /root/tmp
    # systemd does that itself, but not where a file of this machine (/.dockerenv) has it think that it is in a container.
    $bb mount -t bpf -o nosuid,nodev,noexec,mode=700 bpf /root/sys/fs/bpf
    $bb cp /package.deb /root/package.deb
    $bb cp /benign-server /root/benign-server
    $bb cp /job /root/job
    $bb cp /unit /root/etc/systemd/system/job.service
    exec $bb switch_root /root /lib/systemd/systemd --unit=job.service --show-status=no
fi
job=$($bb cat /job)
exec $bb switch_root /root /bin/sh -c "$job"
