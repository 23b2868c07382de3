"""The commands ``pdmm federate ...``: parse, call, show."""

import typer

from pdmm.cli.federate import (
    demo_command,
    kit_commands,
    node_commands,
    run_commands,
    status_command,
    study_commands,
)

app = typer.Typer(
    help="Runs between organisations whose data may not move, over NVIDIA FLARE.",
    no_args_is_help=True,
)
app.command()(demo_command.demo)
app.command()(kit_commands.site)
app.command()(kit_commands.server)
app.command()(kit_commands.check)
app.command()(kit_commands.audit)
app.command()(study_commands.describe)
app.command()(study_commands.fit)
app.command()(study_commands.evaluate)
app.command()(node_commands.start)
app.command()(node_commands.stop)
app.command()(run_commands.submit)
app.command()(run_commands.resume)
app.command()(status_command.status)
