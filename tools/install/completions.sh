#!/bin/sh
# Completions of the command line, generated from --help and --list-targets. usage: completions.sh ONNXC bash|zsh|fish
set -eu
onnxc=$1 here=$(dirname "$0")
words() { sh "$here/words.sh" "$onnxc" "$@"; }
verbs=$(words verbs)
w=$(mktemp -d)
trap 'rm -rf "$w"' EXIT
words options >"$w/compile"
for v in $verbs; do words options "$v" >"$w/$v"; done
# The options of a command and of the compiler: NAME KIND WORD...; lists as @NAME.
each() { # COMMAND
    case $1 in compile) cat "$w/compile" ;; *) cat "$w/$1" "$w/compile" | awk '!seen[$1]++' ;; esac
}
names() { each "$1" | awk '{ n = split($1, a, ","); for (i = 1; i <= n; i++) print a[i]; if ($2 == "joined") for (i = 3; i <= NF; i++) print a[n] $i }' |
    grep -v -x -e -O -e -W -e -f | tr '\n' ' '; }
lists() { for l in targets cpus archs passes; do echo "$l $(words $l)"; done; }

bash_completion() {
    echo "# bash completion for onnxc"
    lists | while read -r name list; do echo "_onnxc_$name='$list'"; done
    cat <<'END'
_onnxc() {
    local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} options given=0
    # --option=word is three words for bash.
    [ "$word" = = ] && word= given=1
    [ "$option" = = ] && option=${COMP_WORDS[COMP_CWORD-2]} given=1
    case $verb:$option in
END
    for v in $verbs compile; do
        while read -r options kind list; do
            pattern=
            for o in $(echo "$options" | tr , ' '); do
                case $v in compile) pattern="$pattern|*:$o" ;; *) pattern="$pattern|$v:$o" ;; esac
            done
            list=$(echo "$list" | sed 's/@\([a-z]*\)/$_onnxc_\1/g')
            case $kind in
            word) echo "    ${pattern#|}) COMPREPLY=(\$(compgen -W \"$list\" -- \"\${word##*,}\")); return ;;" ;;
            optional) echo "    ${pattern#|}) [ \$given = 1 ] && { COMPREPLY=(\$(compgen -W \"$list\" -- \"\$word\")); return; } ;;" ;;
            file) echo "    ${pattern#|}) COMPREPLY=(\$(compgen -W \"$list\" -f -- \"\$word\")); return ;;" ;;
            folder) echo "    ${pattern#|}) COMPREPLY=(\$(compgen -d -- \"\$word\")); return ;;" ;;
            value) echo "    ${pattern#|}) COMPREPLY=(); return ;;" ;;
            esac
        done <"$w/$v"
    done
    echo "    esac"
    echo '    case $verb in'
    for v in $verbs; do echo "    $v) options='$(names "$v")' ;;"; done
    echo "    *) options='$(names compile)' ;;"
    echo '    esac'
    cat <<END
    case \$word in
    -*) COMPREPLY=(\$(compgen -W "\$options" -- "\$word")) ;;
    *) COMPREPLY=(\$(compgen -f -- "\$word"))
       [ "\$COMP_CWORD" != 1 ] || COMPREPLY+=(\$(compgen -W "$verbs" -- "\$word")) ;;
    esac
}
complete -o filenames -F _onnxc onnxc
END
}

zsh_completion() {
    echo "#compdef onnxc"
    lists | while read -r name list; do echo "local -a _onnxc_$name; _onnxc_$name=($list)"; done
    echo 'local -a options; local verb=$words[2]'
    echo 'case $verb in'
    for v in $verbs compile; do
        case $v in compile) echo "*) options=(" ;; *) echo "$v) options=(" ;; esac
        each "$v" | while read -r names kind list; do
            list=$(echo "$list" | sed 's/@\([a-z]*\)/$_onnxc_\1/g')
            for o in $(echo "$names" | tr , ' '); do
                case $o in --*) to="=" ;; *) to= ;; esac
                case $kind in
                flag) echo "  \"*$o\"" ;;
                joined) for x in $list; do echo "  \"*$o$x\""; done ;;
                optional) echo "  \"*$o=-::value:($list)\"" ;;
                word) echo "  \"*$o$to:value:($list)\"" ;;
                file) echo "  \"*$o$to:file:_files\"" ;;
                folder) echo "  \"*$o$to:folder:_files -/\"" ;;
                value) echo "  \"*$o$to:value: \"" ;;
                esac
            done
        done
        echo ') ;;'
    done
    echo 'esac'
    echo "if (( CURRENT == 2 )) && [[ \$words[2] != -* ]]; then"
    echo "  compadd -- $verbs; _files; return"
    echo 'fi'
    echo '_arguments -S $options "*:model:_files"'
}

fish_completion() {
    echo "# fish completion for onnxc"
    lists | while read -r name list; do echo "set -g __onnxc_$name $list"; done
    for v in $verbs; do echo "complete -c onnxc -n __fish_use_subcommand -a $v"; done
    for v in compile $verbs; do
        case $v in compile) when= ;; *) when=" -n '__fish_seen_subcommand_from $v'" ;; esac
        while read -r names kind list; do
            [ "$v" = compile ] || case $names in -h,--help | --version | --list-*) continue ;; esac
            to=
            for o in $(echo "$names" | tr , ' '); do
                case $o in --*) to="$to -l ${o#--}" ;; -?) to="$to -s ${o#-}" ;; -*) to="$to -o ${o#-}" ;; esac
            done
            list=$(echo "$list" | sed 's/@\([a-z]*\)/$__onnxc_\1/g')
            case $kind in
            flag) echo "complete -c onnxc$when$to" ;;
            word | joined) echo "complete -c onnxc$when$to -x -a \"$list\"" ;;
            optional) echo "complete -c onnxc$when$to -f -a \"$list\"" ;;
            file) echo "complete -c onnxc$when$to -r -F${list:+ -a \"$list\"}" ;;
            folder) echo "complete -c onnxc$when$to -x -a '(__fish_complete_directories)'" ;;
            value) echo "complete -c onnxc$when$to -x" ;;
            esac
        done <"$w/$v"
    done
}
"${2}_completion"
