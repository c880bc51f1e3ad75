"""Runs a command with a terminal of the given width as its standard output and error. Prints what it writes, with the columns of
its longest line, where a carriage return begins a line anew. usage: terminal.py COLUMNS COMMAND"""
import fcntl
import os
import pty
import re
import struct
import sys
import termios

pid, terminal = pty.fork()
if not pid:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("4H", 24, int(sys.argv[1]), 0, 0))
    os.execvp("sh", ["sh", "-c", sys.argv[2]])
written = b""
try:
    while piece := os.read(terminal, 4096):
        written += piece
except OSError:  # the command has ended
    pass
text = re.sub("\x1b\\[[0-9;]*[mK]", "", written.decode().replace("\r\n", "\n"))
print(text.replace("\r", "\n"), end="")
print("columns:", max(map(len, re.split("[\r\n]", text))))
