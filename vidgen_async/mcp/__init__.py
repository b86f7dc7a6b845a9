"""The tools of the service for agents, over the Model Context Protocol: ``vidgen mcp``. Needs the extra ``mcp``.

Agents repeat calls. An order id makes that harmless: equal calls are one order, and one charge. A budget limits what an
agent can order. What is uncertain is left to a person: there are no tools for these decisions.
"""

try:
    from vidgen_async.mcp.server import serve
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "pydantic"):
        raise
    raise ImportError('vidgen_async.mcp needs mcp: pip install "vidgen-async[mcp]"') from error

__all__ = ["serve"]
