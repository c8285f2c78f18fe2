"""Every method that is an operator can be called: some overload of it takes the tensor that it is called on."""
import tede


def test_every_method_has_an_overload():
    unreachable = []
    for name in dir(tede.Tensor):
        if name.startswith("_") or type(getattr(tede.Tensor, name)) is not type(tede.Tensor.add):
            continue
        try:
            getattr(tede.eye(3), name)()
        except Exception as error:
            if "no overload that can be called" in str(error):
                unreachable.append(name)
    assert unreachable == []
    assert tede.eye(2).mul(3).det().item() == 9 and tede.eye(2).slogdet().logabsdet.item() == 0
