# Runs in the guest, before the job itself.
exec < /dev/ttyS1 > /dev/ttyS1 2>&1
stty raw -echo 2>/dev/null
# The processor is emulated.
export MCPWARDEN_TEST_PATIENCE=10
finish() {
    echo "mcpwarden-vm: exit $1"
    sync
    echo o > /proc/sysrq-trigger
    sleep 60
}
