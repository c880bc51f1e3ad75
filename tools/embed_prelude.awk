# The snippets of codegen/c/prelude as an array of C: name, text for C, text for CUDA. c99.h describes the form.
# usage: awk -f embed_prelude.awk FILE...
function put(line) {
    if (line ~ /^\/\/: /) {
        split(line, head, " ")
        name = head[2]
        if (!(name in seen)) names[n++] = name
        seen[name] = 1
        if (head[3] == "device") device[name] = 1
    } else if (name != "") {
        gsub(/\\/, "&&", line)
        gsub(/"/, "\\\"", line)
        text[name, cuda] = text[name, cuda] "\n     \"" line "\\n\""
    }
}
function replaced(line, word, by,    at, done) {
    while (at = index(line, word)) {
        done = done substr(line, 1, at - 1) by
        line = substr(line, at + length(word))
    }
    return done line
}
function end_paragraph(    i, j, k, line) {
    for (i = 1; i <= (nwords ? times : 1); i++)
        for (j = 1; j <= held; j++) {
            line = lines[j]
            for (k = 1; k <= nwords; k++) line = replaced(line, words[k], values[k, i])
            put(line)
        }
    held = nwords = 0
    name = ""
}
FNR == 1 {
    end_paragraph()
    cuda = FILENAME ~ /\.cuh$/
}
$0 == "" { end_paragraph(); next }
/^\/\/each / {
    times = split(substr($0, 8), cells, /  +/) - 1
    words[++nwords] = cells[1]
    for (i = 1; i <= times; i++) values[nwords, i] = cells[i + 1] == "-" ? "" : cells[i + 1]
    next
}
{ lines[++held] = $0 }
END {
    end_paragraph()
    print "// Made by tools/embed_prelude.awk.\n#include \"codegen/c/prelude.h\""
    print "const prelude_snippet prelude_snippets[] = {"
    for (i = 0; i < n; i++) {
        c = text[names[i], 0]
        own = text[names[i], 1]
        if (names[i] in device) own = "\"#ifdef ONNXC_CUDA_SHIM\\n\"" c "\"#else\\n\"" own "\"#endif\\n\""
        printf "    {\"%s\", %s, %s},\n", names[i], c == "" ? "0" : c, own == "" ? "0" : own
    }
    print "    {0, 0, 0},\n};"
}
