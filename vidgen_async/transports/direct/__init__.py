"""The transport that uses the network, through aiohttp."""
