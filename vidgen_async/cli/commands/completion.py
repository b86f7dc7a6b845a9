"""``vidgen completion``: the script for a shell."""

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from vidgen_async.cli.terminal.exit_codes import EXIT_CODES

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(epilog=EXIT_CODES)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the shell script that completes commands and options.

    It completes option values and order ids too. To install it:

    \b
      eval "$(vidgen completion bash)"      in ~/.bashrc
      eval "$(vidgen completion zsh)"       in ~/.zshrc
      vidgen completion fish | source       in ~/.config/fish/config.fish
    """
    click.echo(SHELLS[shell](context.find_root().command, {}, "vidgen", "_VIDGEN_COMPLETE").source())
