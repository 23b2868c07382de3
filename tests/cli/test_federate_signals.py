"""What ends a command from outside takes the way of Ctrl-C."""

import os
import signal
import threading
from collections.abc import Callable

import pytest
import typer

from pdmm.cli.federate.showing import explained
from pdmm.cli.federate.signals import as_ctrl_c
from pdmm.cli.terminal import terminal


def command(number: signal.Signals, take_down: Callable[[], object]) -> None:
    """A command to which somebody sends a signal."""
    with explained(terminal()):
        try:
            os.kill(os.getpid(), number)
            threading.Event().wait(60)
        finally:
            take_down()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_command_in_order(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    taken_down: list[bool] = []
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(typer.Exit) as caught:
            command(number, lambda: taken_down.append(True))
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert caught.value.exit_code == 128 + number
    assert taken_down == [True]
    assert "Stopped." in capsys.readouterr().out


def test_a_terminal_that_is_closed_changes_no_exit_code() -> None:
    """The words of a command cannot be written there any more."""

    def closed() -> None:
        raise OSError("input/output error")

    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with pytest.raises(typer.Exit) as caught:
            command(signal.SIGHUP, closed)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert caught.value.exit_code == 128 + signal.SIGHUP


def test_what_is_ignored_stays_so() -> None:
    """As with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with as_ctrl_c() as ending:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert ending.code(1) == 1
    finally:
        signal.signal(signal.SIGHUP, before)


def test_elsewhere_than_in_the_main_thread_nothing_is_changed() -> None:
    found = []

    def work() -> None:
        with as_ctrl_c():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]
