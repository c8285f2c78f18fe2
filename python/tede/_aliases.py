"""Where PyTorch keeps what tede keeps elsewhere: for checkpoints that name classes, and for programs' imports."""

_DISTRIBUTIONS = {
    "bounded": "beta.Beta continuous_bernoulli.ContinuousBernoulli dirichlet.Dirichlet kumaraswamy.Kumaraswamy "
               "logistic_normal.LogisticNormal uniform.Uniform",
    "compound": "independent.Independent mixture_same_family.MixtureSameFamily "
                "transformed_distribution.TransformedDistribution",
    "continuous": "cauchy.Cauchy generalized_pareto.GeneralizedPareto gumbel.Gumbel laplace.Laplace normal.Normal "
                  "studentT.StudentT von_mises.VonMises",
    "discrete": "bernoulli.Bernoulli binomial.Binomial categorical.Categorical geometric.Geometric multinomial.Multinomial "
                "negative_binomial.NegativeBinomial one_hot_categorical.OneHotCategorical poisson.Poisson",
    "distribution": "exp_family.ExponentialFamily",
    "multivariate": "lkj_cholesky.LKJCholesky lowrank_multivariate_normal.LowRankMultivariateNormal "
                    "multivariate_normal.MultivariateNormal wishart.Wishart",
    "positive": "chi2.Chi2 exponential.Exponential fishersnedecor.FisherSnedecor gamma.Gamma half_cauchy.HalfCauchy "
                "half_normal.HalfNormal inverse_gamma.InverseGamma log_normal.LogNormal pareto.Pareto weibull.Weibull",
    "relaxed": "relaxed_bernoulli.RelaxedBernoulli relaxed_categorical.RelaxedOneHotCategorical"}

_SAME = {"amp": "autocast_mode grad_scaler", "cuda.amp": "autocast_mode grad_scaler common", "cuda": "streams graphs memory random",
         "func": "_functorch.apis _functorch.eager_transforms _functorch.functional_call",
         "jit": "_script _trace _state annotations", "nn.parallel": "scatter_gather replicate parallel_apply", "autograd": "variable",
         "multiprocessing": "pool queue", "profiler": "profiler"}

MODULES = {}            # PyTorch's module -> ours, without "torch." and "tede."
CLASSES = {}            # (our module, class) -> PyTorch's module
CLASSES["tede.nn.modules.attention", "MultiheadAttention"] = "torch.nn.modules.activation"
CLASSES["tede.nn.modules._hooks", "_WrappedHook"] = "torch.nn.modules.module"
MODULES["_C._functorch"] = MODULES["_functorch.utils"] = "func._interpreters"
MODULES["_functorch.vmap"] = "func._vmap"
for _name in ("cond", "while_loop", "scan", "associative_scan", "map"):
    MODULES["_higher_order_ops." + _name] = "_higher_order_ops"
MODULES["masked.maskedtensor.core"] = MODULES["masked.maskedtensor.creation"] = "masked.maskedtensor"
MODULES["_dynamo.eval_frame"] = MODULES["_dynamo.decorators"] = "_dynamo"
MODULES["_custom_op.impl"] = "_custom_op"
MODULES["_jit_internal"] = "jit"
MODULES["accelerator.memory"] = "accelerator"
MODULES["autograd.profiler_legacy"] = "autograd.profiler"
MODULES["fx.passes.utils.matcher_utils"] = "fx._matcher"
MODULES["distributed.checkpoint.state_dict"] = "_distributed_state"
MODULES["_C._profiler"] = "profiler"
MODULES["autograd.profiler_util"] = "profiler._averages"
MODULES["cpu.amp"], MODULES["cpu.amp.autocast_mode"], MODULES["cpu.amp.grad_scaler"] = "_cpu_amp", "_cpu_amp", "_cpu_amp"
MODULES["_functorch.deprecated"] = MODULES["_functorch.make_functional"] = "func._functorch"
for _ours, _names in _SAME.items():
    for _name in _names.split():
        MODULES[_name if _name.startswith("_functorch") else f"{_ours}.{_name}"] = _ours
for _ours, _names in _DISTRIBUTIONS.items():
    for _name in _names.split():
        _theirs, _, _name = _name.partition(".")
        MODULES["distributions." + _theirs] = "distributions." + _ours
        CLASSES["tede.distributions." + _ours, _name] = "torch.distributions." + _theirs


def find(module, name):
    """The object that PyTorch's module `module` has under a name; None where there is none."""
    import importlib
    path = module.partition(".")[2]
    places = ["tede." + MODULES.get(path, path) if path else "tede"]
    if path.startswith(("nn.", "optim.")):
        places.append("tede." + path.partition(".")[0])
    for place in places:
        try:
            found = importlib.import_module(place)
            for part in name.split("."):
                found = getattr(found, part)
            return found
        except (ImportError, AttributeError):
            continue
    return None
