"""The ``orcidx`` command, also as ``python -m orcidx``.

While the modules of the command are imported, an interrupt ends the process without a traceback.
"""

import signal

__all__ = ["main"]


def main() -> None:
    """Runs the command line and exits with its code."""
    # A shell without job control starts background jobs with SIGINT ignored. In such a process SIGINT stays ignored.
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    interrupted = signal.signal(signal.SIGINT, signal.SIG_DFL) if raises else None
    from orcidx.cli import main as run

    if interrupted is not None:
        signal.signal(signal.SIGINT, interrupted)
    run()


if __name__ == "__main__":
    main()
