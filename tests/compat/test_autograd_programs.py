"""Programs that end alike on tede and on PyTorch: views written in place, Functions, hooks, passes inside passes, and how they fail.

A program gives a value or an error message for each thing that it tries; what both libraries give is compared as text.
"""
import re
import traceback
import warnings
from importlib import import_module

import pytest


def L(lib, *data):
    return lib.tensor([float(x) for x in data], requires_grad=True)


def V(x):
    return None if x is None else x.detach().tolist()


def err(f):
    """What f gives, or how it fails."""
    try:
        return f()
    except Exception as error:      # noqa: BLE001  its type and text are what is compared
        return f"{type(error).__name__}: {error}"


def outcome(program, lib):
    lib.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = repr(err(lambda: program(lib)))
    return re.sub(r"0x[0-9a-f]+", "0x", text.replace("tede", "torch"))


def program_view_of_leaf_requires_grad(lib):
    a = lib.zeros(4)
    v = a[:2]
    out = [err(lambda: v.requires_grad_().requires_grad), a.requires_grad, v.is_leaf, v._is_view(), v._base is a]
    v2 = a[2:]
    b = (v * 2).sum()
    b.backward()
    return out + [V(v.grad), a.grad is None]


def program_requires_grad_on_view_then_inplace(lib):
    a = lib.zeros(4)
    v = a[:2]
    v.requires_grad_()
    return [err(lambda: V(v.mul_(2))), err(lambda: V(a.mul_(2)))]


def program_leaf_view_modified_no_grad(lib):
    x = L(lib, 1, 2, 3)
    with lib.no_grad():
        v = x[:2]
    return [v.requires_grad, v.is_leaf, err(lambda: V(v.add_(1))), V(x)]


def program_multi_view_then_nograd_inplace(lib):
    x = L(lib, 1, 2, 3, 4) * 1
    a, b = x.unbind()[:2]
    with lib.no_grad():
        a.mul_(3)
    return [V(x), err(lambda: V(a * 2)), err(lambda: type(a.grad_fn).__name__)]


def program_multi_view_of_nonrequires(lib):
    x = lib.zeros(4)
    a, b = x.split(2)
    w = L(lib, 1, 2)
    return [err(lambda: V(a.copy_(w))), x.requires_grad, err(lambda: a.requires_grad)]


def program_view_of_multi_view(lib):
    x = L(lib, 1, 2, 3, 4) * 1
    a, b = x.split(2)
    c = a[:1]
    return [err(lambda: V(c.mul_(2))), c._is_view()]


def program_custom_fn_view_inplace(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            return x.view(-1)

        @staticmethod
        def backward(ctx, g):
            return g.view(2, 2)
    x = lib.ones(2, 2, requires_grad=True) * 2
    y = F.apply(x)
    return [y._is_view(), err(lambda: V(y.mul_(2))), err(lambda: V(x.mul_(2))), err(lambda: V(y * 1))]


def program_custom_fn_two_views(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            return (x[:1], x[1:])

        @staticmethod
        def backward(ctx, a, b):
            return lib.cat([a, b])
    x = L(lib, 1, 2) * 1
    a, b = F.apply(x)
    return [err(lambda: V(a.mul_(2))), a._is_view()]


def program_custom_fn_returns_input_and_view(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            return (x, x + 1)

        @staticmethod
        def backward(ctx, a, b):
            return a + b
    x = L(lib, 1, 2)
    a, b = F.apply(x)
    return [a is x, a._is_view(), a.requires_grad, type(a.grad_fn).__name__, err(lambda: V(a.add_(1)))]


def program_custom_dirty_view(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2
    base = L(lib, 1, 2, 3) * 1
    v = base[:2]
    y = err(lambda: F.apply(v))
    if isinstance(y, str):
        return y
    r = [y is v, type(base.grad_fn).__name__, type(v.grad_fn).__name__]
    g, = lib.autograd.grad(base.sum(), [base], allow_unused=True)
    return r + [V(g)]


def program_custom_dirty_not_returned(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x + 1

        @staticmethod
        def backward(ctx, g):
            return g
    return err(lambda: V(F.apply(L(lib, 1) * 1)))


def program_custom_return_nontensor(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            return (x * 2, 'a', None, 3)

        @staticmethod
        def backward(ctx, *g):
            return g[0] * 2 if g[1] is None else 'bad'
    r = F.apply(L(lib, 1))
    r[0].backward()
    return [len(r), r[1:]]


def program_custom_too_few_grads(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g
    return err(lambda: F.apply(L(lib, 1), L(lib, 2)).backward())


def program_custom_grad_for_nontensor(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x, k):
            return x * k

        @staticmethod
        def backward(ctx, g):
            return (g, g)
    return err(lambda: F.apply(L(lib, 1), 2).backward())


def program_custom_nontensor_grad(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return 3
    return err(lambda: F.apply(L(lib, 1)).backward())


def program_legacy_function(lib):

    class F(lib.autograd.Function):

        def forward(self, x):
            return x

        def backward(self, g):
            return g
    return [err(lambda: F()(L(lib, 1))), err(lambda: F.apply(L(lib, 1)))]


def program_apply_kwargs(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x, k=2):
            return x * k

        @staticmethod
        def backward(ctx, g):
            return (g, None)
    return [V(F.apply(L(lib, 1))), err(lambda: F.apply(L(lib, 1), k=3))]


def program_saved_twice_dirty(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return g * x
    return err(lambda: F.apply(L(lib, 1) * 1).sum().backward())


def program_saved_tensor_modified(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            return g * x
    x = L(lib, 1) * 1
    y = F.apply(x)
    x.add_(1)
    return err(lambda: y.backward()).split(' Hint')[0][:200]


def program_view_replay_inplace_then_view_use(lib):
    x = L(lib, 1, 2, 3, 4)
    y = x * 1
    a = y.view(2, 2)
    b = a.t()
    y.mul_(2)
    b.add_(1)
    z = (a * b).sum()
    z.backward()
    return [V(x.grad), type(a.grad_fn).__name__, type(b.grad_fn).__name__]


def program_expand_inplace(lib):
    x = L(lib, 1)
    y = (x * 1).expand(3)
    return err(lambda: V(y.add_(1)))


def program_copy_into_leaf_slice(lib):
    x = L(lib, 1, 2, 3)
    return [err(lambda: x.__setitem__(0, 5.0)), err(lambda: x.data.__setitem__(0, 5.0)), V(x), x._version]


def program_detach_resize(lib):
    x = L(lib, 1, 2)
    d = x.detach()
    return [err(lambda: V(d.resize_(3).shape and d[:2])), err(lambda: d.requires_grad_().requires_grad), x.requires_grad]


def program_inplace_changes_leafness(lib):
    x = lib.ones(2)
    w = L(lib, 1, 2)
    x.mul_(w)
    return [x.requires_grad, x.is_leaf, type(x.grad_fn).__name__]


def program_inplace_under_no_grad_on_graph(lib):
    x = L(lib, 1, 2)
    y = x * 2
    with lib.no_grad():
        y.mul_(5)
    y.sum().backward()
    return [V(x.grad), type(y.grad_fn).__name__]


def program_backward_twice_with_saved_attr(lib):
    x = L(lib, 1, 2)
    y = (x * x).sum()
    z = y.grad_fn.next_functions[0][0]
    y.backward()
    return [err(lambda: z._saved_self)]


def program_hook_wrong_type_shape(lib):
    r = []
    for bad in (lambda g: g.double(), lambda g: g[:1], lambda g: g.unsqueeze(0)):
        x = L(lib, 1, 2)
        y = x * 2
        y.register_hook(bad)
        r.append(err(lambda: (y.sum().backward(), str(x.grad.dtype).split('.')[-1], V(x.grad))[1:]))
    return r


def program_hook_order_inplace(lib):
    log = []
    x = L(lib, 1, 2)
    y = x * 1
    y.register_hook(lambda g: log.append('a'))
    y.mul_(2)
    y.register_hook(lambda g: log.append('b'))
    y.sum().backward()
    return log


def program_hook_with_context(lib):
    x = L(lib, 1, 2)
    with x.register_hook(lambda g: g * 2) as h:
        (x * 1).sum().backward()
    (x * 1).sum().backward()
    return V(x.grad)


def program_retain_grad_cases(lib):
    x = L(lib, 1, 2)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    y.sum().backward()
    r = [V(y.grad), V(x.grad), x.retains_grad, y.retains_grad]
    x.retain_grad()
    return r + [x.retains_grad, err(lambda: lib.ones(1).retain_grad())]


def program_retain_grad_inplace_then_view(lib):
    x = L(lib, 1, 2)
    y = x * 2
    y.retain_grad()
    v = y[:1]
    v.mul_(3)
    y.sum().backward()
    return [V(y.grad), V(x.grad)]


def program_post_acc_not_run_in_grad(lib):
    x = L(lib, 1, 2)
    log = []
    x.register_post_accumulate_grad_hook(lambda t: log.append(1))
    lib.autograd.grad((x * 1).sum(), x)
    return log


def program_post_acc_returns(lib):
    x = L(lib, 1)
    x.register_post_accumulate_grad_hook(lambda t: t.grad * 2)
    return err(lambda: (x * 1).sum().backward() or V(x.grad))


def program_node_hooks_order(lib):
    x = L(lib, 1)
    y = x * 2
    log = []
    y.grad_fn.register_prehook(lambda g: log.append(('pre', V(g[0]))))
    y.register_hook(lambda g: log.append(('t', V(g))) or g * 2)
    y.grad_fn.register_hook(lambda i, o: log.append(('post', V(i[0]), V(o[0]))))
    y.backward()
    return log


def program_node_hook_bad_return(lib):
    r = []
    for bad in (3, lib.ones(1), (), (lib.ones(1), lib.ones(1)), ('a',)):
        x = L(lib, 1)
        y = x * 2
        y.grad_fn.register_prehook(lambda g: bad)
        r.append(err(lambda: y.backward() or V(x.grad)))
        x = L(lib, 1)
        y = x * 2
        y.grad_fn.register_hook(lambda i, o: bad)
        r.append(err(lambda: y.backward() or V(x.grad)))
    return r


def program_accumulate_node_hook(lib):
    x = L(lib, 1)
    n = x.view_as(x).grad_fn.next_functions[0][0]
    log = []
    n.register_hook(lambda i, o: log.append((len(i), len(o))))
    n.register_prehook(lambda g: log.append('pre'))
    (x * 1).sum().backward()
    return log


def program_gradient_edge(lib):
    g = lib.autograd.graph
    x = L(lib, 1, 2)
    y = x * 2
    e = g.get_gradient_edge(y)
    out = [type(e).__name__, e.output_nr, V(lib.autograd.grad(y.sum(), e, retain_graph=True)[0])]
    s = g.get_gradient_edge((y * 3).sum())
    out.append(V(lib.autograd.grad(s, x)[0]))
    return out + [err(lambda: g.get_gradient_edge(lib.ones(1)))]


def program_grad_edge_multi_output(lib):
    g = lib.autograd.graph
    x = L(lib, 1, 2)
    a, b = (x * 1).unbind()
    e = g.get_gradient_edge(b)
    return [e.output_nr, V(lib.autograd.grad(a + b * 3, e)[0])]


def program_node_call(lib):
    x = L(lib, 1, 2)
    y = x * 3
    return [err(lambda: V(y.grad_fn(lib.ones(2)))), err(lambda: [V(t) for t in y.grad_fn(lib.ones(2))])]


def program_saved_on_cpu(lib):
    x = L(lib, 1, 2)
    with lib.autograd.graph.save_on_cpu(pin_memory=False):
        y = x * x
    y.sum().backward()
    return V(x.grad)


def program_inference_mode_nested(lib):
    with lib.inference_mode():
        with lib.inference_mode(False):
            a = lib.ones(1, requires_grad=True)
            b = a * 2
        c = lib.ones(1)

    @lib.inference_mode
    def f():
        return lib.is_inference_mode_enabled()
    return [a.is_inference(), b.requires_grad, c.is_inference(), f(), lib.is_grad_enabled()]


def program_exception_in_fn_leaves_usable(lib):
    flag = [True]

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if flag[0]:
                raise KeyError('x')
            return g * ctx.saved_tensors[0]
    x = L(lib, 3)
    y = F.apply(x * 1)
    r = [err(lambda: y.backward(retain_graph=True))]
    flag[0] = False
    r.append(err(lambda: y.backward()))
    r.append(V(x.grad))
    return r


def program_exception_type_from_hook(lib):

    class E(Exception):
        pass
    x = L(lib, 1)
    y = x * 2

    def h(g):
        raise E('mine')
    y.register_hook(h)
    try:
        y.backward()
    except E as e:
        tb = [f.name for f in traceback.extract_tb(e.__traceback__)]
        return ['h' in tb, str(e), e.__cause__]


def program_reentrant(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            ctx.x = x.detach()
            return (x * x).detach()

        @staticmethod
        def backward(ctx, g):
            with lib.enable_grad():
                x = ctx.x.requires_grad_()
                y = (x * x).sum()
                y.backward()
            return x.grad * g
    x = L(lib, 3)
    y = F.apply(x)
    z = y * 2
    z.backward()
    return V(x.grad)


def program_reentrant_deep(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, n, x):
            ctx.n = n
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if ctx.n:
                with lib.enable_grad():
                    x = lib.ones(1, requires_grad=True)
                    F.apply(ctx.n - 1, x).sum().backward()
            return (None, g)
    x = L(lib, 1)
    F.apply(150, x).sum().backward()
    return V(x.grad)


def program_reentrant_error(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            with lib.enable_grad():
                x = lib.ones(1, requires_grad=True)
                y = x * 2
                y.register_hook(lambda g: 1 / 0)
                y.sum().backward()
            return g
    x = L(lib, 1)
    r = [err(lambda: F.apply(x).backward())]
    (x * 2).backward()
    return r + [V(x.grad)]


def program_queue_callback(lib):
    log = []
    V_ = lib.autograd.Variable
    x = L(lib, 1)
    x.register_hook(lambda g: V_._execution_engine.queue_callback(lambda: log.append('end')) or log.append('hook'))
    (x * 2).backward()
    return log


def program_checkpoint_both(lib):
    ck = import_module(lib.__name__ + '.utils.checkpoint').checkpoint
    r = []
    for re in (True, False):
        n = [0]

        def f(x):
            n[0] += 1
            return (x * x).exp()
        x = L(lib, 0.5, 1)
        y = ck(f, x, use_reentrant=re)
        y.sum().backward()
        r += [n[0], [round(v, 4) for v in V(x.grad)]]
        r.append(err(lambda: lib.autograd.grad(ck(f, x, use_reentrant=re).sum(), x)[0].shape))
    return r


def program_checkpoint_mismatch(lib):
    ck = import_module(lib.__name__ + '.utils.checkpoint').checkpoint
    n = [0]

    def f(x):
        n[0] += 1
        return x.exp() * x if n[0] == 1 else x * 2
    x = L(lib, 1)
    y = ck(f, x, use_reentrant=False)
    return err(lambda: y.backward())[:120]


def program_output_nr(lib):
    a, b = (L(lib, 1, 2) * 1).unbind()
    return [a.output_nr, b.output_nr, L(lib, 1).output_nr]


def program_once_diff(lib):
    od = import_module(lib.__name__ + '.autograd.function').once_differentiable

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @od
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]
    x = L(lib, 3)
    g, = lib.autograd.grad(F.apply(x), x, create_graph=True)
    return [g.requires_grad, type(g.grad_fn).__name__, err(lambda: g.backward())]


def program_materialize_none_list(lib):

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            return (x.clone(), x.clone())

        @staticmethod
        def backward(ctx, a, b):
            return a + b
    x = L(lib, 1, 2)
    F.apply(x)[0].sum().backward()
    return V(x.grad)


def program_custom_fn_jvp(lib):
    fw = lib.autograd.forward_ad

    class F(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            return x * x

        @staticmethod
        def jvp(ctx, t):
            return 2 * ctx.x * t

        @staticmethod
        def backward(ctx, g):
            return g

    class G(lib.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            return x * x
    with fw.dual_level():
        d = fw.make_dual(lib.tensor([3.0]), lib.tensor([1.0]))
        p, t = fw.unpack_dual(F.apply(d))
        return [V(p), V(t), err(lambda: G.apply(d))]


def program_sparse_free_accumulate(lib):
    x = L(lib, 1, 2)
    x.grad = lib.ones(2)
    g = x.grad
    (x * 2).sum().backward()
    r = [x.grad is g, V(g)]
    (x * 2).sum().backward(create_graph=True)
    return r + [x.grad is g, V(g), V(x.grad)]


def program_grad_layout(lib):
    x = lib.ones(2, 3).t().clone(memory_format=lib.preserve_format).requires_grad_()
    (x * 2).sum().backward()
    return [x.stride(), x.grad.stride()]


def program_hook_remove_during(lib):
    x = L(lib, 1)
    hs = []
    log = []

    def a(g):
        log.append('a')
        hs[1].remove()
    hs.append(x.register_hook(a))
    hs.append(x.register_hook(lambda g: log.append('b')))
    (x * 1).backward()
    (x * 1).backward()
    return log


def program_inplace_on_view_of_view_grad(lib):
    x = lib.arange(6.0, dtype=lib.float64).requires_grad_()
    b = x * 1
    v = b.view(2, 3)[1]
    w = v[::2]
    w.pow_(2)
    v.mul_(2)
    (b * lib.arange(6.0, dtype=lib.float64)).sum().backward()
    return [V(x.grad), type(v.grad_fn).__name__, type(w.grad_fn).__name__, type(b.grad_fn).__name__]


def program_set_item_various(lib):
    x = L(lib, 1, 2, 3, 4)
    r = []
    for key in (0, slice(1, 3), lib.tensor([0, 2]), lib.tensor([True, False, True, False]), Ellipsis):
        y = x * 1
        w = L(lib, 5)
        y[key] = w
        y.sum().backward()
        r.append([V(x.grad), V(w.grad)])
        x.grad = None
    return r


PROGRAMS = [value for name, value in sorted(globals().items()) if name.startswith("program_")]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__[8:])
def test_programs_end_alike(both, program):
    tede, torch = both
    assert outcome(program, tede) == outcome(program, torch)

