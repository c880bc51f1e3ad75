#!/bin/sh
# What man pages and completions say, from onnxc itself. usage: words.sh ONNXC verbs|targets|cpus|archs|passes|options VERB
#   options: one per line, "NAME[,ALIAS...] KIND [WORD...]" with KIND flag, word (one of WORDs), file, folder, value or joined (the value
#   follows without a space)
set -eu
onnxc=$1
list() { "$onnxc" --list-targets; }
case $2 in
verbs) "$onnxc" --help | tr '\n' ' ' | sed -n "s/.*Other commands: onnxc \([a-z, ]*\); see.*/\1/p" | tr -d , | tr -s ' ' ;;
targets) list | awk -F '   *' '/^CPU/ { exit } NR > 1 { printf "%s ", $2 }' ;;
cpus) list | awk '/ CPUs \(--mcpu\)/ { on = 1; next } !NF { on = 0 } on { for (i = 1; i <= NF; i++) print $i } END { print "native" }' | sort -u | tr '\n' ' ' ;;
archs) echo "sm_75 sm_80 sm_86 sm_87 sm_89 sm_90 sm_90a sm_100 sm_120" ;; # those that are installed depend on the machine
passes) { "$onnxc" --stop-after=no-pass no-model -o /dev/null 2>&1 || :; } | sed -n 's/^hint: passes: //p' | tr -d ,\; | sed 's/groups://' ;;
options)
    verb=${3-}
    # shellcheck disable=SC2086 # no word for the compilation
    "$onnxc" $verb --help | sed -n 's/^  \(-.*\)/\1/p' | sed 's/  .*//' | awk '
        function kind(value, n, i, words, some, rest) {
            if (value == "") return "flag"
            if (value ~ /\|/ || value ~ /^[a-z0-9,]+$/) {
                n = split(value, words, "|")
                for (i = 1; i <= n; i++) if (words[i] ~ /^[a-z0-9,-]+$/) some = some " " words[i]; else rest = words[i]
                if (some != "") return (rest ~ /FILE|PATH/ ? "file" : "word") some
            }
            if (value == "TRIPLE") return "word @targets"
            if (value ~ /^CPU/) return "word @cpus"
            if (value ~ /^sm_NN/) return "word @archs"
            if (value ~ /^PASS/) return "word @passes"
            if (value ~ /FILE|PATH|PROGRAM|LIB/) return "file"
            if (value ~ /DIR/) return "folder"
            return "value"
        }
        {
            names = $0; value = ""
            if (match($0, /^(-[^ ,=\[]+, )?-[-a-zA-Z]*/)) { names = substr($0, 1, RLENGTH); value = substr($0, RLENGTH + 1) }
            gsub(/ /, "", names)
            joined = value ~ /^[0-9]\|/ || value ~ /^\.\.\./
            optional = value ~ /^\[/
            gsub(/^[ \[=]+|\]$/, "", value)
            if (value ~ /^\.\.\./) {
                if (names == "-f") print names " joined winograd no-winograd"
                else if (names == "-W") print names " joined all extra pedantic no-error"
                next
            }
            k = kind(value)
            sub(/^word/, joined ? "joined" : optional ? "optional" : "word", k)
            if (optional && k == "value") k = "flag"
            print names " " k
        }' ;;
esac
