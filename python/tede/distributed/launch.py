"""python -m torch.distributed.launch: as torch.distributed.run, with static ranks, and --local-rank=N among the program's arguments unless --use-env is given."""
import sys

from tede.distributed.run import get_args_parser, run

__all__ = ["launch", "main", "parse_args"]


def parse_args(args):
    parser = get_args_parser()
    parser.add_argument("--use-env", "--use_env", default=False, action="store_true", help="the local rank is in LOCAL_RANK alone")
    return parser.parse_args(args)


def launch(args):
    if args.no_python and not args.use_env:
        raise ValueError("When using the '--no-python' flag, you must also set the '--use-env' flag.")
    run(args)


def main(args=None):
    launch(parse_args(sys.argv[1:] if args is None else args))


if __name__ == "__main__":
    main()
