# shellcheck shell=sh disable=SC2034
# Sourced by test scripts: counts, and a folder $w that is removed at the end. STAGE is the name in messages.
here=$(realpath "$(dirname "$0")/..") passed=0 failed=0 skipped=0
w=$(mktemp -d)
trap 'rm -rf "$w"' EXIT
check() { # NAME COMMAND...
    name=$1
    shift
    if "$@" >"$w/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $STAGE: $name"
        tail -n 20 "$w/log"
    fi
}
there() { # TOOL...: whether all are there; counts what is skipped
    for tool; do
        command -v "$tool" >/dev/null || { skipped=$((skipped + 1)); return 1; }
    done
}
report() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}
