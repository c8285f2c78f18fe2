"""Schemas beside older ones of their operator: whether calls written for one run with the other."""
import re

import pytest

# newer, older, whether the newer takes the older's calls, and why its own calls don't run with the older
CASES = [
    ("f(Tensor x, int a)", "f(Tensor x)", False, "the new argument 'a' of type int did not provide a default value"),
    ("f(Tensor x, int a=1)", "f(Tensor x)", True, None),
    ("f(Tensor x, float[] a=[])", "f(Tensor x)", True, r"the new argument 'a' of type float\[\] has a container type as its default value"),
    ("f(Tensor x)", "f(Tensor x, int a=1)", False, None),
    ("f(Tensor x)", "g(Tensor x)", False, ""),
    ("f.a(Tensor x)", "f.b(Tensor x)", False, ""),
    ("f(Tensor x, ...)", "f(Tensor x)", False, ""),
    ("f(Tensor? x)", "f(Tensor x)", True, "'x' is not forward compatible with the older version of the schema"),
    ("f(Scalar x)", "f(int x)", True, "'x' is not forward compatible with the older version of the schema"),
    ("f(int[] x)", "f(int x)", False, "'x' is not forward compatible with the older version of the schema"),
    ("f(int[2] x)", "f(int[] x)", False, "'x' is not forward compatible with the older version of the schema"),
    ("f(Tensor(a) x)", "f(Tensor x)", False, "'x' is not forward compatible with the older version of the schema"),
    ("f(Tensor y)", "f(Tensor x)", False, "'y' is not forward compatible with the older version of the schema"),
    ("f(int x=2)", "f(int x=1)", False, "'x' is not forward compatible with the older version of the schema"),
    ("f(int x)", "f(int x=1)", False, "'x' is not forward compatible with the older version of the schema"),
    ("f(int x=1)", "f(int x)", True, "'x' is not forward compatible with the older version of the schema"),
    ("f(int x)", "f(*, int x)", True, None),
    ("f(*, int x)", "f(int x)", False, "'x' is not forward compatible with the older version of the schema"),
    ("f(int a, int b=1, *, Tensor(a!) o)", "f(int a, *, Tensor(a!) o)", True, None),
    ("f(*, Tensor(a!) o, Tensor(b!) q)", "f(*, Tensor(a!) o)", True, "should have the same number of out arguments"),
    ("f(*, Tensor(a!) o)", "f(*, Tensor(b!) o)", False, "Out argument .* is not FC with the older version of the schema")]


@pytest.mark.parametrize("new, old, backward, why", CASES)
def test_a_schema_takes_calls_of_another_or_says_why_not(lib, new, old, backward, why):
    new, old = (lib._C.parse_schema(f"{text} -> Tensor") for text in (new, old))
    assert new.is_backward_compatible_with(old) is backward
    forward, words = new.check_forward_compatible_with(old)
    assert forward is (why is None)
    assert re.search(why, words) if why else words == ""


def test_results_may_become_narrower(lib):
    parse = lib._C.parse_schema
    plain, optional, two = (parse(f"f(Tensor x) -> {result}") for result in ("Tensor", "Tensor?", "(Tensor, Tensor)"))
    assert plain.is_backward_compatible_with(optional) and not optional.is_backward_compatible_with(plain)
    assert not two.is_backward_compatible_with(plain) and two.check_forward_compatible_with(plain) == (False, "")


def test_arguments_without_number_have_no_defaults(lib):
    assert lib._C.parse_schema("f(int a, ...) -> Tensor").is_backward_compatible_with(lib._C.parse_schema("f(int a, ...) -> Tensor"))
    with pytest.raises(RuntimeError, match=r"schemas with vararg \(...\) can't have default value args"):
        lib._C.parse_schema("f(int a, int b=0, ...) -> ()")


def test_a_schema_without_results_is_an_error(lib):
    with pytest.raises(RuntimeError, match="expected arrow"):
        lib._C.parse_schema("f(int a)")
