"""The ``orcidx`` command, also as ``python -m orcidx``.

Until its modules are imported an interrupt ends the process as it does one that is no Python: without a traceback.
"""

import signal

__all__ = ["main"]


def main() -> None:
    """Runs the command line and exits with its code."""
    # where SIGINT is ignored, as behind nohup, it stays so
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    interrupted = signal.signal(signal.SIGINT, signal.SIG_DFL) if raises else None
    from orcidx.cli import main as run

    if interrupted is not None:
        signal.signal(signal.SIGINT, interrupted)
    run()


if __name__ == "__main__":
    main()
