"""Runs commands of OpenStackClient in one process: a JSON list on stdin, a line of JSON for each on stdout."""

import contextlib
import io
import json
import re
import shlex
import sys

from openstackclient.shell import OpenStackShell

# What a page leaves out is no mistake of the command that it names.
LEFT_OUT = re.compile("the following arguments are required|expected (one|at least one) argument|is required")


def parse(shell, argv):
    """Has the client read a command, after the options that are not the command's."""
    _, argv = shell.parser.parse_known_args(argv)
    factory, name, rest = shell.command_manager.find_command(argv)
    try:
        factory(shell, None).get_parser(" ".join(name)).parse_args(rest)
    except SystemExit as e:
        return e.code
    return 0


def main():
    shell = None
    for typed in json.load(sys.stdin):
        argv = shlex.split(typed["command"])[1:]
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                if typed["parse"]:
                    status = parse(shell, argv)
                    if status and LEFT_OUT.search(said.getvalue()):
                        status = 0
                else:
                    shell = OpenStackShell()
                    status = shell.run(["--os-cloud=" + typed["cloud"]] + argv)
            except (Exception, SystemExit) as e:  # the answer has it
                print(repr(e))
                status = getattr(e, "code", None) or 1
        print(json.dumps({"status": status or 0, "output": said.getvalue()}))


main()
