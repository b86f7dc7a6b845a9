"""``vidgen completion``: the script for a shell."""

import re

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete, add_completion_class


@add_completion_class
class QuotedBashComplete(BashComplete):
    """Completion in bash. It inserts words as they are, so they are quoted here; zsh and fish quote them themselves."""

    source_template = """\
%(complete_func)s() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            plain,*) COMPREPLY+=("${line#*,}") ;;
            dir,*) compopt -o dirnames ;;
            file,*) compopt -o default ;;
        esac
    done <<< "$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete "$1")"
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def format_completion(self, item: CompletionItem) -> str:
        """A backslash before each special character works inside quotation marks, too."""
        value = re.sub(r"[^\w%+,./:=@-]", r"\\\g<0>", item.value)
        return f"{item.type},{value}"


@add_completion_class
class WholeFishComplete(FishComplete):
    """Completion in fish, of whole words: the script of click ends them at a comma."""

    source_template = FishComplete.source_template.replace('split ","', 'split --max 1 ","')


SHELLS = {"bash": QuotedBashComplete, "zsh": ZshComplete, "fish": WholeFishComplete}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the shell script that completes commands and options.

    It completes option values and order ids too. To install it:

    \b
      eval "$(vidgen completion bash)"    # in ~/.bashrc
      eval "$(vidgen completion zsh)"     # in ~/.zshrc
      vidgen completion fish | source     # in config.fish
    """
    click.echo(SHELLS[shell](context.find_root().command, {}, "vidgen", "_VIDGEN_COMPLETE").source())
