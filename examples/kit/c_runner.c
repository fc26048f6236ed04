/* The transformers of the kit in C, forward and backward by hand, held against its files.

   cc -O2 -o c_runner c_runner.c -lm && ./c_runner FILE.safetensors...

   A C99 compiler and libm are all it needs: it stands for an implementation of your own. Exit code 0 where every file passes. */
#include "parts.h"

enum { MOST = 64 }; /* layers, and sentences of a batch */

static double *kept(double *x, int time, const char *kind, const char *at, const char *name) { return as(x, B * time * D, "%s/%s.%s", kind, at, name); }

/* ---- one block of a stack, or one layer of the encoder ---- */

static double *post_block(const char *at, const char *attention, double *x, int time, const int *ends, int causal) {
    double *r_1 = kept(sum(x, attend(in(at, attention), x, time, x, time, ends, causal), B * time * D), time, "activations", at, "residual_1");
    double *u = norm(in(at, "norm_1"), r_1, B * time);
    double *r_2 = kept(sum(u, network(in(at, "feed_forward"), u, B * time), B * time * D), time, "activations", at, "residual_2");
    return norm(in(at, "norm_2"), r_2, B * time);
}

static double *post_block_back(const char *at, const char *attention, double *d, double *x, int time) {
    double *u = get("activations/%s.norm_1.out", at);
    d = kept(norm_back(in(at, "norm_2"), d, B * time), time, "gradients", at, "residual_2");
    d = sum(d, network_back(in(at, "feed_forward"), d, u, B * time), B * time * D);
    d = kept(norm_back(in(at, "norm_1"), d, B * time), time, "gradients", at, "residual_1");
    return kept(sum(d, attend_back_to_itself(in(at, attention), d, x, time), B * time * D), time, "gradients", at, "input");
}

static double *pre_block(const char *at, double *x, int time, const int *ends) {
    double *n = norm(in(at, "norm_1"), x, B * time);
    double *u = kept(sum(x, attend(in(at, "attention"), n, time, n, time, ends, 1), B * time * D), time, "activations", at, "residual_1");
    n = norm(in(at, "norm_2"), u, B * time);
    return kept(sum(u, network(in(at, "feed_forward"), n, B * time), B * time * D), time, "activations", at, "residual_2");
}

static double *pre_block_back(const char *at, double *d, int time) {
    double *n_1 = get("activations/%s.norm_1.out", at), *n_2 = get("activations/%s.norm_2.out", at);
    double *via = network_back(in(at, "feed_forward"), kept(d, time, "gradients", at, "residual_2"), n_2, B * time);
    d = kept(sum(d, norm_back(in(at, "norm_2"), via, B * time), B * time * D), time, "gradients", at, "residual_1");
    via = attend_back_to_itself(in(at, "attention"), d, n_1, time);
    return kept(sum(d, norm_back(in(at, "norm_1"), via, B * time), B * time * D), time, "gradients", at, "input");
}

/* ---- one layer of the decoder ---- */

static double *layer(const char *at, double *x, int time, const int *ends, double *memory, int t_source, const int *source_ends) {
    double *r = kept(sum(x, attend(in(at, "self_attention"), x, time, x, time, ends, 1), B * time * D), time, "activations", at, "residual_1");
    double *n = norm(in(at, "norm_1"), r, B * time);
    double *read = attend(in(at, "cross_attention"), n, time, memory, t_source, source_ends, 0);
    double *c = norm(in(at, "norm_2"), kept(sum(n, read, B * time * D), time, "activations", at, "residual_2"), B * time);
    r = kept(sum(c, network(in(at, "feed_forward"), c, B * time), B * time * D), time, "activations", at, "residual_3");
    return norm(in(at, "norm_3"), r, B * time);
}

/* Adds to *dmemory, which every layer of the decoder has read. */
static double *layer_back(const char *at, double *d, double *x, int time, double *memory, int t_source, double **dmemory) {
    double *n = get("activations/%s.norm_1.out", at), *c = get("activations/%s.norm_2.out", at), *ways[3];
    d = kept(norm_back(in(at, "norm_3"), d, B * time), time, "gradients", at, "residual_3");
    d = sum(d, network_back(in(at, "feed_forward"), d, c, B * time), B * time * D);
    d = kept(norm_back(in(at, "norm_2"), d, B * time), time, "gradients", at, "residual_2");
    attend_back(in(at, "cross_attention"), d, n, time, memory, t_source, ways);
    *dmemory = sum(*dmemory, sum(ways[1], ways[2], B * t_source * D), B * t_source * D);
    d = kept(norm_back(in(at, "norm_1"), sum(d, ways[0], B * time * D), B * time), time, "gradients", at, "residual_1");
    return kept(sum(d, attend_back_to_itself(in(at, "self_attention"), d, x, time), B * time * D), time, "gradients", at, "input");
}

/* ---- logits, loss, and the way back to x ---- */

static double *output(const double *x, int time, const char *table) {
    View view;
    find(kit, "targets", &view);
    const long long *targets = view.x;
    const long long *ends = find(kit, "target_lengths", &view) ? view.x : NULL;
    int last = is(kit, "loss", "reduction", "last"), summed = is(kit, "loss", "reduction", "sum"), scored = 0, n = B * time * V;
    double smoothing = number(kit, "loss", "smoothing"), *loss = zeros(1), *dz = zeros(n), *w = zeros(D * V), *rows = param("%s", table);
    for (int i = 0; i < D * V; i++) w[i] = tied ? rows[i % V * D + i / V] : param("output.w")[i];
    double *z = as(linear(x, B * time, D, V, w, param("output.b")), n, "activations/logits");
    for (int r = 0; r < B * time; r++) {
        int end = ends ? (int)ends[r / time] : time, counts = last ? r % time == end - 1 : r % time < end;
        double top = -INFINITY, total = 0;
        for (int k = 0; k < V; k++) top = fmax(top, z[r * V + k]);
        for (int k = 0; k < V; k++) total += exp(z[r * V + k] - top);
        for (int k = 0; k < V && counts; k++) {
            double log_p = z[r * V + k] - top - log(total), q = (1 - smoothing) * (k == targets[r]) + smoothing / V;
            loss[0] -= q * log_p, dz[r * V + k] = exp(log_p) - q;
        }
        scored += counts;
    }
    for (int i = 0; i < n && !summed; i++) dz[i] /= scored;
    if (!summed) loss[0] /= scored;
    as(loss, 1, "loss"), as(dz, n, "gradients/logits");
    double *dx = zeros(B * time * D), *dw = tied ? grad(V * D, table) : grad(D * V, "output.w"), *db = grad(V, "output.b");
    for (int i = 0; i < n * D; i++) {
        int r = i / D / V, k = i / D % V, j = i % D;
        dx[r * D + j] += dz[r * V + k] * w[j * V + k];
        dw[tied ? k * D + j : j * V + k] += dz[r * V + k] * x[r * D + j];
    }
    for (int i = 0; i < n; i++) db[i % V] += dz[i];
    return dx;
}

/* ---- the two models, each there and back ---- */

static const long long *tokens_of(const char *name, const char *lengths, int *time, int *ends) {
    View tokens, given;
    if (!find(kit, name, &tokens)) return NULL;
    B = tokens.shape[0], *time = tokens.shape[1];
    if (B > MOST) stop("this runner has no room for so many sentences", name);
    const long long *length = find(kit, lengths, &given) ? given.x : NULL;
    for (int b = 0; b < B; b++) ends[b] = length ? (int)length[b] : *time;
    return tokens.x;
}

static const char *at(const char *side, int i) {
    static char names[8][NAME];
    static int next;
    return snprintf(names[next = (next + 1) % 8], NAME, "%s.%d", side, i), names[next];
}

static void one_pass(void) {
    int time, t_source, ends[MOST], source_ends[MOST];
    const long long *tokens = tokens_of("decoder_input", "target_lengths", &time, ends);
    const long long *source = tokens_of("source", "source_lengths", &t_source, source_ends);
    double *x[MOST], *y[MOST], *d; /* what each layer has read */
    if (!source) {
        x[0] = embed("", tokens, time, "embedding");
        for (int i = 0; i < LAYERS; i++) x[i + 1] = post ? post_block(at("block", i), "attention", x[i], time, ends, 1) : pre_block(at("block", i), x[i], time, ends);
        double *out = as(post ? x[LAYERS] : norm("norm", x[LAYERS], B * time), B * time * D, "activations/out");
        d = as(output(out, time, "embedding"), B * time * D, "gradients/out");
        d = post ? d : norm_back("norm", d, B * time);
        for (int i = LAYERS; i--;) d = post ? post_block_back(at("block", i), "attention", d, x[i], time) : pre_block_back(at("block", i), d, time);
        embed_back("", tokens, time, V, "embedding", d);
        return;
    }
    x[0] = embed("encoder.", source, t_source, "source_embedding");
    for (int i = 0; i < LAYERS; i++) x[i + 1] = post_block(at("encoder", i), "self_attention", x[i], t_source, source_ends, 0);
    double *memory = as(x[LAYERS], B * t_source * D, "activations/encoder.memory"), *dmemory = zeros(B * t_source * D);
    y[0] = embed("decoder.", tokens, time, "target_embedding");
    for (int i = 0; i < LAYERS; i++) y[i + 1] = layer(at("decoder", i), y[i], time, ends, memory, t_source, source_ends);
    d = output(as(y[LAYERS], B * time * D, "activations/decoder.out"), time, "target_embedding");
    as(d, B * time * D, "gradients/decoder.out");
    for (int i = LAYERS; i--;) d = layer_back(at("decoder", i), d, y[i], time, memory, t_source, &dmemory);
    embed_back("decoder.", tokens, time, V, "target_embedding", d);
    d = as(dmemory, B * t_source * D, "gradients/encoder.memory");
    for (int i = LAYERS; i--;) d = post_block_back(at("encoder", i), "self_attention", d, x[i], t_source);
    embed_back("encoder.", source, t_source, (int)number(kit, "config", "source_vocab"), "source_embedding", d);
}

/* ---- a step, Adam's first update, a second step, and the second update ---- */

static void update(int t) {
    double lr = number(kit, "adam", "lr"), b_1 = number(kit, "adam", "beta_1"), b_2 = number(kit, "adam", "beta_2"), e = number(kit, "adam", "eps");
    const char *list = told(kit, "", "order");
    char name[NAME];
    View view;
    while (next_name(&list, name)) {
        const char *own = name + strlen("parameters_1/");
        if (strncmp(name, "parameters_1/", strlen("parameters_1/"))) continue;
        find(kit, name, &view);
        double *theta = zeros(view.n), *now = param("%s", own), *g = get("gradients/%s", own);
        pass = "";
        double *m = t > 1 ? get("m/%s", own) : as(zeros(view.n), view.n, "m/%s", own);
        double *v = t > 1 ? get("v/%s", own) : as(zeros(view.n), view.n, "v/%s", own);
        for (int i = 0; i < view.n; i++) {
            m[i] = b_1 * m[i] + (1 - b_1) * g[i], v[i] = b_2 * v[i] + (1 - b_2) * g[i] * g[i];
            theta[i] = now[i] - lr * (m[i] / (1 - pow(b_1, t))) / (sqrt(v[i] / (1 - pow(b_2, t))) + e);
        }
        as(theta, view.n, "parameters_%d/%s", t, own);
        pass = t > 1 ? "again/" : "";
    }
    pass = "";
}

/* Stop where the configuration makes a choice that this runner does not have; `has` as it is written in the file. */
static void only(const char *key, const char *has) {
    const char *at = told(kit, "config", key);
    if (at && strncmp(at, has, strlen(has))) stop("this runner has another", key);
}

static void step(void) {
    D = number(kit, "config", "d_model"), H = number(kit, "config", "n_heads"), KV = number(kit, "config", "n_kv_heads");
    DK = number(kit, "config", "d_k"), DV = number(kit, "config", "d_v"), INNER = number(kit, "config", "d_ff");
    LAYERS = number(kit, "config", "n_layers"), V = number(kit, "config", "target_vocab"), eps = number(kit, "config", "eps");
    layer_norm = is(kit, "config", "norm_kind", "layer"), post = is(kit, "config", "norm", "post"), tied = *told(kit, "config", "tied") == 't';
    rope = is(kit, "config", "positions", "rope"), sines = is(kit, "config", "positions", "sinusoidal");
    swiglu = is(kit, "config", "activation", "swiglu"), gelu_tanh = is(kit, "config", "activation", "gelu_tanh");
    only("scaled", "true"), only("shared", "false"), only("pairing", "\\\"interleaved"), only("biases", "[\\\"feed_forward\\\",\\\"output\\\"]");
    if (!rope && !sines) only("positions", "\\\"none");
    if (LAYERS >= MOST) stop("this runner has no room for so many layers", told(kit, "", "instance"));
    if (!swiglu && !gelu_tanh) only("activation", "\\\"relu");
    count = 0;
    for (int t = 1; t <= 2; t++) pass = t > 1 ? "again/" : "", one_pass(), update(t);
}

/* Every file; a broken one stands for the right one that it names, with its arrays exchanged. */
int main(int files, char **paths) {
    int passed = files > 1;
    for (int i = 1; i < files; i++) {
        File file = open_kit(paths[i]);
        const char *right = told(file, "", "right");
        char whole[4096];
        if (right) {
            const char *slash = strrchr(paths[i], '/'), *end = strstr(right + 2, "\\\"");
            snprintf(whole, sizeof whole, "%.*s%.*s", slash ? (int)(slash - paths[i] + 1) : 0, paths[i], (int)(end - right - 2), right + 2);
        }
        kit = right ? open_kit(whole) : file;
        step();
        passed &= judge(paths[i], kit, file);
    }
    return !passed;
}
