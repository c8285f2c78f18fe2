"""What a process writes of the error that ended it: the file that TORCHELASTIC_ERROR_FILE names,
{"message": {"message": text, "extraInfo": {"py_callstack": traceback, "timestamp": seconds}}}."""
import faulthandler
import json
import os
import time
import traceback
import warnings

__all__ = ["ErrorHandler"]


def _set_code(data, code):
    """Put the process's exit code in what is to be reported."""
    if isinstance(data["message"], dict):
        data["message"]["errorCode"] = code
    else:
        data["errorCode"] = code


class ErrorHandler:
    def _get_error_file_path(self):
        return os.environ.get("TORCHELASTIC_ERROR_FILE")

    def initialize(self):
        """Let signals such as SIGSEGV print a traceback."""
        try:
            faulthandler.enable(all_threads=True)
        except Exception as error:
            warnings.warn(f"Unable to enable fault handler. {type(error).__name__}: {error}")

    def _write_error_file(self, path, text):
        with open(path, "w") as file:
            file.write(text)

    def record_exception(self, e):
        """Write an exception to the error file, if there is one."""
        path = self._get_error_file_path()
        if path:
            about = {"py_callstack": "".join(traceback.format_exception(e)), "timestamp": str(int(time.time()))}
            self._write_error_file(path, json.dumps({"message": {"message": f"{type(e).__name__}: {e}", "extraInfo": about}}))

    def override_error_code_in_rootcause_data(self, rootcause_error_file, rootcause_error, error_code=0):
        if "message" not in rootcause_error:
            warnings.warn(f"child error file ({rootcause_error_file}) does not have field `message`, so no exit code is put there")
        else:
            _set_code(rootcause_error, error_code)

    def dump_error_file(self, rootcause_error_file, error_code=0):
        """Make a child's error file this process's."""
        with open(rootcause_error_file) as file:
            found = json.load(file)
        if error_code:
            self.override_error_code_in_rootcause_data(rootcause_error_file, found, error_code)
        path = self._get_error_file_path()
        if path:
            self._write_error_file(path, json.dumps(found))
