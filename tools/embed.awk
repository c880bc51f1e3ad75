# Files of runtime-lite/lib as an array of C: name and text of each, for emitted C.
function close_file() { if (open) printf "     \"\"},\n" }
BEGIN {
    print "// Made by tools/embed.awk: the texts of runtime-lite's library functions."
    print "#include \"codegen/c/library.h\""
    print "const library_source library_sources[] = {"
}
FNR == 1 { close_file(); open = 1; name = FILENAME; sub(/.*\//, "", name); printf "    {\"%s\",\n", name }
{ gsub(/\\/, "&&"); gsub(/"/, "\\\""); printf "     \"%s\\n\"\n", $0 }
END { close_file(); print "    {0, 0},\n};" }
