// Reads and writes tables of choices. In: a table or any file. Out: a file or a table.
#include "compiler/driver/tune_db.h"
#include "compiler/base/json.h"
#include "compiler/base/json_read.h"
#include "compiler/base/outfile.h"
#include "compiler/import/file.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_MOST = 64 << 20, TEXT_MOST = 1000 };
static const char FORMAT[] = "onnxc-tune-1";

// ---------------------------------------------------------------- reading
typedef struct reader {
    choice_table *t;
    diag *d;
    const char *path;
    int answer; // current entry, from 1
} reader;

static _Noreturn void wrong(const reader *r, const char *what, const char *word) {
    text t = {.arena = r->d->arena};
    text_add_safe(&t, word, 40);
    diag_fatal(r->d, NULL, "--tune-db '%s': entry %d: %s '%s'", r->path, r->answer, what, text_str(&t));
}

static const char *text_member(const reader *r, const json_t *v, const char *key) {
    const char *s = json_string_value(json_object_get(v, key));
    if (!s) wrong(r, "missing text", key);
    if (strlen(s) > TEXT_MOST) wrong(r, "text too long:", key);
    return s;
}

static double number_member(const reader *r, const json_t *v, const char *key) {
    const json_t *m = json_object_get(v, key);
    if (!json_is_number(m)) wrong(r, "missing number", key);
    double x = json_number_value(m);
    if (fabs(x) > 1e9) wrong(r, "number out of range:", key);
    return x;
}

// The index of a word in "a|b|c", from 1; 0: not found.
static int word_value(const char *words, const char *word) {
    size_t n = strlen(word);
    for (int i = 1; n; i++) {
        size_t length = strcspn(words, "|");
        if (length == n && memcmp(words, word, n) == 0) return i;
        if (!words[length]) return 0;
        words += length + 1;
    }
    return 0;
}

static int choice_value(const reader *r, const choice_field *f, const json_t *v) {
    bool word = f->words && json_is_string(v);
    int64_t value = word ? word_value(f->words, json_string_value(v)) : f->words ? 0 : json_integer_value(v);
    if (value < 1 || value > f->values) wrong(r, "invalid choice for", f->name);
    return (int)value;
}

static choices read_choices(const reader *r, const json_t *v) {
    json_t *all = json_object_get(v, "choices"), *item;
    choices c = {0};
    const char *name;
    if (!json_is_object(all)) wrong(r, "missing object", "choices");
    json_object_foreach(all, name, item) {
        const choice_field *f = choice_fields;
        while (f->name && strcmp(f->name, name) != 0) f++;
        if (!f->name) wrong(r, "unknown choice", name);
        *choice_at(&c, f) = choice_value(r, f, item);
    }
    return c;
}

static void read_answer(const reader *r, const json_t *v) {
    if (!json_is_object(v)) wrong(r, "it is not an", "object");
    choice_entry x = {.kernel = text_member(r, v, "kernel"),
                      .target = text_member(r, v, "target"),
                      .about = text_member(r, v, "about"),
                      .gain = number_member(r, v, "gain")};
    double version = number_member(r, v, "schedules");
    if (strlen(x.kernel) != 16 || strspn(x.kernel, "0123456789abcdef") != 16)
        wrong(r, "not a kernel hash:", x.kernel);
    if (version < 0 || version != (int)version) wrong(r, "not a version:", "schedules");
    if (version != SCHEDULES_VERSION) { // its choices may have another meaning
        r->t->stale++;
        return;
    }
    x.c = read_choices(r, v);
    choice_table_put(r->t, &x);
}

void tune_db_parse(choice_table *t, diag *d, const char *path, const char *s, size_t n) {
    reader r = {t, d, path, 0};
    json_t *all =
        json_parse(t->arena, d, arena_printf(t->arena, "--tune-db '%s' is not valid JSON: ", path), s, n);
    if (strcmp(json_text_of(all, "format"), FORMAT) != 0)
        diag_fatal(d, NULL, "--tune-db '%s' was not written by --tune: \"format\": \"%s\" is missing", path,
                   FORMAT);
    json_t *answers = json_object_get(all, "answers"), *answer;
    if (!json_is_array(answers)) diag_fatal(d, NULL, "--tune-db '%s': the list 'answers' is missing", path);
    size_t j;
    json_array_foreach(answers, j, answer) {
        r.answer = (int)j + 1;
        read_answer(&r, answer);
    }
}

void tune_db_read(choice_table *t, diag *d, const char *path) {
    mapped m = file_map(t->arena, d, path, FILE_MOST);
    tune_db_parse(t, d, path, (const char *)m.data, m.size);
}

// ---------------------------------------------------------------- writing
static int by_place(const void *a, const void *b) {
    const choice_entry *x = *(const choice_entry *const *)a, *y = *(const choice_entry *const *)b;
    int order = strcmp(x->target, y->target);
    return order ? order : strcmp(x->kernel, y->kernel);
}

static void write_choices(json *j, const choices *c) {
    choices one = {0}, all = *c;
    json_open(j, "choices", '{');
    for (const choice_field *f = choice_fields; f->name; f++) {
        int v = *choice_at(&all, f);
        if (!v) continue;
        if (!f->words) {
            json_int(j, f->name, v);
            continue;
        }
        *choice_at(&one, f) = v;
        json_text(j, f->name, strchr(choices_text(j->out.arena, &one), '=') + 1);
        *choice_at(&one, f) = 0;
    }
    json_close(j, '}');
}

static const char *answer_text(arena *a, const choice_entry *x) {
    json j = json_new(a);
    json_open(&j, NULL, '{');
    json_text(&j, "kernel", x->kernel);
    json_text(&j, "target", x->target);
    json_int(&j, "schedules", SCHEDULES_VERSION);
    json_text(&j, "about", x->about);
    write_choices(&j, &x->c);
    json_raw(&j, "gain", arena_printf(a, "%.3f", x->gain));
    json_close(&j, '}');
    return json_done(&j);
}

const char *tune_db_text(arena *a, const choice_table *t) {
    int n = t->entries.n;
    const choice_entry **all = ARENA_ARRAY(a, const choice_entry *, n + 1);
    for (int j = 0; j < n; j++) all[j] = t->entries.slots[j].value;
    if (n) qsort(all, (size_t)n, sizeof *all, by_place);
    text s = {.arena = a};
    text_printf(&s, "{\"format\": \"%s\", \"answers\": [\n", FORMAT);
    for (int j = 0; j < n; j++) text_printf(&s, "%s%s\n", answer_text(a, all[j]), j < n - 1 ? "," : "");
    text_add(&s, "]}\n");
    return text_str(&s);
}

void tune_db_write(const choice_table *t, diag *d, const char *path) {
    arena *a = t->arena;
    struct stat there;
    choice_table *all = choice_table_new(a);
    if (stat(path, &there) == 0 && there.st_size > 0) tune_db_read(all, d, path);
    for (int j = 0; j < t->entries.n; j++) choice_table_put(all, t->entries.slots[j].value);
    const char *s = tune_db_text(a, all);
    outfile_write_whole(a, d, path, (bytes){s, strlen(s)});
}
