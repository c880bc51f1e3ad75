#!/bin/sh
# The manual page of a command, generated from its --help. usage: man.sh ONNXC VERB VERSION
set -eu
verb=$2
name=onnxc-$verb
[ "$verb" != compile ] || verb= name=onnxc
# shellcheck disable=SC2086 # no word for the compilation
"$1" $verb --help | awk -v name="$name" -v version="$3" '
    function plain(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); sub(/^[.\x27]/, "\\\\\\&&", s); return s }
    NR == 1 { usage = substr($0, 8); next }
    NR == 3 {
        printf ".TH \"%s\" 1 \"\" \"onnxc %s\"\n.SH NAME\n%s \\- %s\n", toupper(name), version, plain(name), plain($0)
        printf ".SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n%s\n", plain(usage), plain($0); next
    }
    /^[A-Z].*:$/ { printf ".SH %s\n", toupper(substr($0, 1, length($0) - 1)); next }
    /^  -/ {
        line = substr($0, 3); at = match(line, /  +/)
        printf ".TP\n.B %s\n", plain(at ? substr(line, 1, at - 1) : line)
        if (at) print plain(substr(line, at + RLENGTH)); next
    }
    /^ / { sub(/^ +/, ""); print plain($0); next }
    NF { print ".PP"; print plain($0) }
    END { print ".SH EXIT STATUS\n0: success; 1: the model or the arguments are wrong; 2: the model needs something that this " \
                "build lacks; 3: a bug in onnxc; 4: a comparison found a difference." }'
