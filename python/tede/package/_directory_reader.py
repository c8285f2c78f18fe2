"""Packages that have been unpacked into a folder."""
import os


class DirectoryReader:
    """The records of an unpacked package, with the methods of the reader of archives."""

    def __init__(self, directory):
        self.directory = os.fspath(directory)

    def _path(self, name):
        return os.path.join(self.directory, name)

    def get_record(self, name):
        with open(self._path(name), "rb") as file:
            return file.read()

    def has_record(self, name):
        return os.path.isfile(self._path(name))

    def get_all_records(self):
        return [os.path.relpath(os.path.join(folder, name), self.directory).replace(os.sep, "/")
                for folder, _, names in sorted(os.walk(self.directory)) for name in sorted(names)]
