"""What this build is. The version is that of the package as programs see it."""
import tede

__version__ = tede.__version__
debug = False
git_version = "unknown"
cuda = hip = xpu = rocm = None
