"""tede.package: programs' objects, and the sources of the modules that they need, in one file.  See torch.package.

    with PackageExporter("model.pt") as exporter:
        exporter.intern("my_models.**")
        exporter.extern("numpy.**")
        exporter.save_pickle("model", "model.pkl", model)

    model = PackageImporter("model.pt").load_pickle("model", "model.pkl")
"""
from tede.package import analyze  # noqa: F401
from tede.package.analyze import is_from_package
from tede.package.file_structure_representation import Directory
from tede.package.glob_group import GlobGroup
from tede.package.importer import Importer, ObjMismatchError, ObjNotFoundError, OrderedImporter, sys_importer
from tede.package.package_exporter import EmptyMatchError, PackageExporter, PackagingError
from tede.package.package_importer import PackageImporter

__all__ = ["Directory", "EmptyMatchError", "GlobGroup", "Importer", "ObjMismatchError", "ObjNotFoundError", "OrderedImporter", "PackageExporter",
           "PackageImporter", "PackagingError", "analyze", "is_from_package", "sys_importer"]
