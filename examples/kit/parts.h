/* The parts of the two transformers, each with its way back under it: a pass keeps what it makes under the kit's names, and frees nothing. */
#include "kit_files.h"

static File kit;
static int B, D, H, KV, DK, DV, INNER, LAYERS, V; /* the batch, widths, heads, layers, classes */
static int layer_norm, post, rope, sines, tied, swiglu, gelu_tanh;
static double eps;

static double *param(const char *format, ...) {
    char name[NAME], full[2 * NAME];
    View view;
    va_list values;
    va_start(values, format), vsnprintf(name, NAME, format, values), va_end(values);
    if (*pass) { /* the second step starts from what the first has made */
        const char *now = pass;
        pass = "";
        double *x = get("parameters_1/%s", name);
        return pass = now, x;
    }
    snprintf(full, sizeof full, "parameters/%s", name);
    return find(kit, full, &view) ? (double *)view.x : NULL;
}

/* The gradient of a parameter, to be added to: zeros when it is first asked for. */
static double *grad(int n, const char *name) {
    double *g = get("gradients/%s", name);
    return g ? g : as(zeros(n), n, "gradients/%s", name);
}

static const char *in(const char *room, const char *name) { /* room.name, good until it has been asked for often */
    static char names[32][NAME];
    static int next;
    return snprintf(names[next = (next + 1) % 32], NAME, "%s.%s", room, name), names[next];
}

static double *sum(const double *x, const double *y, int n) {
    double *z = zeros(n);
    for (int i = 0; i < n; i++) z[i] = x[i] + y[i];
    return z;
}

/* ---- linear: y = x w + b ---- */

static double *linear(const double *x, int rows, int from, int to, const double *w, const double *b) {
    double *y = zeros(rows * to);
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < to; j++) {
            for (int i = 0; i < from; i++) y[r * to + j] += x[r * from + i] * w[i * to + j];
            if (b) y[r * to + j] += b[j];
        }
    return y;
}

static double *linear_back(const double *x, const double *dy, int rows, int from, int to, const char *w, const char *b) {
    double *dx = zeros(rows * from), *dw = grad(from * to, w), *db = b ? grad(to, b) : NULL, *weights = param("%s", w);
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < to; j++) {
            for (int i = 0; i < from; i++) {
                dx[r * from + i] += dy[r * to + j] * weights[i * to + j];
                dw[i * to + j] += x[r * from + i] * dy[r * to + j];
            }
            if (b) db[j] += dy[r * to + j];
        }
    return dx;
}

/* ---- embedding: the tokens' rows times sqrt(d), and sines ---- */

static double *embed(const char *side, const long long *tokens, int time, const char *table) {
    double *x = zeros(B * time * D), *rows = param("%s", table);
    for (int i = 0; i < B * time * D; i++) x[i] = sqrt(D) * rows[tokens[i / D] * D + i % D];
    as(x, B * time * D, "activations/%sembedded", side);
    if (sines) {
        double *waves = as(zeros(time * D), time * D, "activations/%spositions", side), *y = zeros(B * time * D);
        for (int i = 0; i < time * D; i++) {
            double angle = i / D / pow(10000, (double)(i % D / 2 * 2) / D);
            waves[i] = i % 2 ? cos(angle) : sin(angle);
        }
        for (int i = 0; i < B * time * D; i++) y[i] = x[i] + waves[i % (time * D)];
        x = y;
    }
    return as(x, B * time * D, "activations/%sinput", side);
}

static void embed_back(const char *side, const long long *tokens, int time, int classes, const char *table, double *dy) {
    double *dtable = grad(classes * D, table);
    as(dy, B * time * D, "gradients/%sinput", side);
    for (int i = 0; i < B * time * D; i++) dtable[tokens[i / D] * D + i % D] += sqrt(D) * dy[i];
}

/* ---- layer norm and RMS norm ---- */

static double *norm(const char *at, const double *x, int rows) {
    double *gamma = param("%s.gamma", at), *beta = param("%s.beta", at), *mean = zeros(rows), *square = zeros(rows);
    double *n = zeros(rows * D), *y = zeros(rows * D);
    for (int r = 0; r < rows; r++) {
        for (int i = 0; i < D && layer_norm; i++) mean[r] += x[r * D + i] / D;
        for (int i = 0; i < D; i++) square[r] += pow(x[r * D + i] - mean[r], 2) / D;
        for (int i = 0; i < D; i++) {
            n[r * D + i] = (x[r * D + i] - mean[r]) / sqrt(square[r] + eps);
            y[r * D + i] = n[r * D + i] * gamma[i] + (beta ? beta[i] : 0);
        }
    }
    if (layer_norm) as(mean, rows, "activations/%s.mean", at);
    as(square, rows, "activations/%s.%s", at, layer_norm ? "var" : "mean_square");
    as(n, rows * D, "activations/%s.normalised", at);
    return as(y, rows * D, "activations/%s.out", at);
}

static double *norm_back(const char *at, double *dy, int rows) {
    double *gamma = param("%s.gamma", at), *n = get("activations/%s.normalised", at), *dx = zeros(rows * D);
    double *square = get("activations/%s.%s", at, layer_norm ? "var" : "mean_square");
    double *dgamma = grad(D, in(at, "gamma")), *dbeta = layer_norm ? grad(D, in(at, "beta")) : NULL;
    as(dy, rows * D, "gradients/%s.out", at);
    for (int r = 0; r < rows; r++) {
        double along_ones = 0, along_n = 0;
        for (int i = 0; i < D; i++) {
            double d = dy[r * D + i] * gamma[i];
            along_ones += layer_norm ? d / D : 0, along_n += d * n[r * D + i] / D;
            dgamma[i] += dy[r * D + i] * n[r * D + i];
            if (dbeta) dbeta[i] += dy[r * D + i];
        }
        for (int i = 0; i < D; i++) dx[r * D + i] = (dy[r * D + i] * gamma[i] - along_ones - n[r * D + i] * along_n) / sqrt(square[r] + eps);
    }
    return dx;
}

/* ---- attention ---- */

/* (batch, time, heads * d) to (batch, heads, time, d), or back. */
static double *turned(const double *x, int time, int heads, int d, int back) {
    double *y = zeros(B * time * heads * d);
    for (int b = 0; b < B; b++)
        for (int t = 0; t < time; t++)
            for (int h = 0; h < heads; h++)
                for (int i = 0; i < d; i++) {
                    int flat = ((b * time + t) * heads + h) * d + i, split = ((b * heads + h) * time + t) * d + i;
                    y[back ? flat : split] = x[back ? split : flat];
                }
    return y;
}

/* RoPE: each pair of coordinates by an angle that grows with the position, forwards or back. */
static double *rotated(const double *x, int time, int heads, int d, int way) {
    double *y = zeros(B * heads * time * d);
    for (int i = 0; i < B * heads * time * d; i += 2) {
        double angle = i / d % time * pow(10000, -(double)(i % d) / d), c = cos(angle), s = way * sin(angle);
        y[i] = x[i] * c - x[i + 1] * s, y[i + 1] = x[i] * s + x[i + 1] * c;
    }
    return y;
}

static double *attend(const char *at, double *x, int tq, double *memory, int tk, const int *ends, int causal) {
    double *qkv[3], *weights = zeros(B * H * tq * tk), *mixed = zeros(B * H * tq * DV), *scores = zeros(B * H * tq * tk);
    for (int i = 0; i < 3; i++) {
        int time = i ? tk : tq, heads = i ? KV : H, d = i < 2 ? DK : DV, n = B * time * heads * d;
        qkv[i] = turned(linear(i ? memory : x, B * time, D, heads * d, param("%s.w_%c", at, "qkv"[i]), NULL), time, heads, d, 0);
        if (rope && i < 2) qkv[i] = rotated(as(qkv[i], n, "activations/%s.%c_unrotated", at, "qkv"[i]), time, heads, d, 1);
        as(qkv[i], n, "activations/%s.%c", at, "qkv"[i]);
    }
    for (int row = 0; row < B * H * tq; row++) { /* one query of one head */
        int b = row / tq / H, kv = b * KV + row / tq % H / (H / KV), t = row % tq;
        double top = -INFINITY, total = 0, *s = scores + row * tk, *w = weights + row * tk;
        for (int j = 0; j < tk; j++) {
            for (int i = 0; i < DK; i++) s[j] += qkv[0][row * DK + i] * qkv[1][(kv * tk + j) * DK + i] / sqrt(DK);
            w[j] = j < ends[b] && !(causal && j > t) ? s[j] : -INFINITY;
            top = fmax(top, w[j]);
        }
        for (int j = 0; j < tk; j++) total += w[j] = exp(w[j] - top);
        for (int j = 0; j < tk; j++) {
            w[j] /= total;
            for (int i = 0; i < DV; i++) mixed[row * DV + i] += w[j] * qkv[2][(kv * tk + j) * DV + i];
        }
    }
    as(scores, B * H * tq * tk, "activations/%s.scores", at), as(weights, B * H * tq * tk, "activations/%s.weights", at);
    as(mixed, B * H * tq * DV, "activations/%s.mixed", at);
    double *concat = as(turned(mixed, tq, H, DV, 1), B * tq * H * DV, "activations/%s.concat", at);
    return as(linear(concat, B * tq, H * DV, D, param("%s.w_o", at), NULL), B * tq * D, "activations/%s.out", at);
}

/* By queries in ways[0], by keys and values in ways[1] and ways[2]. */
static void attend_back(const char *at, double *dy, double *x, int tq, double *memory, int tk, double *ways[3]) {
    double *q = get("activations/%s.q", at), *k = get("activations/%s.k", at), *v = get("activations/%s.v", at);
    double *weights = get("activations/%s.weights", at), *concat = get("activations/%s.concat", at);
    double *dconcat = linear_back(concat, as(dy, B * tq * D, "gradients/%s.out", at), B * tq, H * DV, D, in(at, "w_o"), NULL);
    double *dmixed = turned(as(dconcat, B * tq * H * DV, "gradients/%s.concat", at), tq, H, DV, 0);
    double *dweights = zeros(B * H * tq * tk), *dscores = zeros(B * H * tq * tk);
    double *d[3] = {zeros(B * H * tq * DK), zeros(B * H * tk * DK), zeros(B * H * tk * DV)};
    for (int row = 0; row < B * H * tq; row++) {
        int kv = row / tq / H * KV + row / tq % H / (H / KV), head = row / tq;
        double along = 0, *w = weights + row * tk, *dw = dweights + row * tk, *ds = dscores + row * tk;
        for (int j = 0; j < tk; j++) {
            for (int i = 0; i < DV; i++) {
                dw[j] += dmixed[row * DV + i] * v[(kv * tk + j) * DV + i];
                d[2][(head * tk + j) * DV + i] += w[j] * dmixed[row * DV + i];
            }
            along += w[j] * dw[j];
        }
        for (int j = 0; j < tk; j++) {
            ds[j] = w[j] * (dw[j] - along);
            for (int i = 0; i < DK; i++) {
                d[0][row * DK + i] += ds[j] * k[(kv * tk + j) * DK + i] / sqrt(DK);
                d[1][(head * tk + j) * DK + i] += ds[j] * q[row * DK + i] / sqrt(DK);
            }
        }
    }
    as(dmixed, B * H * tq * DV, "gradients/%s.mixed", at);
    as(dweights, B * H * tq * tk, "gradients/%s.weights", at), as(dscores, B * H * tq * tk, "gradients/%s.scores", at);
    for (int i = 0; i < 3; i++) {
        int time = i ? tk : tq, heads = i ? KV : H, width = i < 2 ? DK : DV, size = time * width, n = B * heads * size;
        if (i && KV < H) { /* neighbouring query heads have read one head of keys and values */
            double *shared = zeros(n);
            for (int j = 0; j < B * H * size; j++) shared[j / size / (H / KV) * size + j % size] += d[i][j];
            as(d[i], B * H * size, "gradients/%s.%c_per_query_head", at, "qkv"[i]), d[i] = shared;
        }
        as(d[i], n, "gradients/%s.%c", at, "qkv"[i]);
        if (rope && i < 2) d[i] = as(rotated(d[i], time, heads, width, -1), n, "gradients/%s.%c_unrotated", at, "qkv"[i]);
        const char *w = in(at, i == 0 ? "w_q" : i == 1 ? "w_k" : "w_v");
        ways[i] = linear_back(i ? memory : x, turned(d[i], time, heads, width, 1), B * time, D, heads * width, w, NULL);
    }
}

static double *attend_back_to_itself(const char *at, double *dy, double *x, int time) {
    double *ways[3];
    attend_back(at, dy, x, time, x, time, ways);
    return sum(sum(ways[0], ways[1], B * time * D), ways[2], B * time * D);
}

/* ---- the feed-forward network ---- */

static double bent(double x, double *slope) {
    if (swiglu) {
        double s = 1 / (1 + exp(-x));
        return *slope = s * (1 + x * (1 - s)), x * s;
    }
    if (gelu_tanh) {
        double root = sqrt(2 / acos(-1)), t = tanh(root * (x + 0.044715 * x * x * x));
        return *slope = (1 + t) / 2 + x / 2 * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x), x / 2 * (1 + t);
    }
    return *slope = x > 0, x > 0 ? x : 0;
}

static double *network(const char *at, const double *x, int rows) {
    int n = rows * INNER;
    double *active = zeros(n), *gate = swiglu ? as(linear(x, rows, D, INNER, param("%s.w_3", at), NULL), n, "activations/%s.gate", at) : NULL, slope;
    double *hidden = as(linear(x, rows, D, INNER, param("%s.w_1", at), param("%s.b_1", at)), n, "activations/%s.hidden", at);
    for (int i = 0; i < n; i++) active[i] = bent(hidden[i], &slope) * (gate ? gate[i] : 1);
    as(active, n, "activations/%s.active", at);
    return as(linear(active, rows, INNER, D, param("%s.w_2", at), param("%s.b_2", at)), rows * D, "activations/%s.out", at);
}

static double *network_back(const char *at, double *dy, const double *x, int rows) {
    int n = rows * INNER;
    double *hidden = get("activations/%s.hidden", at), *gate = get("activations/%s.gate", at), *dhidden = zeros(n), *dgate = zeros(n), slope;
    as(dy, rows * D, "gradients/%s.out", at);
    double *d = linear_back(get("activations/%s.active", at), dy, rows, INNER, D, in(at, "w_2"), in(at, "b_2"));
    as(d, n, "gradients/%s.active", at);
    for (int i = 0; i < n; i++) {
        dgate[i] = d[i] * bent(hidden[i], &slope);
        dhidden[i] = d[i] * slope * (gate ? gate[i] : 1);
    }
    as(dhidden, n, "gradients/%s.hidden", at);
    double *dx = linear_back(x, dhidden, rows, D, INNER, in(at, "w_1"), in(at, "b_1"));
    if (!gate) return dx;
    return sum(dx, linear_back(x, as(dgate, n, "gradients/%s.gate", at), rows, D, INNER, in(at, "w_3"), NULL), rows * D);
}
