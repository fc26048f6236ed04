/* Reading the kit's .safetensors files, and comparing with them what an implementation has computed. C99, and a machine whose numbers are
   little-endian. A file: the header's length in eight bytes, the header as JSON, and the arrays. Of JSON no more is understood than the kit
   writes: an array stands in the header as "name":{"dtype":"F64","shape":[3,4],"data_offsets":[0,96]}, and what the arrays mean in one string
   of "__metadata__", in which each quotation mark has a backslash. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 128 }; /* room for a name */

typedef struct { char *header; const char *arrays; long size; } File;
typedef struct { const void *x; int n, axes, shape[8]; } View; /* x holds doubles, or the whole numbers of tokens and lengths */

static void stop(const char *why, const char *what) { fprintf(stderr, "%s: %s\n", what, why), exit(2); }

static File open_kit(const char *path) {
    FILE *in = fopen(path, "rb");
    unsigned char length[8];
    if (!in || fread(length, 1, 8, in) != 8) stop("cannot be read", path);
    long header = 0, size;
    for (int i = 7; i >= 0; i--) header = header * 256 + length[i];
    fseek(in, 0, SEEK_END), size = ftell(in) - 8, fseek(in, 8, SEEK_SET);
    if (header <= 0 || header > size) stop("is no file of safetensors", path);
    char *text = malloc(header + 1), *arrays = malloc(size - header + 1);
    if (fread(text, 1, header, in) != (size_t)header || fread(arrays, 1, size - header, in) != (size_t)(size - header)) stop("cannot be read", path);
    text[header] = 0, fclose(in);
    return (File){text, arrays, size - header};
}

/* Whether the file has this array, and where. */
static int find(File file, const char *name, View *view) {
    char key[256];
    snprintf(key, sizeof key, "\"%s\":{", name);
    const char *at = strstr(file.header, key);
    if (!at) return 0;
    at = strstr(at, "\"shape\":[") + 9, view->n = 1, view->axes = 0;
    while (*at != ']') {
        char *end;
        view->n *= view->shape[view->axes++] = (int)strtol(at, &end, 10);
        at = end + (*end == ',');
    }
    long start = strtol(strstr(at, "\"data_offsets\":[") + 16, NULL, 10);
    if (start < 0 || start + 8L * view->n > file.size) stop("stands beyond the file's end", name);
    view->x = file.arrays + start;
    return 1;
}

/* What stands behind a key in the description, or behind a key of one of its parts. */
static const char *told(File file, const char *part, const char *key) {
    char quoted[64];
    const char *at = file.header;
    for (int i = 0; i < 2; i++) {
        const char *name = i ? key : part;
        snprintf(quoted, sizeof quoted, "\\\"%s\\\":", name);
        if (*name && !(at = strstr(at, quoted))) return NULL;
        if (*name) at += strlen(quoted);
    }
    return at;
}

static const char *needed(File file, const char *part, const char *key) {
    const char *at = told(file, part, key);
    if (!at) stop("is not told; this is no right file of the kit", key);
    return at;
}

static double number(File file, const char *part, const char *key) { return strtod(needed(file, part, key), NULL); }

static int is(File file, const char *part, const char *key, const char *word) { return !strncmp(needed(file, part, key) + 2, word, strlen(word)); }

/* The next name of the list that `at` stands in, copied to NAME characters; NULL behind the last. */
static const char *next_name(const char **at, char *name) {
    const char *start = strstr(*at, "\\\""), *end;
    if (!start || strcspn(*at, "]") < (size_t)(start - *at)) return NULL;
    end = strstr(start + 2, "\\\"");
    snprintf(name, NAME, "%.*s", (int)(end - start - 2), start + 2);
    *at = end + 2;
    return name;
}

/* ---- what was computed, by name ---- */

static struct { char name[NAME]; int n; double *x; } made[4096];
static int count;
static const char *pass = ""; /* put before every name */

static double *as(double *x, int n, const char *format, ...) {
    va_list values;
    if (count == sizeof made / sizeof *made) stop("there is no room for so many arrays", format);
    int used = snprintf(made[count].name, NAME, "%s", pass);
    va_start(values, format), vsnprintf(made[count].name + used, NAME - used, format, values), va_end(values);
    made[count].n = n, made[count].x = x, count++;
    return x;
}

static double *zeros(int n) { return calloc(n, sizeof(double)); }

static double *get(const char *format, ...) {
    char name[NAME];
    va_list values;
    int used = snprintf(name, NAME, "%s", pass);
    va_start(values, format), vsnprintf(name + used, NAME - used, format, values), va_end(values);
    for (int i = count; i--;)
        if (!strcmp(made[i].name, name)) return made[i].x;
    return NULL;
}

/* ---- the comparison ---- */

static double larger(double size, double x) { return isfinite(x) && fabs(x) > size ? fabs(x) : size; }

/* max|mine - theirs| <= bound * max(max|mine|, max|theirs|, floor): 1, 0, or -1, too small to tell, where the floor alone would let them pass. */
static int agree(const double *mine, const double *theirs, int n, double bound, double floor, int *place) {
    double worst = -1, size = 0;
    for (int i = 0; i < n; i++) {
        int same = mine[i] == theirs[i] || (isnan(mine[i]) && isnan(theirs[i]));
        double gap = same ? 0 : isnan(mine[i] - theirs[i]) ? INFINITY : fabs(mine[i] - theirs[i]);
        if (gap > worst) worst = gap, *place = i;
        size = larger(larger(size, mine[i]), theirs[i]);
    }
    if (!(worst <= bound * fmax(size, floor))) return 0;
    return worst <= bound * size ? 1 : -1;
}

/* The first stage, in the order of computing, in which the file differs from what was computed; arrays that `exchanged` has stand in the file's place. */
static int judge(const char *path, File right, File exchanged) {
    double bound = number(right, "", "bound"), floor = number(right, "", "floor");
    const char *at = told(right, "", "order"), *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    char stage[NAME];
    int good = 0, small = 0, place = 0;
    while (next_name(&at, stage)) {
        View view;
        int mine = count;
        if (!find(exchanged, stage, &view)) find(right, stage, &view);
        while (mine-- && strcmp(made[mine].name, stage)) {}
        if (mine < 0) return printf("%s: %s was not computed\n", name, stage), 0;
        if (made[mine].n != view.n) return printf("%s: the first wrong stage is %s: %d numbers, %d computed\n", name, stage, view.n, made[mine].n), 0;
        int holds = agree(made[mine].x, view.x, view.n, bound, floor, &place);
        if (!holds) {
            printf("%s: the first wrong stage is %s: %.6g at (", name, stage, ((const double *)view.x)[place]);
            for (int axis = 0, left = view.n, rest = place; axis < view.axes; axis++) {
                left /= view.shape[axis];
                printf("%s%d", axis ? ", " : "", rest / left), rest %= left;
            }
            return printf(") in the file, %.6g computed\n", made[mine].x[place]), 0;
        }
        if (holds > 0) good++;
        else small++;
    }
    return printf("%s: %s: %d stages agree, %d are too small to tell\n", name, good ? "passes" : "no verdict", good, small), good > 0;
}
