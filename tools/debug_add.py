"""What `make debug` runs in the debugger: one addition that autograd records."""
import tede

x = tede.randn(2, 3, requires_grad=True)
y = tede.ones(2, 3)
print(x + y)
