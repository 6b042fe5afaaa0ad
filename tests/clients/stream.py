"""A client that reads whatever a server writes: it sends the lines of a file one after the other, each once the answer to that before
has come and nothing has followed for a while. The arguments are the file and the server's command."""

import select
import subprocess
import sys

QUIET_SECONDS = 0.2
LONGEST_SECONDS = 10

script, *command = sys.argv[1:]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
for line in open(script, "rb"):
    server.stdin.write(line)
    limit = LONGEST_SECONDS
    while select.select([server.stdout], [], [], limit)[0] and server.stdout.read(1 << 16):
        limit = QUIET_SECONDS
server.stdin.close()
server.wait()
