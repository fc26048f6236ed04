"""A GPT in NumPy as somebody might write it: time first, matrices (out, in), q, k and v in one, float32."""

import numpy as np

VOCAB, TIME, D, HEADS, INNER, LAYERS = 11, 12, 8, 2, 20, 2


def new_weights(seed=0):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return (0.4 * rng.normal(size=shape)).astype(np.float32)

    blocks = [
        dict(
            ln1_g=1 + draw(D), ln1_b=draw(D), Wqkv=draw(3 * D, D), bqkv=draw(3 * D), Wo=draw(D, D), bo=draw(D),
            ln2_g=1 + draw(D), ln2_b=draw(D), W1=draw(INNER, D), b1=draw(INNER), W2=draw(D, INNER), b2=draw(D),
        )
        for _ in range(LAYERS)
    ]  # fmt: skip
    return dict(wte=draw(VOCAB, D), wpe=draw(TIME, D), blocks=blocks, lnf_g=1 + draw(D), lnf_b=draw(D), head=draw(VOCAB, D))


def norm(x, g, b):
    mean = x.mean(-1, keepdims=True)
    r = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
    hat = (x - mean) * r
    return g * hat + b, (hat, r, g)


def norm_back(dy, saved):
    hat, r, g = saved
    d = dy * g
    dx = r * (d - d.mean(-1, keepdims=True) - hat * (d * hat).mean(-1, keepdims=True))
    return dx, (dy * hat).sum((0, 1)), dy.sum((0, 1))


def gelu(x):
    t = np.tanh(0.7978845608 * (x + 0.044715 * x**3))
    return 0.5 * x * (1 + t), (x, t)


def gelu_back(dy, saved):
    x, t = saved
    return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * 0.7978845608 * (1 + 3 * 0.044715 * x**2))


def attend(x, w):
    T, B, _ = x.shape
    q, k, v = np.split(x @ w["Wqkv"].T + w["bqkv"], 3, axis=-1)
    q, k, v = (a.reshape(T, B, HEADS, D // HEADS) for a in (q, k, v))
    s = np.einsum("tbhd,sbhd->bhts", q, k) / (D // HEADS) ** 0.5
    s = np.where(np.tri(T, dtype=bool), s, np.float32(-1e9))
    e = np.exp(s - s.max(-1, keepdims=True))
    a = e / e.sum(-1, keepdims=True)
    mixed = np.einsum("bhts,sbhd->tbhd", a, v).reshape(T, B, D)
    return mixed @ w["Wo"].T + w["bo"], (x, q, k, v, a, mixed)


def attend_back(dy, w, g, saved):
    x, q, k, v, a, mixed = saved
    g["Wo"], g["bo"] = np.einsum("tbo,tbi->oi", dy, mixed), dy.sum((0, 1))
    dmixed = (dy @ w["Wo"]).reshape(q.shape)
    da = np.einsum("tbhd,sbhd->bhts", dmixed, v)
    dv = np.einsum("bhts,tbhd->sbhd", a, dmixed)
    ds = a * (da - (da * a).sum(-1, keepdims=True)) / (D // HEADS) ** 0.5
    dq, dk = np.einsum("bhts,sbhd->tbhd", ds, k), np.einsum("bhts,tbhd->sbhd", ds, q)
    dqkv = np.concatenate([d.reshape(x.shape) for d in (dq, dk, dv)], axis=-1)
    g["Wqkv"], g["bqkv"] = np.einsum("tbo,tbi->oi", dqkv, x), dqkv.sum((0, 1))
    return dqkv @ w["Wqkv"]


def forward(w, tokens):
    """tokens: (time, batch)"""
    x, saved = w["wte"][tokens] + w["wpe"][: len(tokens), None], []
    for b in w["blocks"]:
        n1, s1 = norm(x, b["ln1_g"], b["ln1_b"])
        y, s2 = attend(n1, b)
        x = x + y
        n2, s3 = norm(x, b["ln2_g"], b["ln2_b"])
        h, s4 = gelu(n2 @ b["W1"].T + b["b1"])
        x = x + h @ b["W2"].T + b["b2"]
        saved.append((s1, s2, n2, s3, h, s4))
    n, s = norm(x, w["lnf_g"], w["lnf_b"])
    return n @ w["head"].T, (n, s, saved)


def backward(w, tokens, dz, saved):
    n, s, saved = saved
    g = dict(head=np.einsum("tbv,tbd->vd", dz, n), blocks=[{} for _ in w["blocks"]])
    dx, g["lnf_g"], g["lnf_b"] = norm_back(dz @ w["head"], s)
    for b, gb, (s1, s2, n2, s3, h, s4) in reversed(list(zip(w["blocks"], g["blocks"], saved))):
        gb["W2"], gb["b2"] = np.einsum("tbo,tbi->oi", dx, h), dx.sum((0, 1))
        dh = gelu_back(dx @ b["W2"], s4)
        gb["W1"], gb["b1"] = np.einsum("tbo,tbi->oi", dh, n2), dh.sum((0, 1))
        d, gb["ln2_g"], gb["ln2_b"] = norm_back(dh @ b["W1"], s3)
        dx = dx + d
        d, gb["ln1_g"], gb["ln1_b"] = norm_back(attend_back(dx, b, gb, s2), s1)
        dx = dx + d
    g["wte"], g["wpe"] = np.zeros_like(w["wte"]), np.zeros_like(w["wpe"])
    np.add.at(g["wte"], tokens, dx)
    g["wpe"][: len(tokens)] = dx.sum(1)
    return g


def loss(z, targets):
    p = np.exp(z - z.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    right = (*np.indices(targets.shape), targets)
    value = -np.log(p[right]).mean()
    dz = p
    dz[right] -= 1
    return value, dz / targets.size


def adam(w, g, m, v, t, lr=1e-2):
    """One step for a weight, or for a dict or list of them; m and v change."""
    if isinstance(w, np.ndarray):
        m[...] = 0.9 * m + 0.1 * g
        v[...] = 0.999 * v + 0.001 * g**2
        return w - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    keys = w if isinstance(w, dict) else range(len(w))
    new = {k: adam(w[k], g[k], m[k], v[k], t, lr) for k in keys}
    return new if isinstance(w, dict) else list(new.values())


def zeros(w):
    if isinstance(w, np.ndarray):
        return np.zeros_like(w)
    return {k: zeros(w[k]) for k in w} if isinstance(w, dict) else [zeros(a) for a in w]


def gradients(w, tokens, targets):
    z, saved = forward(w, tokens)
    value, dz = loss(z, targets)
    return z, value, backward(w, tokens, dz, saved)


def step(tokens, targets):
    """For the check: two updates on this batch, and what was computed on the way."""
    w = new_weights()
    m, v = zeros(w), zeros(w)
    z, value, g = gradients(w, tokens.T, targets.T)
    first = adam(w, g, m, v, 1)
    second = adam(first, gradients(first, tokens.T, targets.T)[2], m, v, 2)
    found = dict(params=w, logits=z, loss=value, gradients=g)
    return found | dict(params_1=first, params_2=second)
