#!/bin/sh
# The manual page of a command, from its --help and examples.txt. usage: man.sh ONNXC VERB VERSION
set -eu
onnxc=$1 verb=$2 version=$3 here=$(dirname "$0")
name=onnxc-$verb word=$verb
[ "$verb" != compile ] || name=onnxc word=
others=$(for v in $(sh "$here/words.sh" "$onnxc" verbs); do [ "$v" = "$verb" ] || printf 'onnxc-%s ' "$v"; done)
[ "$verb" = compile ] || others="onnxc $others"
# shellcheck disable=SC2086 # no word for the compilation
"$onnxc" $word --help | awk -v name="$name" -v version="$version" '
    function plain(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); sub(/^[.\x27]/, "\\\\\\&&", s); return s }
    NR == 1 { usage = substr($0, 8); next }
    NR == 3 {
        said = $0; sub(/[.:] .*/, "", said); sub(/[.:]$/, "", said)
        printf ".TH \"%s\" 1 \"\" \"onnxc %s\" \"User Commands\"\n.SH NAME\n%s \\- %s\n", toupper(name), version, plain(name),
            plain(tolower(substr(said, 1, 1)) substr(said, 2))
        printf ".SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n%s\n", plain(usage), plain($0); paragraph = 0; next
    }
    /^[A-Z].*:$/ { if (!options++) print ".SH OPTIONS"; printf ".SS %s\n", substr($0, 1, length($0) - 1); next }
    /^  -/ {
        line = substr($0, 3); at = match(line, /  +/)
        printf ".TP\n.B %s\n", plain(at ? substr(line, 1, at - 1) : line)
        if (at) print plain(substr(line, at + RLENGTH)); next
    }
    /^ / { sub(/^ +/, ""); print plain($0); next }
    !NF { paragraph = 1; next }
    { if (paragraph) print ".PP"; paragraph = 0; print plain($0) }'
awk -v verb="$verb" '
    function plain(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); return s }
    /^#/ { next }
    /^\[/ { on = $0 == "[" verb "]"; if (on) print ".SH EXAMPLES"; first = on; next }
    on && /^\$ / { printf ".PP\n.RS 4\n.nf\n%s\n.fi\n.RE\n", plain($0); next }
    on { if (!first) print ".PP"; first = 0; print plain($0) }' "$here/examples.txt"
cat <<'END'
.SH EXIT STATUS
.TP
.B 0
success
.TP
.B 1
the model or the arguments are wrong
.TP
.B 2
the model is valid, but needs something that this build lacks
.TP
.B 3
a bug in onnxc; please report it
.TP
.B 4
a comparison found a difference
.SH ENVIRONMENT
.TP
.B NO_COLOR
no colours in messages, unless \-\-color says otherwise
.TP
.B MAKEFLAGS
under GNU make, threads come from make's jobserver, unless \-j is given
.PP
No variable has an influence on the output.
.SH SEE ALSO
END
for o in $others; do printf '.BR %s (1),\n' "$(echo "$o" | sed 's/-/\\-/g')"; done | sed '$s/,$//'
printf '.PP\nThe documentation is in share/doc/onnxc of the installation, or in package onnxc\\-doc.\n'
