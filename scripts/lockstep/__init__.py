"""Checkpoints and runs of Lockstep. load_pytorch and load_keras load checkpoints into other frameworks."""
from lockstep import plot_run
from lockstep.networks import read_checkpoint

__all__ = ["read_checkpoint", "read_run"]


def read_run(path):
    """Returns lists of the rows of a run by kind: "train", "evaluation", ... `path` is its name, its folder or metrics.jsonl."""
    return plot_run.read(plot_run.log_of(path))
