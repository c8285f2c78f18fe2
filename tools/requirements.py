"""Prints the requirements that pyproject.toml declares, for the groups named: build, runtime, or an extra's name."""
import pathlib
import sys
import tomllib

project = tomllib.loads((pathlib.Path(__file__).resolve().parent.parent / 'pyproject.toml').read_text())
groups = {'build': project['build-system']['requires'], 'runtime': project['project']['dependencies'],
          **project['project']['optional-dependencies']}
print(*(requirement.replace(' ', '') for name in sys.argv[1:] for requirement in groups[name]), sep='\n')
