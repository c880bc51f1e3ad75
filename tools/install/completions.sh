#!/bin/sh
# Completions of the command line, generated from --help. usage: completions.sh ONNXC bash|zsh|fish
set -eu
onnxc=$1
verbs="run test bench inspect debug diff quantize"
options() { # VERB: one option a line
    # shellcheck disable=SC2086 # no word for the compilation
    "$onnxc" $1 --help | sed -n 'h; s/^  \(-[^ ]*\).*/\1/p; g; s/^  -[^ ]*, \(--[^ ]*\).*/\1/p' |
        sed 's/,$//; s/\[.*//; s/\.\.\.$//; s/|.*//; s/^-O0$/-O/' | grep -v '^-[mfW]$' | sort -u
}
all=$( (options "" && for v in $verbs; do options "$v"; done) | sort -u | tr '\n' ' ')
emits=$("$onnxc" --help | sed -n 's/^  --emit \([^ ]*\).*/\1/p' | tr '|' ' ')
case $2 in
bash)
    cat <<EOF
_onnxc() {
    local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]}
    case \$before in
    --emit) COMPREPLY=(\$(compgen -W "$emits" -- "\$word")); return ;;
    esac
    case \$word in
    -*) COMPREPLY=(\$(compgen -W "$all" -- "\$word")) ;;
    *) COMPREPLY=(\$(compgen -f -- "\$word"))
       [ "\$COMP_CWORD" != 1 ] || COMPREPLY+=(\$(compgen -W "$verbs" -- "\$word")) ;;
    esac
}
complete -o filenames -F _onnxc onnxc
EOF
    ;;
zsh)
    cat <<EOF
#compdef onnxc
_onnxc() {
    case \$words[CURRENT-1] in
    --emit) compadd -- $emits; return ;;
    esac
    case \$PREFIX in
    -*) compadd -- $all ;;
    *) (( CURRENT == 2 )) && compadd -- $verbs; _files ;;
    esac
}
_onnxc "\$@"
EOF
    ;;
fish)
    for v in $verbs; do echo "complete -c onnxc -n __fish_use_subcommand -a $v"; done
    for o in $all; do
        case $o in
        --*) echo "complete -c onnxc -l ${o#--}" ;;
        -?) echo "complete -c onnxc -s ${o#-}" ;;
        esac
    done
    echo "complete -c onnxc -l emit -x -a '$emits'"
    ;;
esac
