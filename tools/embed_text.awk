# A text file as one string of C. usage: awk -v name=IDENTIFIER -v header=HEADER -f embed_text.awk FILE
BEGIN { printf "// Made by tools/embed_text.awk.\n#include \"%s\"\nconst char %s[] =\n", header, name }
{ gsub(/\\/, "\\\\\\\\"); gsub(/"/, "\\\""); gsub(/\?\?/, "?\" \"?"); printf "    \"%s\\n\"\n", $0 }
END { print "    \"\";" }
